"""Prefixes of adapted models, and the merge against the adapted layer computed as it is run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.convert import lora
from wearjax.errors import CheckpointError


def adapted(n_out=5, n_in=4, rank=2, seed=0):
    rng = np.random.default_rng(seed)
    made = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    return {
        "block.q.base_layer.weight": made(n_out, n_in),
        "block.q.base_layer.bias": made(n_out),
        "block.q.lora_A.default.weight": made(rank, n_in),
        "block.q.lora_B.default.weight": made(n_out, rank),
        "norm.weight": made(n_in),
    }


@given(st.integers(1, 3), st.sampled_from([None, 1.0, 8.0, 16.0]))
def test_merged_weights_do_what_the_adapted_layer_does(rank, alpha):
    state = adapted(rank=rank)
    plain = lora.merged(state, alpha=alpha)
    assert set(plain) == {"block.q.weight", "block.q.bias", "norm.weight"}
    x = np.random.default_rng(1).normal(size=4)
    scale = 1.0 if alpha is None else alpha / rank
    down, up = state["block.q.lora_A.default.weight"], state["block.q.lora_B.default.weight"]
    wanted = state["block.q.base_layer.weight"] @ x + scale * (up @ (down @ x))
    np.testing.assert_allclose(plain["block.q.weight"] @ x, wanted, rtol=1e-5, atol=1e-5)
    assert plain["block.q.weight"].dtype == np.float32
    np.testing.assert_array_equal(plain["block.q.bias"], state["block.q.base_layer.bias"])


def test_default_scale_is_one():
    state = adapted(rank=2)
    np.testing.assert_array_equal(
        lora.merged(state)["block.q.weight"], lora.merged(state, alpha=2.0)["block.q.weight"]
    )
    assert not np.array_equal(
        lora.merged(state, alpha=4.0)["block.q.weight"], lora.merged(state)["block.q.weight"]
    )


def test_without_adapters_nothing_changes():
    state = {"a.weight": np.ones((2, 2)), "a.base_layer.bias": np.ones(2)}
    assert set(lora.merged(state)) == {"a.weight", "a.bias"}


def test_prefixes():
    inner = {"a.weight": np.ones(1), "base_model.b": np.ones(2)}
    for prefix in lora.PREFIXES:
        state = {prefix + key: value for key, value in inner.items()}
        assert set(lora.without_prefix({**state, "loss.weight": np.ones(1)})) == set(inner)
    assert set(lora.without_prefix({"a": np.ones(1), "b": np.ones(1)})) == {"a", "b"}
    assert set(lora.without_prefix({"model.a": np.ones(1)}, prefixes=("model.",))) == {"a"}


def test_what_does_not_fit_is_named():
    for lacking in (
        "block.q.lora_A.default.weight",
        "block.q.lora_B.default.weight",
        "block.q.base_layer.weight",
    ):
        state = {key: value for key, value in adapted().items() if key != lacking}
        with pytest.raises(CheckpointError, match=r"block\.q.*missing"):
            lora.merged(state)
    state = adapted()
    state["block.q.lora_A.default.weight"] = np.ones((2, 3), np.float32)
    with pytest.raises(CheckpointError, match=r"block\.q\.weight: \(5, 4\)"):
        lora.merged(state)
