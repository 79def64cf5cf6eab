"""Names and shapes of the VitalBench reference's state dicts, and of the same parameters here.

Linear weights there are (out, in), here (in, out); convolutions turn into the products that the models make of them.
Arrays are NumPy; nothing here needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from wearjax.convert import pypots_layout
from wearjax.errors import CheckpointError
from wearjax.models.vital import fouriergnn, patches, registry
from wearjax.models.vital.registry import VitalConfig

Weights = Mapping[str, np.ndarray]
Turn = Callable[[np.ndarray], np.ndarray]


class Entry(NamedTuple):
    """One parameter: our dotted name, theirs, and how the array turns either way."""

    ours: str
    theirs: str
    to_ours: Turn
    to_theirs: Turn


# What the reference keeps beside parameters: position tables, and MambaTS's costs of transitions.
_BUFFERS = ("position_embedding.pe", "adjacency_matrix", "count_matrix", "ending_points")


def _same(ours: str, theirs: str) -> Entry:
    return Entry(ours, theirs, np.asarray, np.asarray)


def _single(ours: str, theirs: str) -> Entry:
    """What the reference's scan rounds to float32, whatever the type of the model."""
    return Entry(ours, theirs, lambda w: np.asarray(w, np.float32), np.asarray)


def _dense(ours: str, theirs: str, *, bias: bool = True) -> Iterator[Entry]:
    yield Entry(f"{ours}.kernel", f"{theirs}.weight", np.transpose, np.transpose)
    if bias:
        yield _same(f"{ours}.bias", f"{theirs}.bias")


def _pointwise(ours: str, theirs: str) -> Iterator[Entry]:
    """A convolution of width 1: (out, in, 1)."""
    yield Entry(f"{ours}.kernel", f"{theirs}.weight", lambda w: w[..., 0].T, lambda k: k.T[..., None])
    yield _same(f"{ours}.bias", f"{theirs}.bias")


def _norm(ours: str, theirs: str) -> Iterator[Entry]:
    yield _same(f"{ours}.scale", f"{theirs}.weight")
    yield _same(f"{ours}.bias", f"{theirs}.bias")


def _dlinear(config) -> Iterator[Entry]:
    yield from _dense("seasonal", "Linear_Seasonal")
    yield from _dense("trend", "Linear_Trend")


def _lightts(config) -> Iterator[Entry]:
    for ours, theirs in (("continuous", "layer_1"), ("interval", "layer_2"), ("mix", "layer_3")):
        yield from _dense(f"{ours}.expand", f"{theirs}.spatial_proj.0")
        yield from _dense(f"{ours}.contract", f"{theirs}.spatial_proj.2")
        yield from _dense(f"{ours}.across", f"{theirs}.channel_proj")
        yield from _dense(f"{ours}.out", f"{theirs}.output_proj")
    yield from _dense("over_continuous", "chunk_proj_1")
    yield from _dense("over_interval", "chunk_proj_2")
    yield from _dense("highway", "ar")


def _encoder(depth: int) -> Iterator[Entry]:
    for i in range(depth):
        ours, theirs = f"encoder.layers.{i}", f"encoder.attn_layers.{i}"
        for name in ("query", "key", "value", "out"):
            yield from _dense(f"{ours}.attention.{name}", f"{theirs}.attention.{name}_projection")
        yield from _pointwise(f"{ours}.expand", f"{theirs}.conv1")
        yield from _pointwise(f"{ours}.contract", f"{theirs}.conv2")
        yield from _norm(f"{ours}.norm1", f"{theirs}.norm1")
        yield from _norm(f"{ours}.norm2", f"{theirs}.norm2")
    yield from _norm("encoder.norm", "encoder.norm")


def _itransformer(config) -> Iterator[Entry]:
    yield from _dense("embed", "enc_embedding.value_embedding")
    yield from _encoder(config.depth)
    yield from _dense("head", "projection")


def _patchtst(config) -> Iterator[Entry]:
    yield from _dense("embed.project", "patch_embedding.value_embedding", bias=False)
    yield from _encoder(config.depth)
    n_patches, dim = patches.count(config.context, config.patch, config.stride), config.d_model

    def to_ours(weight):  # (T, D P) -> (P D, T)
        return weight.reshape(-1, dim, n_patches).transpose(2, 1, 0).reshape(n_patches * dim, -1)

    def to_theirs(kernel):
        return kernel.reshape(n_patches, dim, -1).transpose(2, 1, 0).reshape(-1, dim * n_patches)

    yield Entry("head.linear.kernel", "head.linear.weight", to_ours, to_theirs)
    yield _same("head.linear.bias", "head.linear.bias")


