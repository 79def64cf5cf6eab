"""Exported models: the same numbers as the live bundle, nothing of the model's code, and clear refusals."""

from __future__ import annotations

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import wearjax
from wearjax import cli
from wearjax.convert import bundle as bundles
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError, ConfigError, MethodError
from wearjax.models import dlinear, dlinear_forecast, lsm2, lsm2_sparse, registry, segrnn, wbm
from wearjax.predict import exported, stablehlo
from wearjax.predict.pretrained import Pretrained

TINY = dict(
    minutes=240, patch=60, encoder_dim=16, encoder_depth=1, encoder_heads=2, decoder_dim=8, decoder_heads=2,
    mlp_ratio=2, dropout=0.0,
)  # fmt: skip
CONFIGS = {
    "lsm2": lsm2.LSM2Config(**TINY, decoder_depth=1),
    "lsm2_sparse": lsm2_sparse.LSM2SparseConfig(**TINY, decoder_depth=2, n_days=3, window_minutes=60),
    "wbm": wbm.WBMConfig(dim=16, tokenizer_hidden=8, depth=1, d_state=8, headdim=8, projection_dim=8),
    "dlinear": dlinear.DLinearConfig(minutes=120, window=7, d_model=4),
    "dlinear_forecast": dlinear_forecast.DLinearForecastConfig(),
    "segrnn": segrnn.SegRNNConfig(d_model=8),
}
STATS = NormalizationStats(np.linspace(0, 50, 19) * (np.arange(19) < 7), np.ones(19) + (np.arange(19) < 7))


def alike(found, wanted):
    """Equal to 1e-5 of the largest value, NaN at the same places."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * max(1.0, np.nanmax(np.abs(wanted))))


def bundle_of(kind: str) -> bundles.Bundle:
    architecture = registry.get(kind)
    graph, shapes = nnx.split(nnx.eval_shape(lambda: architecture.build(CONFIGS[kind], rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(5)
    filled = jax.tree.map(lambda p: jnp.asarray(rng.normal(0, 0.2, p.shape), p.dtype), shapes)
    return bundles.Bundle(kind, CONFIGS[kind], nnx.merge(graph, filled), STATS)


def made(count: int, minutes: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    data = rng.normal(50, 2, (count, 19, minutes)).astype(np.float32)
    data[:, 7:] = rng.random((count, 12, minutes)) < 0.3
    observed = rng.random(data.shape) < 0.8
    data[~observed] = np.nan
    target = np.zeros(data.shape, bool)
    target[:, :, minutes // 4 : minutes // 2] = True
    return data, observed, target


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Bundle and export of a kind, made once."""
    kept = {}

    def of(kind, **options):
        key = (kind, *options.items())
        if key not in kept:
            bundle = bundle_of(kind)
            out = tmp_path_factory.mktemp(kind) / "exported"
            kept[key] = bundle, stablehlo.export_bundle(bundle, out, **options)
        return kept[key]

    return of


# Other kinds of imputer and forecaster differ from these in the model alone.
@pytest.mark.parametrize("kind", ["lsm2", "dlinear"])
def test_an_exported_imputer_gives_the_same_cells(kind, folders):
    bundle, folder = folders(kind)
    data, observed, target = made(5, 240)
    target[3] = False  # a day without anything to predict is handed through
    wanted = Pretrained(bundle, batch_size=4).impute(data, observed, target)
    model = wearjax.load_exported(folder, batch_size=4)
    found = model.impute(data, observed, target)
    alike(found, wanted)
    np.testing.assert_array_equal(found[~target], data[~target])
    assert np.isfinite(found[target]).all()


def test_what_lies_under_a_target_does_not_leak(folders):
    model = wearjax.load_exported(folders("dlinear")[1])
    data, observed, target = made(1, 240)
    other = np.where(target, np.float32(1e9), data)
    one, two = (model.impute(x, observed | target, target) for x in (data, other))
    np.testing.assert_array_equal(one[target], two[target])


def test_an_exported_window_model_gives_the_same_cells(folders):
    bundle, folder = folders("lsm2_sparse")
    data, observed, target = made(2, 2 * 240)  # shorter than the window
    offsets = np.array([[0, 4], [-1, 0]])
    wanted = Pretrained(bundle, batch_size=2).impute(data, observed, target, day_offsets=offsets)
    model = wearjax.load_exported(folder, batch_size=2)
    alike(model.impute(data, observed, target, day_offsets=offsets), wanted)
    assert not np.allclose(model.impute(data, observed, target)[0], wanted[0])  # the distance of days counts
    with pytest.raises(MethodError, match=r"whole day_offsets of shape \(2, 2\)"):
        model.impute(data, observed, target, day_offsets=np.zeros((2, 3), int))


