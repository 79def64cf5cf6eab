"""Names and shapes of PyPOTS forecasters, DLinear, SegRNN and MixLinear, and of the same parameters here.

Arrays are NumPy; nothing here needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wearjax.convert import pypots_layout
from wearjax.convert.pypots_layout import Entry, Weights
from wearjax.errors import CheckpointError

KINDS = ("dlinear_forecast", "segrnn", "mixlinear")
# An entry that tells a kind from the others, whatever its wrapper put before the name.
_MARKS = {
    "dlinear_forecast": "linear_seasonal.weight",
    "segrnn": "valueEmbedding.0.weight",
    "mixlinear": "TLinear1.weight",
}


def kind_of(state_dict: Mapping[str, Any], *, where: str) -> str:
    """The kind that a state dict belongs to. Raises CheckpointError."""
    for kind, mark in _MARKS.items():
        if any(name.endswith(mark) for name in state_dict):
            return kind
    raise CheckpointError(
        f"{where}: neither DLinear, SegRNN nor MixLinear of PyPOTS, by the names of its entries"
    )


def to_flax(kind: str, state_dict: Weights, *, horizon: int) -> dict[str, np.ndarray]:
    """Our parameters by dotted name; entries that are not of the model are left out.

    Args:
        horizon: hours of the forecast. DLinear keeps maps to as many hours as its history has; the last of them are
            the forecast, and only those are taken.

    Raises:
        CheckpointError: an entry is missing or has another number of axes.
    """
    return pypots_layout.taken(_entries(kind, 0, horizon), state_dict, where=f"PyPOTS {kind}")


def to_pypots(kind: str, params: Weights) -> dict[str, np.ndarray]:
    """A PyPOTS 1.5 state dict from our parameters by dotted name.

    The parts of DLinear's maps over time that no forecast reads are as PyPOTS starts them, 1 / steps and 0.

    Raises:
        CheckpointError: a parameter is missing or has no place.
    """
    steps, horizon = 0, 0
    if kind == "dlinear_forecast" and "seasonal.time.kernel" in params:
        steps, horizon = params["seasonal.time.kernel"].shape
    return pypots_layout.given(_entries(kind, steps, horizon), params, kind=kind)


def sizes(kind: str, params: Weights) -> dict[str, int]:
    """The fields of our configuration that shapes tell.

    Args:
        params: as `to_flax` returns them.
    """
    if kind == "dlinear_forecast":
        return {
            "steps": params["seasonal.time.kernel"].shape[0],
            "d_model": params["seasonal.embed.kernel"].shape[1],
        }
    if kind == "segrnn":
        segment = params["segment.kernel"].shape[0]
        return {
            "segment": segment,
            "d_model": params["segment.kernel"].shape[1],
            "horizon": segment * params["place"].shape[0],
        }
    return {
        "period": params["smoothing"].shape[0] - 1,
        "frequencies": params["narrow"].shape[1],
        "rank": params["narrow"].shape[2],
    }


def _entries(kind: str, steps: int, horizon: int) -> dict[str, Entry]:
    if kind not in KINDS:
        raise CheckpointError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    if kind == "segrnn":
        return _segrnn()
    return _mixlinear() if kind == "mixlinear" else _dlinear(steps, horizon)


def _affine(ours: str, theirs: str) -> dict[str, Entry]:
    return {
        f"{ours}.kernel": Entry((f"{theirs}.weight",), np.transpose, np.transpose, 2),
        f"{ours}.bias": Entry((f"{theirs}.bias",), _same, _same, 1),
    }


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _dlinear(steps: int, horizon: int) -> dict[str, Entry]:
    def whole_kernel(kernel: np.ndarray) -> np.ndarray:
        weight = np.full((steps, steps), 1.0 / steps, np.float32)
        weight[steps - horizon :] = kernel.T
        return weight

    def whole_bias(bias: np.ndarray) -> np.ndarray:
        return np.concatenate([np.zeros(steps - horizon, np.float32), bias])

    entries = dict(pypots_layout.entries_of("dlinear"))
    for branch in ("seasonal", "trend"):
        kernel, bias = f"{branch}.time.kernel", f"{branch}.time.bias"
        entries[kernel] = Entry(entries[kernel].theirs, lambda a: a[-horizon:].T, whole_kernel, 2)
        entries[bias] = Entry(entries[bias].theirs, lambda a: a[-horizon:], whole_bias, 1)
    return entries


def _segrnn() -> dict[str, Entry]:
    entries = (
        _affine("embed", "embedding.embedding_layer")
        | _affine("segment", "backbone.valueEmbedding.0")
        | _affine("predict", "backbone.predict.1")
    )
    for ours, theirs in (("input", "ih_l0"), ("state", "hh_l0")):
        entries[f"gru.{ours}_kernel"] = Entry(
            (f"backbone.rnn.weight_{theirs}",), np.transpose, np.transpose, 2
        )
        entries[f"gru.{ours}_bias"] = Entry((f"backbone.rnn.bias_{theirs}",), _same, _same, 1)
    entries["place"] = Entry(("backbone.pos_emb",), _same, _same, 2)
    entries["channel"] = Entry(("backbone.channel_emb",), _same, _same, 2)
    return entries


def _mixlinear() -> dict[str, Entry]:
    entries = _affine("embed", "saits_embedding.embedding_layer") | _affine("project", "output_projection")
    for ours, theirs in (("columns", "TLinear1"), ("rows", "TLinear2")):
        entries[ours] = Entry((f"backbone.{theirs}.weight",), np.transpose, np.transpose, 2)
    for ours, theirs in (("narrow", "FLinear1"), ("widen", "FLinear2")):
        entries[ours] = Entry((f"backbone.{theirs}.weight",), _parts, _joined, 2)
    entries["smoothing"] = Entry(("backbone.conv1d.weight",), lambda a: a[0, 0], lambda a: a[None, None], 3)
    return entries


def _parts(weight: np.ndarray) -> np.ndarray:
    """Real and imaginary parts of a complex map, on the leading axis."""
    return np.stack([weight.real.T, weight.imag.T]).astype(np.float32)


def _joined(parts: np.ndarray) -> np.ndarray:
    return (parts[0] + 1j * parts[1]).T.astype(np.complex64)