def _fouriergnn(config) -> Iterator[Entry]:
    yield _same("embedding", "embeddings")
    yield _same("reduction", "embeddings_10")
    for i in range(fouriergnn.LAYERS):
        yield _same(f"weights.{i}", f"w{i + 1}")
        yield _same(f"biases.{i}", f"b{i + 1}")
    yield from _dense("hidden", "fc.0")
    yield from _dense("wide", "fc.2")
    yield from _dense("head", "fc.4")


def _blocks_of_steps(dim: int) -> tuple[Turn, Turn]:
    """A convolution of width k and stride k as a product: (out, in, k) <-> (k in, out)."""
    return (
        lambda w: w.transpose(2, 1, 0).reshape(-1, w.shape[0]),
        lambda k: k.reshape(-1, dim, k.shape[1]).transpose(2, 1, 0),
    )


def _micn(config) -> Iterator[Entry]:
    turned = lambda w: w.transpose(2, 1, 0)  # (out, in, width) <-> (width, in, out)  # noqa: E731
    yield Entry("embed", "dec_embedding.value_embedding.tokenConv.weight", turned, turned)
    yield Entry("time_features", "dec_embedding.temporal_embedding.embed.weight", np.transpose, np.transpose)
    dim = config.d_model
    for i in range(config.depth):
        ours, theirs = f"layers.{i}", f"conv_trans.mic.{i}"
        for j in range(len(config.scales)):
            branch = f"{ours}.branches.{j}"
            yield Entry(f"{branch}.down.kernel", f"{theirs}.conv.{j}.weight", *_blocks_of_steps(dim))
            yield _same(f"{branch}.down.bias", f"{theirs}.conv.{j}.bias")
            yield Entry(f"{branch}.whole", f"{theirs}.isometric_conv.{j}.weight", turned, turned)
            yield _same(f"{branch}.whole_bias", f"{theirs}.isometric_conv.{j}.bias")
            # (in, out, width) <-> (in, width, out)
            swapped = lambda w: w.swapaxes(1, 2)  # noqa: E731
            yield Entry(f"{branch}.up", f"{theirs}.conv_trans.{j}.weight", swapped, swapped)
            yield _same(f"{branch}.up_bias", f"{theirs}.conv_trans.{j}.bias")
        # (out, in, scale, 1) <-> (scale in, out)
        yield Entry(
            f"{ours}.merge.kernel", f"{theirs}.merge.weight",
            lambda w: w[..., 0].transpose(2, 1, 0).reshape(-1, w.shape[0]),
            lambda k: k.reshape(-1, dim, k.shape[1]).transpose(2, 1, 0)[..., None],
        )  # fmt: skip
        yield _same(f"{ours}.merge.bias", f"{theirs}.merge.bias")
        yield from _pointwise(f"{ours}.expand", f"{theirs}.conv1")
        yield from _pointwise(f"{ours}.contract", f"{theirs}.conv2")
        for name in ("norm", "norm1", "norm2"):
            yield from _norm(f"{ours}.{name}", f"{theirs}.{name}")
    yield from _dense("project", "conv_trans.projection")
    yield from _dense("trend", "regression")


def _mambats(config) -> Iterator[Entry]:
    yield from _dense("embed", "value_embedding.1", bias=False)
    for i in range(config.depth):
        ours, theirs = f"blocks.{i}", f"encoder.layers.{i}"
        yield from _norm(f"{ours}.norm", f"{theirs}.norm")
        yield _single(f"{ours}.mixer.log_rates", f"{theirs}.mixer.A_log")
        yield _single(f"{ours}.mixer.skip", f"{theirs}.mixer.D")
        yield from _dense(f"{ours}.mixer.enter", f"{theirs}.mixer.in_proj", bias=False)
        yield from _dense(f"{ours}.mixer.select", f"{theirs}.mixer.x_proj.0", bias=False)
        yield from _dense(f"{ours}.mixer.step", f"{theirs}.mixer.dt_proj", bias=False)
        yield _single(f"{ours}.mixer.step.bias", f"{theirs}.mixer.dt_proj.bias")
        yield from _dense(f"{ours}.mixer.leave", f"{theirs}.mixer.out_proj", bias=False)
    yield from _norm("norm", "encoder.norm_f")
    yield from _dense("head", "head.0")


