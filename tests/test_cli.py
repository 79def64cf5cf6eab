"""The command line as a person meets it: help, one clear line for bad input, nothing half made."""

from __future__ import annotations

import json
import shutil
import zipfile

import numpy as np
import pytest

from wearjax import cli
from wearjax.days.store import DayStore

RECORD = (
    '<Record type="HKQuantityTypeIdentifierStepCount" sourceName="w" unit="count" '
    'device="&lt;&lt;HKDevice: 0x1&gt;, name:Apple Watch, model:Watch, hardware:Watch4,4&gt;" '
    'startDate="2026-01-03 06:00:00 -0800" endDate="2026-01-03 06:01:00 -0800" value="7"/>'
)
XML = f'<?xml version="1.0"?><HealthData><ExportDate value="2026-02-01 00:00:00 -0800"/>{RECORD}</HealthData>'
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE HealthData [<!ENTITY a "aaaaaaaaaa">'
    '<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><HealthData><Me x="&b;"/></HealthData>'
)


def run(capsys, *args: object) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of one command."""
    status = 0
    try:
        cli.main([str(a) for a in args])
    except SystemExit as stop:
        status = int(stop.code or 0)
    out = capsys.readouterr()
    return status, out.out, out.err


def refused(capsys, *args: object) -> str:
    """The one line a refused command prints."""
    status, _, err = run(capsys, *args)
    assert status == 1
    lines = [line for line in err.splitlines() if line.strip()]
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    return lines[0]


def zipped(path, name: str, text: str):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, text)
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A small synthetic store."""
    path = tmp_path_factory.mktemp("cli") / "days"
    cli.main(["data", "synth", "--out", str(path), "--participants", "12", "--days", "3", "--seed", "3"])
    return path


@pytest.fixture(scope="module")
def trained(store):
    """A run of a few steps, one device so that the batch of 4 need not divide over eight."""
    out = store.parent / "run"
    cli.main(
        ["pretrain", "tiny", "--data", str(store), "--out", str(out), "--loop.steps", "3", "--loop.devices", "1",
         "--loop.validation-examples", "4", "--data.batch-size", "4", "--loop.checkpoint-every", "2"]
    )  # fmt: skip
    return out


def test_help_lists_every_verb(capsys):
    status, out, _ = run(capsys, "--help")
    assert status == 0
    for words in cli.VERBS:
        assert "wearjax " + " ".join(words) in out


@pytest.mark.parametrize("words", list(cli.VERBS), ids=" ".join)
def test_every_verb_explains_itself(capsys, words):
    status, out, _ = run(capsys, *words, "--help")
    assert status == 0
    assert "usage: wearjax " + " ".join(words) in out


def test_unknown_verb_suggests_the_near_one(capsys):
    assert "did you mean 'impute'" in refused(capsys, "imput")


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("empty zip", lambda p: zipfile.ZipFile(p, "w").close()),
        ("not a zip", lambda p: p.write_bytes(b"PK\x03\x04 this is no archive")),
        ("unsafe name", lambda p: zipped(p, "../export.xml", XML)),
        ("truncated XML", lambda p: zipped(p, "export.xml", XML[:-30])),
        ("entity bomb", lambda p: zipped(p, "export.xml", BOMB)),
        ("no health data", lambda p: zipped(p, "export.xml", "<html></html>")),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_bad_export_leaves_no_store(capsys, tmp_path, name, make):
    source = tmp_path / "export.zip"
    make(source)
    line = refused(capsys, "data", "import", "apple-health", source, "--out", tmp_path / "store")
    assert "export" in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["export.zip"]


def test_a_kept_partial_export_still_fails(capsys, tmp_path):
    source = zipped(tmp_path / "export.zip", "export.xml", XML.removesuffix("</HealthData>"))
    status, _, err = run(
        capsys, "data", "import", "apple-health", source, "--out", tmp_path / "store", "--keep-partial"
    )
    assert status == 1
    assert "were kept" in err
    assert len(DayStore(tmp_path / "store")) == 1


def test_an_option_of_another_importer_is_refused(capsys, tmp_path):
    line = refused(
        capsys, "data", "import", "fitbit", tmp_path, "--out", tmp_path / "s", "--zone", "Europe/Rome"
    )
    assert "zone" in line


def test_a_store_with_a_missing_shard(capsys, store, tmp_path):
    broken = shutil.copytree(store, tmp_path / "days")
    (broken / "shards" / "00000.npy").unlink()
    assert "00000.npy" in refused(capsys, "data", "inspect", broken)


def test_an_import_never_overwrites_by_itself(capsys, store):
    before = (store / "store.json").read_bytes()
    assert "--force" in refused(capsys, "data", "synth", "--out", store)
    assert (store / "store.json").read_bytes() == before


def test_an_unknown_field_names_the_near_one(capsys, store, tmp_path):
    line = refused(capsys, "pretrain", "tiny", "--data", store, "--out", tmp_path / "run", "--loop.step", "3")
    assert "loop.steps" in line
    assert not (tmp_path / "run").exists()