@pytest.mark.parametrize(("kind", "shape"), [("lsm2", (19, 240)), ("wbm", (168, 19))])
def test_an_exported_encoder_gives_the_same_vectors(kind, shape, folders):
    bundle, folder = folders(kind)
    rng = np.random.default_rng(1)
    values = rng.normal(50, 3, (3, *shape)).astype(np.float32)
    values[rng.random(values.shape) < 0.002] = np.nan
    found = wearjax.load_exported(folder, batch_size=2).embed(values)
    alike(found, Pretrained(bundle, batch_size=2).embed(values))
    assert np.abs(found[0] - found[1]).max() > 1e-3


@pytest.mark.parametrize("kind", ["dlinear_forecast", "segrnn"])
def test_an_exported_forecaster_gives_the_same_hours(kind, folders):
    bundle, folder = folders(kind)
    history = np.random.default_rng(2).normal(50, 3, (19, 100)).astype(np.float32)
    history[3, 50:60] = np.nan
    horizon = bundle.config.horizon
    model = wearjax.load_exported(folder)
    alike(model.forecast(history, horizon), Pretrained(bundle).forecast(history, horizon))
    method = model.as_forecaster(None)
    np.testing.assert_array_equal(method.predict(history, horizon), model.forecast(history, horizon))
    assert method.settings == {"exported": model.manifest["digest"]}
    with pytest.raises(MethodError, match=f"forecasts {horizon} hours, {horizon + 1} are asked for"):
        model.forecast(history, horizon + 1)
    with pytest.raises(MethodError, match=r"a history of shape \(19, hours\)"):
        model.forecast(history.T, horizon)


def test_a_fixed_batch_and_one_platform(folders):
    bundle, folder = folders("dlinear", batch=3, platforms=("cpu",))
    model = wearjax.load_exported(folder, batch_size=16)
    assert model.batch_size == 3
    data, observed, target = made(4, 120)
    found = model.impute(data, observed, target)
    alike(found, Pretrained(bundle).impute(data, observed, target))
    assert model.manifest["platforms"] == ["cpu"]


def test_a_program_compiles_once_a_shape(folders):
    model = wearjax.load_exported(folders("dlinear")[1], batch_size=4)
    days = made(9, 120)
    whole = model.impute(*days)
    for count in (2, 4, 1, 1):
        alike(model.impute(*(x[:count] for x in days)), whole[:count])
    assert model._calls["impute"]._cache_size() == 2  # batches of 4 and of 1


def test_a_live_model_compiles_once_a_shape():
    bundle = bundle_of("dlinear")
    model = Pretrained(bundle, batch_size=4)
    days = made(9, 120)
    whole = model.impute(*days)
    for count in (2, 4, 1, 1):
        alike(model.impute(*(x[:count] for x in days)), whole[:count])
    assert sorted(model._imputers) == [1, 4]
    assert [m._reconstruct.func._cache_size() for m in model._imputers.values()] == [1, 1]
    with pytest.raises(MethodError, match="a model of kind 'wbm' cannot impute"):
        Pretrained(bundle_of("wbm")).impute(*made(1, 60))


def test_the_manifest_says_how_to_call_it(folders):
    bundle, folder = folders("lsm2_sparse")
    manifest = json.loads((folder / "manifest.json").read_text())
    values, offsets = manifest["programs"]["impute"]["inputs"]
    assert (values["name"], values["shape"], values["dtype"]) == ("values", ["batch", 19, 720], "float32")
    assert (offsets["name"], offsets["shape"], offsets["dtype"]) == ("day_offsets", ["batch", 3], "int32")
    assert manifest["programs"]["impute"]["outputs"][0]["shape"] == ["batch", 19, 720]
    assert manifest["platforms"] == ["cpu", "cuda", "tpu"]
    assert manifest["parameters"] == bundles.describe(bundle)["parameters"]
    assert len(manifest["channels"]["names"]) == 19


