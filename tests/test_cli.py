"""The command line as a person meets it: help, one clear line for bad input, nothing half made."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from wearjax import cli
from wearjax.cli import output
from wearjax.cli.output import with_options
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


def test_messages_name_options_not_arguments():
    def said(text):
        return with_options(text, cli.VERBS["data", "import"])

    assert said("no option 'include_third_party'") == "no option --include-third-party"
    assert (
        said("a.zip: intraday is needed; intraday=utc fits")
        == "a.zip: --intraday is needed; --intraday utc fits"
    )
    assert said("zone='Rome': expected") == "--zone 'Rome': expected"
    assert said("apps: 'x' wrote nothing here") == "--apps: 'x' wrote nothing here"
    assert said("none was kept; keep_partial=True keeps them") == "none was kept; --keep-partial keeps them"
    assert said("left out (active_energy estimates it)") == "left out (--active-energy estimates it)"
    for path in ("/tmp/keep_partial/x: no", "my.keep_partial: no", "/zone: no such file", "out: exists"):
        assert said(path) == path


def test_an_archive_says_which_option_helps(capsys, tmp_path):
    source = zipped(tmp_path / "export.zip", "export.xml", XML.removesuffix("</HealthData>"))
    line = refused(capsys, "data", "import", "apple-health", source, "--out", tmp_path / "s")
    assert line.endswith("1 record came before, none was kept; --keep-partial keeps them")
    status, _, err = run(
        capsys, "data", "import", "apple-health", source, "--out", tmp_path / "s", "--keep-partial"
    )
    assert (status, err.count("export.zip")) == (1, 1)
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export.xml", XML)
    for format, options in (("apple-health", ()), ("fitbit-takeout", ("--zone", "UTC"))):
        line = refused(capsys, "data", "import", format, tmp_path, "--out", tmp_path / "t", *options)
        assert f"give {source}" in line
    assert "--zone is needed" in refused(
        capsys, "data", "import", "fitbit-takeout", source, "--out", tmp_path / "t"
    )


def test_an_import_says_what_it_kept_and_keeps_no_file_name(capsys, tmp_path):
    records = RECORD + RECORD.replace("06:0", "07:0").replace('"7"', '"1000000"')
    source = zipped(tmp_path / "Jane Secret.zip", "export.xml", XML.replace(RECORD, records))
    status, out, _ = run(capsys, "data", "import", "apple-health", source, "--out", tmp_path / "store")
    told = " ".join(out.replace("│", " ").split())
    assert status == 0
    assert "Implausible, kept as recorded" in told
    assert "watch_steps 1 0 to 400 steps/min" in told
    assert "watch_steps: 1 minute outside 0 to 400 steps/min, kept as recorded" in told
    assert "a minute without a record counts as 0 on a day" in told
    assert "(--absent missing keeps them missing)" in told
    for file in (tmp_path / "store").rglob("*"):
        assert not file.is_file() or b"Secret" not in file.read_bytes()


@pytest.mark.parametrize(
    ("xml", "said"),
    [
        (XML.replace(RECORD, ""), "no record in it"),
        (XML.replace('value="7"', 'value="-7"'), "left out: 1 watch_steps (negative value)"),
    ],
)
def test_an_export_without_a_day_is_named(capsys, tmp_path, xml, said):
    source = zipped(tmp_path / "export.zip", "export.xml", xml)
    line = refused(capsys, "data", "import", "apple-health", source, "--out", tmp_path / "s")
    assert line.startswith(f"error: {source}: no day of recordings found: ")
    assert line.endswith(said)


@pytest.mark.parametrize("wrong", ["../../x", "a/b", "..", "a\\b", "line\nbreak"])
def test_an_id_that_could_name_no_file_is_refused(capsys, tmp_path, wrong):
    source = zipped(tmp_path / "export.zip", "export.xml", XML)
    line = refused(
        capsys, "data", "import", "apple-health", source, "--out", tmp_path / "s", "--participant", wrong
    )
    assert "expected printable characters without slashes" in line


def test_a_narrow_terminal_gets_lines(capsys, monkeypatch):
    rows = [
        {"channel": "watch_steps", "minutes": "1,000", "days": "3"},
        {"channel": "x", "minutes": "", "days": 1},
    ]
    for width, told in ((60, "│ watch_steps │"), (30, "watch_steps: minutes 1,000,\ndays 3\nx: days 1\n")):
        monkeypatch.setattr(output, "console", Console(width=width))
        output.print_rows("Table", rows)
        assert told in "\n".join(line.rstrip() for line in capsys.readouterr().out.split("\n"))


def test_progress_in_a_log_is_a_share(capsys, monkeypatch):
    monkeypatch.setattr(output, "SECONDS_A_LINE", 0)
    with output.Bar("Reading a.zip") as progress:
        progress(1_234_567, 10_000_000)
    assert "Reading a.zip: 12 %" in capsys.readouterr().err


def test_a_store_with_a_missing_shard(capsys, store, tmp_path):
    broken = shutil.copytree(store, tmp_path / "days")
    (broken / "shards" / "00000.npy").unlink()
    assert "00000.npy" in refused(capsys, "data", "inspect", broken)


def test_an_import_never_overwrites_by_itself(capsys, store):
    before = (store / "store.json").read_bytes()
    assert "--force" in refused(capsys, "data", "synth", "--out", store)
    assert "--participants: must be" in refused(
        capsys, "data", "synth", "--out", store, "--participants", "0"
    )
    assert (store / "store.json").read_bytes() == before


def test_every_extra_is_named_in_one_way():
    """Whoever lacks a package is told the one command that brings it."""
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]
    for file in (Path(__file__).parents[1] / "wearjax").rglob("*.py"):
        text = re.sub(r'"\s+f?"', "", file.read_text())  # parts of one literal
        for handler in re.findall(r"except ImportError.*?from (?:None|error)\n", text, re.DOTALL):
            if "raise" in handler and file.name != "bench.py":  # that one imports a file of the user
                found = re.search(r"install it with: pip install 'wearjax\[(\w+)\]'", handler)
                assert found, f"{file}: {handler}"
                assert found[1] in project["optional-dependencies"]


def test_help_lists_configurations_and_their_fields(capsys):
    status, out, _ = run(capsys, "pretrain", "--help")
    assert status == 0
    assert "lsm2_daily" in out
    assert "WBM at the published size" in out
    status, out, _ = run(capsys, "search", "tiny", "--help")
    assert status == 0
    assert "usage: wearjax search" in out
    assert re.search(r"--optimizer.learning_rate +0.001 +float", out)
    status, out, _ = run(capsys, "pypots", "brits", "--help")
    assert re.search(r"--training.epochs +100 +int", out)
    assert "did you mean tiny?" in refused(capsys, "pretrain", "tiyn", "--help")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["pretrain", "tiny", "--seed", "-1"], "--seed: must be"),
        (["pretrain", "tiny", "--loop.steps", "0"], "--loop.steps: must be at least 1"),
        (["pretrain", "tiny", "--data.batch-size", "0"], "--data.batch_size: must be at least 1"),
        (
            ["pretrain", "tiny", "--optimizer.learning-rate", "-1"],
            "--optimizer.learning_rate: must be positive",
        ),
        (["search", "tiny", "--seed", "-1"], "--seed: must be"),
        (["search", "tiny", "--units", "0"], "--units: must be at least 1"),
        (["search", "tiny", "--units", "1000"], "--units: 100 steps of"),
        (["demo", "--steps", "0"], "--steps: must be at least 1"),
        (["bench", "loader", "--size-mb", "3"], "--size-mb: only for wearjax bench import"),
    ],
)
def test_impossible_numbers_name_their_option(capsys, store, tmp_path, args, said):
    data = [] if args[0] in ("demo", "bench") else ["--data", store]
    out = [] if args[0] == "bench" else ["--out", tmp_path / "out"]
    assert refused(capsys, *args, *data, *out).startswith(f"error: {said}")
    assert not (tmp_path / "out").exists()


def test_a_search_ends_with_a_command_that_trains(capsys, store, tmp_path):
    args = ["--data", store, "--loop.steps", "2", "--loop.devices", "1", "--data.batch-size", "4"]
    made = ["--loop.validation-examples", "4", "--model.encoder-depth", "1"]
    status, out, err = run(
        capsys, "search", "tiny", *args, *made, "--trials", "1", "--units", "1", "--out", tmp_path / "search"
    )
    assert status == 0, err
    assert out.startswith("devices: ")
    line = next(one for one in out.splitlines() if one.startswith("To train with the best settings: "))
    command = shlex.split(line.partition(": ")[2])
    assert command[:5] == ["wearjax", "pretrain", "tiny", "--data", str(store)]
    assert command[command.index("--loop.steps") + 1] == "2"
    assert command.count("--data.batch_size") == 1
    assert "--optimizer.learning_rate" in command


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


def test_a_reader_that_leaves_is_no_error():
    read, write = os.pipe()
    os.close(read)
    code = "from wearjax import cli; cli.main(['pretrain', '--help'])"
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