def test_an_unknown_field_in_a_configuration_file(capsys, store, tmp_path):
    config = tmp_path / "mine.py"
    config.write_text(
        "from wearjax.models.lsm2 import LSM2Config\nfrom wearjax.train.config import PretrainConfig\n"
        "def get_config():\n    return PretrainConfig(name='x', model=LSM2Config(depth=3))\n"
    )
    assert "depth" in refused(capsys, "pretrain", config, "--data", store, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_of_another_model_size(capsys, store, trained, tmp_path):
    run_folder = shutil.copytree(trained, tmp_path / "run")
    settings = json.loads((run_folder / "config.json").read_text())
    settings["model"]["encoder_dim"] = 64
    (run_folder / "config.json").write_text(json.dumps(settings))
    shutil.rmtree(run_folder / "bundle")
    line = refused(
        capsys, "pretrain", "tiny", "--data", store, "--out", run_folder, "--loop.steps", "3", "--loop.devices", "1",
        "--loop.validation-examples", "4", "--data.batch-size", "4", "--loop.checkpoint-every", "2",
        "--model.encoder-dim", "64",
    )  # fmt: skip
    assert "(" in line  # the shapes
    assert not (run_folder / "bundle").exists()


def test_a_bundle_of_another_model_size(capsys, store, trained, tmp_path):
    bundle = shutil.copytree(trained / "bundle", tmp_path / "bundle")
    facts = json.loads((bundle / "bundle.json").read_text())
    facts["config"]["encoder_dim"] = 64
    (bundle / "bundle.json").write_text(json.dumps(facts))
    line = refused(capsys, "impute", bundle, store, "--out", tmp_path / "filled")
    assert "weights.npz" in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bundle"]


def test_impute_fills_every_cell_and_keeps_the_measured_ones(capsys, store, trained, tmp_path):
    status, _, _ = run(capsys, "impute", trained / "bundle", store, "--out", tmp_path / "filled")
    assert status == 0
    before, after = DayStore(store), DayStore(tmp_path / "filled" / "days")
    assert len(before) == len(after)
    for i in range(len(before)):
        measured = ~np.isnan(before.values(i))
        assert np.isfinite(after.values(i)).all()
        np.testing.assert_array_equal(after.values(i)[measured], before.values(i)[measured])
    assert "<svg" in (tmp_path / "filled" / "report.html").read_text()
    assert (
        refused(capsys, "impute", trained / "bundle", store, "--out", tmp_path / "filled").count("--force")
        == 1
    )


def test_an_impute_stopped_before_its_pages_goes_on_with_them(capsys, trained, tmp_path, monkeypatch):
    from wearjax.predict import fill, hidden_errors

    store, out = tmp_path / "one", tmp_path / "filled"
    cli.main(["data", "synth", "--out", str(store), "--participants", "3", "--days", "1", "--seed", "5"])
    command = ("impute", trained / "bundle", store, "--out", out)
    assert run(capsys, *command)[0] == 0
    pages = ("report.html", "your_days.html", "predictions/person_days.npz", "predictions/hidden_errors.npz")
    whole = {name: (out / name).read_bytes() for name in pages}
    assert "pass --force" in refused(capsys, *command)
    monkeypatch.setattr(fill, "fill_days", lambda *_, **__: pytest.fail("filled again"))
    measured = hidden_errors.load(out / pages[3])
    monkeypatch.setattr(hidden_errors, "measure", lambda *_, **__: measured)  # which takes longest
    for name in pages:
        (out / name).unlink()
    assert run(capsys, *command)[0] == 0
    assert {name: (out / name).read_bytes() for name in pages} == whole
    for name in pages[:2]:
        (out / name).unlink()
    assert run(capsys, "report", out)[0] == 0
    assert {name: (out / name).read_bytes() for name in pages} == whole


def test_evaluate_writes_scores_and_a_report(capsys, store, trained, tmp_path):
    status, out, _ = run(
        capsys, "evaluate", "imputation", store, "--bundle", trained / "bundle", "--methods", "mean", "linear",
        "--scenarios", "random_noise", "temporal_slice", "--out", tmp_path / "scores", "--bootstrap", "20",
    )  # fmt: skip
    assert status == 0
    assert "linear" in out
    for name in ("scores.parquet", "results.json", "per_user_errors.parquet", "report.html"):
        assert (tmp_path / "scores" / name).is_file()


def test_pypots_trains_and_says_where(tmp_path, capsys, monkeypatch):
    """Options reach the training; an unknown one is one line."""
    from wearjax.predict.imputers import pypots_training

    seen = {}
    monkeypatch.setattr(pypots_training, "train", lambda model, **options: seen.update(options, model=model))
    data, out = str(tmp_path / "days"), str(tmp_path / "out")
    command = ["pypots", "brits", "--data", data, "--out", out]
    cli.main([*command, "--model.rnn-hidden-size", "8", "--training.epochs", "3"])
    assert (seen["model"].rnn_hidden_size, seen["training"].epochs, seen["training"].clip_norm) == (8, 3, 1.0)
    assert "out" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main([*command, "--model.n-layers", "8"])
    assert "no such field" in capsys.readouterr().err


def test_an_option_given_twice_is_refused(tmp_path, capsys):
    """The parser would silently forget the first."""
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "imputation", "d", "--bundle", "a", "--bundle=b", "--out", str(tmp_path)])
    assert "--bundle is given twice" in capsys.readouterr().err