_ENTRIES: dict[str, Callable[[Any], Iterator[Entry]]] = {
    "dlinear": _dlinear,
    "lightts": _lightts,
    "itransformer": _itransformer,
    "patchtst": _patchtst,
    "fouriergnn": _fouriergnn,
    "micn": _micn,
    "mambats": _mambats,
}
KINDS = tuple(_ENTRIES)


def entries_of(config: VitalConfig) -> list[Entry]:
    """All parameters of a model. Raises CheckpointError for S4, which the reference does not contain."""
    kind = registry.of(config).kind
    if kind not in _ENTRIES:
        raise CheckpointError(f"{kind}: the reference has no such module; known: {', '.join(KINDS)}")
    return list(_ENTRIES[kind](config))


def to_flax(config: VitalConfig, state_dict: Weights) -> dict[str, np.ndarray]:
    """Our parameters by dotted name, in the type of the given ones.

    Raises:
        CheckpointError: an entry is missing, is not of the model, or has another shape.
    """
    entries, name, state_dict = entries_of(config), registry.of(config).name, dict(state_dict)
    found = pypots_layout.renamed(state_dict, [entry.theirs for entry in entries], where=name)
    known = {id(array) for array in found.values()}
    extra = [k for k, array in state_dict.items() if id(array) not in known and not k.endswith(_BUFFERS)]
    if extra:
        raise CheckpointError(f"{name}: the model has no entry {extra[0]}")
    shapes = {path: leaf.shape for path, leaf in _leaves(registry.shapes(config))}
    params = {}
    for entry in entries:
        array = np.asarray(found[entry.theirs])
        wanted = entry.to_theirs(np.broadcast_to(np.float32(0), shapes[entry.ours])).shape
        if array.shape != wanted:
            raise CheckpointError(f"{name}: {entry.theirs} has shape {array.shape}, expected {wanted}")
        params[entry.ours] = entry.to_ours(array)
    return params


def to_torch(config: VitalConfig, model: nnx.Module) -> dict[str, np.ndarray]:
    """The state dict of a model in the reference's layout, without its buffers."""
    params = {path: np.asarray(leaf) for path, leaf in _leaves(model)}
    return {e.theirs: np.ascontiguousarray(e.to_theirs(params[e.ours])) for e in entries_of(config)}


def load(config: VitalConfig, state_dict: Weights) -> nnx.Module:
    """The model with the reference's weights; float64 ones stay so where JAX has 64-bit types switched on.

    Raises:
        CheckpointError: as `to_flax`.
    """
    params = to_flax(config, state_dict)
    graph, state = nnx.split(registry.shapes(config))
    leaves = jax.tree_util.tree_map_with_path(lambda path, _: jnp.asarray(params[_dotted(path)]), state)
    return nnx.merge(graph, leaves)


def transition_costs(state_dict: Weights) -> tuple[np.ndarray, np.ndarray]:
    """MambaTS's summed costs of transitions and how often each was visited, from a state dict.

    Raises:
        CheckpointError: they are not in it.
    """
    found = []
    for wanted in ("adjacency_matrix", "count_matrix"):
        names = [name for name in state_dict if name.endswith(f"encoder.{wanted}")]
        if not names:
            raise CheckpointError(f"MambaTS: no entry encoder.{wanted}")
        found.append(np.asarray(state_dict[names[0]], np.float64))
    return found[0], found[1]


def _leaves(model: nnx.Module) -> list[tuple[str, Any]]:
    flat = jax.tree_util.tree_flatten_with_path(nnx.state(model, nnx.Param))[0]
    return [(_dotted(path), leaf) for path, leaf in flat]


def _dotted(path: tuple) -> str:
    """A path through the state, without the step into the variable itself."""
    parts = [str(getattr(step, "key", getattr(step, "name", getattr(step, "idx", step)))) for step in path]
    return ".".join(parts[:-1] if parts[-1] == "value" else parts)