def test_it_runs_without_the_code_of_the_model(folders):
    folder = folders("dlinear")[1]
    code = (
        "import sys, numpy as np, wearjax\n"
        f"model = wearjax.load_exported({str(folder)!r})\n"
        "data = np.full((1, 19, 240), 50, np.float32)\n"
        "assert np.isfinite(model.impute(data, data > 0, data > 60)).all()\n"
        "rooms = ('flax', 'orbax', 'wearjax.models', 'wearjax.layers', 'wearjax.train', 'wearjax.convert')\n"
        "print([name for name in sys.modules if name.startswith(rooms)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda m, d, o, t: m.impute(d[:, :5], o, t),
            r"expected \(batch, 19, k·240\) values, got \(1, 5, 240\)",
        ),
        (lambda m, d, o, t: m.impute(d[..., :100], o, t), r"expected \(batch, 19, k·240\)"),
        (lambda m, d, o, t: m.impute(d, o[:, :5], t), "observed_mask: expected the shape of the data"),
        (lambda m, d, o, t: m.impute(d.astype(int), o, t), "expected an array of float32, got int64"),
        (lambda m, d, o, t: m.impute([1.0], o, t), "expected an array of float32, got list"),
        (lambda m, d, o, t: m.impute(d, o, t, out=d.astype(np.float64)), "out: expected float32"),
        (lambda m, d, o, t: m.embed(d[0]), r"embed: expected \(example, 19, 240\) values"),
        (lambda m, d, o, t: m.forecast(d[0], 24), "exported for impute, embed; it cannot forecast"),
    ],
)
def test_wrong_input_is_refused_in_one_line(call, words, folders):
    data, observed, target = made(1, 240)
    with pytest.raises(MethodError, match=words) as caught:
        call(wearjax.load_exported(folders("lsm2")[1]), np.nan_to_num(data), observed, target)
    assert "\n" not in str(caught.value)


def damaged(source, folder, change):
    folder.mkdir()
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    change(folder)
    with pytest.raises(CheckpointError) as caught:
        wearjax.load_exported(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def edited(**changes):
    def change(folder):
        file = folder / "manifest.json"
        manifest = json.loads(file.read_text()) | changes
        manifest["digest"] = manifest["digest"] if "digest" in changes else exported.digest(manifest)
        file.write_text(json.dumps({k: v for k, v in manifest.items() if v is not None}))

    return change


def flipped(name):
    def change(folder):
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (flipped("impute.stablehlo"), "impute.stablehlo: damaged"),
        (lambda f: (f / "impute.stablehlo").write_bytes(b""), "impute.stablehlo: damaged"),
        (lambda f: (f / "impute.stablehlo").unlink(), "impute.stablehlo: not readable"),
        (lambda f: (f / "manifest.json").unlink(), "not an exported model (no manifest.json)"),
        (lambda f: (f / "manifest.json").write_text("{"), "manifest.json: not readable as a manifest"),
        (lambda f: (f / "manifest.json").write_text("[]"), "manifest.json: not readable as a manifest"),
        (edited(format=9), "export format 9, this version reads 1"),
        (edited(sizes=None), "no sizes"),
        (edited(kind="other", digest="0"), "damaged or edited"),
        (edited(channels={"digest": "0"}), "another channel table"),
    ],
)
def test_a_damaged_export_is_told_in_one_line(change, words, folders, tmp_path):
    assert words in damaged(folders("dlinear")[1], tmp_path / "damaged", change)


def test_another_platform_is_refused(folders):
    folder = folders("dlinear", platforms=("tpu",))[1]
    with pytest.raises(MethodError, match="exported for tpu; this process runs on cpu"):
        wearjax.load_exported(folder)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tasks": ("forecast",)}, MethodError, "a model of kind 'dlinear' cannot forecast; it can impute"),
        ({"tasks": ("dream",)}, ConfigError, "task: expected one of impute, embed, forecast, got 'dream'"),
        ({"batch": 0}, ConfigError, "batch: expected a number of at least 1, or any; got 0"),
        ({"batch": "many"}, ConfigError, "or any; got 'many'"),
        ({"platforms": ("abacus",)}, ConfigError, "platforms: expected some of cpu, cuda, tpu, got 'abacus'"),
        ({"platforms": ()}, ConfigError, "platforms: none given"),
    ],
)
def test_impossible_exports_are_refused(options, error, words, tmp_path):
    with pytest.raises(error, match=words):
        stablehlo.export_bundle(bundle_of("dlinear"), tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


def test_the_verb_writes_once(tmp_path, capsys):
    bundle = bundle_of("dlinear")
    path = bundles.save_bundle(
        tmp_path / "bundle", kind="dlinear", config=bundle.config, model=bundle.model, stats=STATS
    )
    command = [
        "convert",
        "stablehlo",
        str(path),
        "--out",
        str(tmp_path / "out"),
        "--batch",
        "2",
        "--platforms",
        "cpu",
    ]
    cli.main(command)
    assert "impute.stablehlo" in capsys.readouterr().out
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    with pytest.raises(SystemExit):
        cli.main(command)
    assert "pass --force" in capsys.readouterr().err
    cli.main([*command, "--force"])
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == before  # the same bytes
    (tmp_path / "mine").mkdir()
    with pytest.raises(CheckpointError, match="not an exported model; refusing to replace it"):
        stablehlo.export_bundle(bundle, tmp_path / "mine", overwrite=True)
