"""Names and shapes of PyPOTS state dicts, and of the same parameters here: imputers, and what forecasters share.

PyPOTS keeps one dictionary a model; its wrappers put `model.` or `backbone.` before the names, which depends on the
version. Arrays are NumPy; nothing here needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from wearjax.errors import CheckpointError

Weights = Mapping[str, np.ndarray]
_PREFIXES = ("model.", "backbone.", "module.")
_DIRECTIONS = ("rits_f", "rits_b")


class Entry(NamedTuple):
    """One parameter of ours.

    Attributes:
        theirs: names of the arrays that it is made of; two where a leading axis of ours holds the directions.
        to_ours, to_theirs: how one array turns.
        axes: of each of their arrays; by default told from the name.
    """

    theirs: tuple[str, ...]
    to_ours: Callable[..., np.ndarray]
    to_theirs: Callable[..., np.ndarray]
    axes: int | None = None

    def axes_of(self, name: str) -> int:
        """Axes that the array of that name must have."""
        if self.axes is not None:
            return self.axes
        return 2 if name.endswith((".weight", "weight_ih", "weight_hh", ".W")) else 1


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _dlinear() -> dict[str, Entry]:
    entries = {}
    for branch in ("seasonal", "trend"):
        maps = {
            "embed": f"{branch}_saits_embedding.embedding_layer",
            "time": f"backbone.linear_{branch}",
            "project": f"linear_{branch}_output",
        }
        for ours, theirs in maps.items():
            entries[f"{branch}.{ours}.kernel"] = Entry((f"{theirs}.weight",), np.transpose, np.transpose)
            entries[f"{branch}.{ours}.bias"] = Entry((f"{theirs}.bias",), _same, _same)
    return entries


def _brits() -> dict[str, Entry]:
    pairs: dict[str, tuple[str, Callable[..., np.ndarray], Callable[..., np.ndarray]]] = {
        "decay_h_kernel": ("temp_decay_h.W", np.transpose, np.transpose),
        "decay_h_bias": ("temp_decay_h.b", _same, _same),
        # Of this square matrix PyPOTS uses the diagonal alone, which is all that is kept.
        "decay_x_kernel": ("temp_decay_x.W", np.diag, np.diag),
        "decay_x_bias": ("temp_decay_x.b", _same, _same),
        "history_kernel": ("hist_reg.weight", np.transpose, np.transpose),
        "history_bias": ("hist_reg.bias", _same, _same),
        "features_kernel": ("feat_reg.W", np.transpose, np.transpose),
        "features_bias": ("feat_reg.b", _same, _same),
        "mixing_kernel": ("combining_weight.weight", np.transpose, np.transpose),
        "mixing_bias": ("combining_weight.bias", _same, _same),
        "input_kernel": ("rnn_cell.weight_ih", np.transpose, np.transpose),
        "input_bias": ("rnn_cell.bias_ih", _same, _same),
        "state_kernel": ("rnn_cell.weight_hh", np.transpose, np.transpose),
        "state_bias": ("rnn_cell.bias_hh", _same, _same),
    }
    return {
        f"rits.{ours}": Entry(tuple(f"{d}.{theirs}" for d in _DIRECTIONS), to_ours, to_theirs)
        for ours, (theirs, to_ours, to_theirs) in pairs.items()
    }


_ENTRIES: dict[str, Callable[[], dict[str, Entry]]] = {"dlinear": _dlinear, "brits": _brits}
KINDS = tuple(_ENTRIES)


def entries_of(kind: str) -> dict[str, Entry]:
    """The parameters of a kind by our dotted name. Raises CheckpointError."""
    if kind not in _ENTRIES:
        raise CheckpointError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    return _ENTRIES[kind]()


def renamed(state_dict: Mapping[str, Any], wanted: Any, *, where: str) -> dict[str, Any]:
    """The entries of a state dict by the wanted names, whatever its wrapper put before them.

    One and the same prefix is taken from, or put before, all names. Entries that are not wanted are left out.

    Raises:
        CheckpointError: naming the first wanted entry that is missing under every prefix.
    """
    wanted = list(wanted)
    stems = [wanted] + [
        [name.removeprefix(p) for name in wanted]
        for p in _PREFIXES
        if all(name.startswith(p) for name in wanted)
    ]
    forms = [[p + name for name in stem] for p in ("", *_PREFIXES) for stem in stems]
    best = max(forms, key=lambda form: sum(name in state_dict for name in form))
    for name, theirs in zip(wanted, best, strict=True):
        if theirs not in state_dict:
            raise CheckpointError(f"{where}: no entry {name}, which the model needs")
    return {name: state_dict[theirs] for name, theirs in zip(wanted, best, strict=True)}


def to_flax(kind: str, state_dict: Weights) -> dict[str, np.ndarray]:
    """Our parameters by dotted name from a PyPOTS state dict; entries that are not of the model are left out.

    Raises:
        CheckpointError: an entry is missing or has another number of axes.
    """
    return taken(entries_of(kind), state_dict, where=f"PyPOTS {kind}")


def taken(entries: Mapping[str, Entry], state_dict: Weights, *, where: str) -> dict[str, np.ndarray]:
    """What `to_flax` returns, by a table of entries; real and imaginary parts of an array are float32."""
    found = renamed(state_dict, [name for entry in entries.values() for name in entry.theirs], where=where)
    params = {}
    for ours, entry in entries.items():
        arrays = []
        for name in entry.theirs:
            array = np.asarray(found[name])
            array = array.astype(np.complex64 if array.dtype.kind == "c" else np.float32)
            if array.ndim != entry.axes_of(name):
                raise CheckpointError(f"{where}: {name} has shape {array.shape}")
            arrays.append(np.ascontiguousarray(entry.to_ours(array)))
        params[ours] = np.stack(arrays) if len(arrays) > 1 else arrays[0]
    return params


def to_pypots(kind: str, params: Weights) -> dict[str, np.ndarray]:
    """The entries of a PyPOTS 1.5 state dict that training changes, from our parameters by dotted name.

    Constant masks (`m` of BRITS) are not among them; entries off the diagonal that PyPOTS never uses become 0.

    Raises:
        CheckpointError: a parameter is missing or has no place.
    """
    prefix = "model." if kind == "brits" else ""
    return {prefix + name: array for name, array in given(entries_of(kind), params, kind=kind).items()}


def given(entries: Mapping[str, Entry], params: Weights, *, kind: str) -> dict[str, np.ndarray]:
    """What `to_pypots` returns, by a table of entries."""
    for name in entries:
        if name not in params:
            raise CheckpointError(f"parameter {name} is missing")
    if extra := sorted(params.keys() - entries.keys()):
        raise CheckpointError(f"parameter {extra[0]} has no place in the {kind} layout of PyPOTS")
    state_dict = {}
    for ours, entry in entries.items():
        layers = params[ours] if len(entry.theirs) > 1 else [params[ours]]
        for name, array in zip(entry.theirs, layers, strict=True):
            state_dict[name] = np.ascontiguousarray(entry.to_theirs(np.asarray(array)))
    return state_dict


def sizes(kind: str, params: Weights) -> dict[str, int]:
    """The sizes in our configuration that shapes tell; the window of DLinear's average and the steps of BRITS do not.

    Args:
        params: as `to_flax` returns them.
    """
    if kind == "dlinear":
        return {
            "minutes": params["seasonal.time.kernel"].shape[0],
            "d_model": params["seasonal.embed.kernel"].shape[1],
        }
    entries_of(kind)
    return {"hidden_size": params["rits.history_kernel"].shape[1]}
