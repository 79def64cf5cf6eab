"""State dicts of adapted models: prefixes taken off, low-rank updates merged into the weights they adapt.

An adapted layer holds W and two factors; its effective weight is W + (alpha / r) B A (Hu et al. 2021, LoRA), with
the key names of the PEFT library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wearjax.errors import CheckpointError

PREFIXES = ("model.base_model.", "base_model.")
_BASE = ".base_layer."
_A, _B = ".lora_A.default.weight", ".lora_B.default.weight"


def without_prefix(
    state: Mapping[str, np.ndarray], *, prefixes: Sequence[str] = PREFIXES
) -> dict[str, np.ndarray]:
    """The keys that start with the first of the prefixes that any key has, without it; the others are left out.

    A state dict in which no key has one comes back whole.
    """
    for prefix in prefixes:
        chosen = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        if chosen:
            return chosen
    return dict(state)


def merged(state: Mapping[str, np.ndarray], *, alpha: float | None = None) -> dict[str, np.ndarray]:
    """Plain weights from those with adapters; without adapters only `.base_layer.` is taken out of the keys.

    Args:
        alpha: scale of the updates before the division by their rank; None is the rank itself, so that they are
            added as they are.

    Raises:
        CheckpointError: a factor without its partner or its weight, or shapes that do not fit.
    """
    plain = {_adapted(key): value for key, value in state.items() if not key.endswith((_A, _B))}
    layers = {key.removesuffix(end) for key in state for end in (_A, _B) if key.endswith(end)}
    for layer in sorted(layers):
        name = f"{layer}.weight"
        absent = [key for key in (layer + _A, layer + _B) if key not in state]
        if absent or name not in plain:
            raise CheckpointError(
                f"{absent[0] if absent else name}: missing, but {layer} has a low-rank update"
            )
        plain[name] = _updated(name, plain[name], state[layer + _A], state[layer + _B], alpha)
    return plain


def _adapted(key: str) -> str:
    return key.replace(_BASE, ".")


def _updated(name: str, weight, down, up, alpha: float | None) -> np.ndarray:
    fits = down.ndim == up.ndim == weight.ndim == 2 and (up.shape[0], down.shape[1]) == weight.shape
    if not fits or up.shape[1] != down.shape[0] or not len(down):
        raise CheckpointError(f"{name}: {weight.shape} with an update of {up.shape} times {down.shape}")
    rank = len(down)
    scale = 1.0 if alpha is None else alpha / rank
    update = up.astype(np.float64) @ down.astype(np.float64)
    return (weight.astype(np.float64) + scale * update).astype(weight.dtype)
