"""The PyTorch statements of `benchmarks/`, small configurations, and models with every parameter far from its start."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax.models import lsm2, lsm2_sparse, registry, wbm

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

SIZES = dict(
    encoder_dim=16, encoder_depth=2, encoder_heads=2, decoder_dim=12, decoder_depth=1, decoder_heads=3, mlp_ratio=2,
)  # fmt: skip
DAILY = lsm2.LSM2Config(patch=240, dropout=0.0, **SIZES)
WEEKLY = lsm2.LSM2Config(minutes=10080, patch=1680, dropout=0.0, **SIZES)
SPARSE = lsm2_sparse.LSM2SparseConfig(
    patch=240, window_minutes=480, dropout=0.0, **{**SIZES, "decoder_depth": 4, "decoder_heads": 3}
)
WEEK = wbm.WBMConfig(
    hours=24,
    dim=16,
    tokenizer_hidden=8,
    depth=2,
    d_state=6,
    headdim=8,
    ffn_ratio=2,
    projection_dim=5,
    dropout=0.0,
)
CONFIGS = {"lsm2": DAILY, "lsm2_sparse": SPARSE, "wbm": WEEK}


def statement(name: str):
    """A file of `benchmarks/` as a module; the test is skipped without PyTorch."""
    torch = pytest.importorskip("torch", reason="the models are restated in PyTorch")
    torch.set_num_threads(1)  # small arrays, shared cores
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def torch_lsm2(config, *, sparse: bool = False):
    """The PyTorch model of a configuration, in evaluation mode."""
    module = statement("torch_lsm2")
    sizes = {name: getattr(config, name) for name in ("minutes", "patch", "dropout", *SIZES)}
    if sparse:
        sizes |= {"n_days": config.n_days, "window_minutes": config.window_minutes}
    return (module.LSM2Sparse if sparse else module.LSM2)(**sizes).eval()


def torch_wbm(config):
    module = statement("torch_wbm")
    same = (
        "dim",
        "tokenizer_hidden",
        "depth",
        "ffn_ratio",
        "dropout",
        "projection_dim",
        "d_state",
        "d_conv",
        "expand",
    )
    sizes = {name: getattr(config, name) for name in same}
    return module.WBM(**sizes, head_dim=config.headdim).eval()


def drawn(kind: str, config, seed: int = 0, scale: float = 0.3):
    """A model of random weights, biases and norms included."""
    build = registry.get(kind).build
    graph, state = nnx.split(nnx.eval_shape(lambda: build(config, rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(seed)
    return nnx.merge(
        graph, jax.tree.map(lambda p: jnp.asarray(rng.normal(0.1, scale, p.shape), jnp.float32), state)
    )


def parameters(model) -> dict[str, np.ndarray]:
    """By dotted name; also of gradients."""
    state = model if isinstance(model, nnx.State) else nnx.state(model, nnx.Param)
    return {".".join(map(str, path)): np.asarray(leaf[...]) for path, leaf in nnx.to_flat_state(state)}


def load(torch_model, state_dict) -> None:
    import torch

    torch_model.load_state_dict({name: torch.tensor(np.array(array)) for name, array in state_dict.items()})
