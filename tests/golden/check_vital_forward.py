"""Forecasts of the seven VitalBench models that the reference can run, in both precisions."""

from __future__ import annotations

import contextlib
import math

import harness
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from wearjax.convert import vital_layout
from wearjax.models.vital import mambats, patches, registry

# Our field: the reference's, where a configuration has it.
FIELDS = {
    "n_channels": "enc_in",
    "context": "seq_len",
    "horizon": "pred_len",
    "d_model": "d_model",
    "d_ff": "d_ff",
    "n_heads": "n_heads",
    "depth": "e_layers",
    "patch": "patch_len",
    "stride": "stride",
    "window": "moving_avg",
    "normalise": "RevIN_mode",
}


@harness.checks("vital_forward")
def check(case: dict) -> None:
    config = config_of(case)
    weights = {
        name: np.array(w["values"], np.float64).reshape(w["shape"]) for name, w in case["weights"].items()
    }
    wanted = np.array(case["output"])
    with jax.enable_x64(True), reference_positions():
        found = forecast(config, weights, np.array(case["input_x"], np.float64))
    harness.close(found, wanted, rtol=0, atol=1e-8, what="float64")
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    found = forecast(config, weights, np.array(case["input_x"], np.float32))
    assert found.dtype == np.float32
    harness.close(found, wanted, rtol=0, atol=1e-5, what="float32")
    if "n_trainable" in case:
        assert registry.parameter_counts(config).trainable == case["n_trainable"]


@contextlib.contextmanager
def reference_positions():
    """The float32 position table as PyTorch rounds it: the files leave it out, and the last bit of a sine shows."""

    def positions(n: int, dim: int) -> np.ndarray:
        frequencies = (torch.arange(0, dim, 2).float() * -(math.log(10000.0) / dim)).exp()
        angles = torch.arange(n).float()[:, None] * frequencies
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(n, -1)[:, :dim].numpy()
        np.testing.assert_allclose(ours(n, dim), table, rtol=0, atol=2e-7 * max(1, n / 8))
        return table

    ours = patches.positions
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patches, "positions", positions)
        yield


def config_of(case: dict):
    """Sizes of a case; switches that our models do not have must be off."""
    given, architecture = case["config"], registry.get(case["model"])
    for switch in ("shuffle_mode", "arrange_mode", "use_casual_conv"):
        assert not given.get(switch), switch
    assert given.get("activation", "gelu") == "gelu"
    fields = architecture.config.__dataclass_fields__
    sizes = {ours: given[theirs] for ours, theirs in FIELDS.items() if ours in fields and theirs in given}
    if "normalise" in fields:
        sizes["normalise"] = bool(given["RevIN_mode"])
    else:
        assert not given.get("RevIN_mode")
    if architecture.kind == "micn":  # its layers are the decoder's
        sizes["depth"] = given["d_layers"]
    if architecture.config is mambats.MambaTSConfig:
        sizes["d_state"] = case["weights"]["encoder.layers.0.mixer.A_log"]["shape"][1]
    return architecture.config(**sizes)


def forecast(config, weights: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    graph, state = nnx.split(vital_layout.load(config, weights))
    run = jax.jit(lambda state, x: nnx.merge(graph, state)(x))
    with jax.default_matmul_precision("highest"):
        return np.asarray(run(state, jnp.asarray(x)))
