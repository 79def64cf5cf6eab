"""The timing of VitalBench's training steps: what it runs, on tiny batches."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from wearjax import vitals
from wearjax.convert import vital_layout
from wearjax.errors import ConfigError
from wearjax.models.vital import registry
from wearjax.train import vital_throughput

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "torch_vital.py"
RIVAL = """
def make_step(batch_size, *, model):
    assert (batch_size, model) == (2, "dlinear")
    return lambda: None
"""


def test_table(tmp_path):
    file = tmp_path / "rival.py"
    file.write_text(RIVAL)
    _, rows = vital_throughput.measure(kinds=("dlinear",), batch_size=2, repeats=1, against=file)
    assert [row["channels"] for row in rows] == [17, 8]
    assert all(float(row["times faster"]) >= 0 and row["model"] == "DLinear" for row in rows)


def test_a_step_trains():
    centre = vitals.CENTRES["vitaldb"]
    config = registry.published("dlinear", "vitaldb", 1)(12)
    step, _ = vital_throughput.compile_step(
        config, 1e-4, centre=centre, channels=np.arange(9, 17), batch_size=4
    )
    losses = [float(step()[0][0]) for _ in range(3)]
    assert losses[2] < losses[0]


def test_problems(tmp_path):
    with pytest.raises(ConfigError, match="repeats and batch size must be at least 1"):
        vital_throughput.measure(repeats=0)
    with pytest.raises(ConfigError, match="no such file"):
        vital_throughput.measure_kind("dlinear", batch_size=2, against=tmp_path / "none.py")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(ConfigError, match=r"has no function make_step\(batch_size, model=...\)"):
        vital_throughput.measure_kind("dlinear", batch_size=2, against=tmp_path / "empty.py")


@pytest.fixture(scope="module")
def rival_models():
    import importlib.util

    spec = importlib.util.spec_from_file_location("torch_vital", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE_NAMES = {
    "dlinear": {"seasonal.": "Linear_Seasonal.", "trend.": "Linear_Trend."},
    "itransformer": {"embed.": "enc_embedding.value_embedding.", "head.": "projection."},
    "patchtst": {"embed.": "patch_embedding.value_embedding.", "head.": "head.linear."},
}


def reference_name(name: str, kind: str) -> str:
    """Of a parameter of the rival."""
    for ours, theirs in REFERENCE_NAMES[kind].items():
        if name.startswith(ours):
            return theirs + name.removeprefix(ours)
    depth = 2
    if name.startswith(f"encoder.{depth}."):
        return f"encoder.norm.{name.split('.')[-1]}"
    name = (
        name.replace("encoder.", "encoder.attn_layers.")
        .replace("expand", "conv1")
        .replace("contract", "conv2")
    )
    for part in ("query", "key", "value", "out"):
        name = name.replace(f"attention.{part}.", f"attention.{part}_projection.")
    return name


@pytest.mark.parametrize("kind", vital_throughput.KINDS)
def test_the_rival_is_the_same_model(rival_models, kind):
    """The same weights give the same forecasts: what is timed against each other does the same work."""
    torch.manual_seed(0)
    rival = rival_models.MODELS[kind]().eval()
    weights = {}
    for name, tensor in rival.named_parameters():
        theirs = reference_name(name, kind)
        array = tensor.detach().numpy()
        weights[theirs] = array[..., None] if "conv" in theirs and theirs.endswith("weight") else array
    config = registry.published(kind, "vitaldb", 1)(rival_models.HORIZON)
    x, _ = rival_models.made_windows(2, rival_models.HORIZON)
    with torch.no_grad():
        wanted = rival(x).numpy()
    found = registry.forecast(vital_layout.load(config, weights), jnp.asarray(x.numpy()))
    np.testing.assert_allclose(found, wanted, atol=1e-4)
