"""Names and shapes of the published PyTorch state dicts, and of the same parameters here.

One table of rules a kind. A rule pairs a parameter of ours with one of theirs and says how the array turns; `{i}` in
their name counts the layers that ours stacks on its leading axis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from wearjax.errors import CheckpointError

Weights = Mapping[str, np.ndarray]
PREFIX = "model."


class Turn(NamedTuple):
    """How one layer's array turns: from theirs (with so many axes) to ours, and back."""

    ndim: int
    to_ours: Callable[[np.ndarray], np.ndarray]
    to_theirs: Callable[[np.ndarray], np.ndarray]


def _same(array: np.ndarray) -> np.ndarray:
    return array


VECTOR = Turn(1, _same, _same)
MATRIX = Turn(2, np.transpose, np.transpose)  # Linear: (out, in), (in, out)
PATCHES = Turn(3, lambda w: w[:, 0].T, lambda k: k.T[:, None])  # Conv1d: (out, 1, patch), (patch, out)
TAPS = Turn(3, lambda w: w[:, 0], lambda k: k[:, None])  # depthwise Conv1d: (channel, 1, tap), (channel, tap)
TOKEN = Turn(3, lambda t: t[0, 0], lambda t: t[None, None])


class Rule(NamedTuple):
    """One parameter: our name, theirs, and the turn of each layer."""

    ours: str
    theirs: str
    turn: Turn

    @property
    def stacked(self) -> bool:
        return "{i}" in self.theirs


def _linear(ours: str, theirs: str, *, weight: Turn = MATRIX) -> tuple[Rule, ...]:
    return (
        Rule(f"{ours}.kernel", f"{theirs}.weight", weight),
        Rule(f"{ours}.bias", f"{theirs}.bias", VECTOR),
    )


def _norm(ours: str, theirs: str) -> tuple[Rule, ...]:
    return Rule(f"{ours}.scale", f"{theirs}.weight", VECTOR), Rule(f"{ours}.bias", f"{theirs}.bias", VECTOR)


def _blocks(ours: str, theirs: str) -> tuple[Rule, ...]:
    """Transformer blocks; rows of their fused projection are q, k, v with heads major in each, as ours."""
    theirs += ".{i}"
    return (
        *_norm(f"{ours}.norm1", f"{theirs}.norm1"),
        *_linear(f"{ours}.attn.qkv", f"{theirs}.attn.qkv"),
        *_linear(f"{ours}.attn.proj", f"{theirs}.attn.proj"),
        *_norm(f"{ours}.norm2", f"{theirs}.norm2"),
        *_linear(f"{ours}.mlp.fc1", f"{theirs}.mlp.0"),
        *_linear(f"{ours}.mlp.fc2", f"{theirs}.mlp.3"),
    )


def _mixer(ours: str, theirs: str) -> tuple[Rule, ...]:
    """Mamba-2 of one direction; rows of `in_proj` are z, x, B, C, dt, as ours."""
    return (
        Rule(f"{ours}.in_proj.kernel", f"{theirs}.in_proj.weight", MATRIX),
        *_linear(f"{ours}.conv1d", f"{theirs}.conv1d", weight=TAPS),
        *(Rule(f"{ours}.{name}", f"{theirs}.{name}", VECTOR) for name in ("dt_bias", "A_log", "D")),
        Rule(f"{ours}.norm.weight", f"{theirs}.norm.weight", VECTOR),
        Rule(f"{ours}.out_proj.kernel", f"{theirs}.out_proj.weight", MATRIX),
    )


_ENCODER = (
    Rule("mask_token", "mask_token", TOKEN),
    *_linear("patch_embed.proj", "patch_embed.proj", weight=PATCHES),
    *_blocks("encoder.blocks", "encoder.blocks"),
    *_norm("encoder.norm", "encoder.norm"),
    *_linear("encoder_to_decoder", "encoder_to_decoder"),
    *_linear("decoder_pred", "decoder_pred"),
)
RULES: dict[str, tuple[Rule, ...]] = {
    "lsm2": (
        *_ENCODER,
        *_blocks("decoder.blocks", "decoder.blocks"),
        *_norm("decoder.norm", "decoder.norm"),
    ),
    "lsm2_sparse": (
        *_ENCODER,
        *_blocks("decoder_local", "decoder_local_blocks"),
        *_blocks("decoder_cross", "decoder_cross_blocks"),
        *_norm("decoder_norm", "decoder_norm"),
    ),
    "wbm": (
        *_linear("tokenizer.fc1", "tokenizer.fc1"),
        *_linear("tokenizer.fc2", "tokenizer.fc2"),
        *_mixer("backbone.fwd", "backbone.{i}.fwd"),
        *_mixer("backbone.bwd", "backbone.{i}.bwd"),
        *_linear("backbone.proj", "backbone.{i}.proj"),
        *_norm("backbone.norm1", "backbone.{i}.norm1"),
        *_norm("backbone.norm2", "backbone.{i}.norm2"),
        *_linear("backbone.ffn.fc1", "backbone.{i}.ffn.0"),
        *_linear("backbone.ffn.fc2", "backbone.{i}.ffn.3"),
        *_linear("proj_head", "proj_head.0"),
    ),
}
_WBM_PARTS = ("tokenizer.", "backbone.", "proj_head.")
# A key that only this kind has, in the order in which they are looked for.
_TELLING = {
    "lsm2_sparse": "decoder_norm.weight",
    "lsm2": "decoder.norm.weight",
    "wbm": "tokenizer.fc1.weight",
}
_UNSUPPORTED = {
    "day_embed": "a learned day embedding; only the published form with rotary day offsets is supported",
    "proj_head.1.weight": "a three-layer projection head; only the linear head is supported",
}


def strip(kind: str, name: str) -> str:
    """Their name without its wrapper's prefix.

    WBM loses every occurrence of `model.` and `encoder.`, as in the published loader; LSM-2, which has an encoder
    of its own, a leading `model.` only.
    """
    return name.replace(PREFIX, "").replace("encoder.", "") if kind == "wbm" else name.removeprefix(PREFIX)


def detect(names: Any) -> str:
    """The kind that a state dict with these names is of. Raises CheckpointError."""
    for kind, telling in _TELLING.items():
        if any(strip(kind, name) == telling for name in names):
            return kind
    expected = ", ".join(f"{key} ({kind})" for kind, key in _TELLING.items())
    raise CheckpointError(f"no model that wearjax has; looked for one of {expected}")


def stripped(kind: str, state_dict: Weights) -> dict[str, np.ndarray]:
    """The state dict by names without prefix.

    A WBM checkpoint may hold more than the model (its loss, an optimizer): that is left out, as the published loader
    does. Raises CheckpointError when two names become one, or tell of a variant that wearjax does not have.
    """
    found: dict[str, np.ndarray] = {}
    for name, array in state_dict.items():
        short = strip(kind, name)
        if kind == "wbm" and not short.startswith(_WBM_PARTS):
            continue
        if short in found:
            raise CheckpointError(f"two keys become {short} without their prefixes, one is {name}")
        found[short] = array
    for name, reason in _UNSUPPORTED.items():
        if name in found:
            raise CheckpointError(f"{name} {found[name].shape} belongs to {reason}")
    return found


def rules_of(kind: str) -> tuple[Rule, ...]:
    """The table of a kind. Raises CheckpointError."""
    if kind not in RULES:
        raise CheckpointError(f"kind: no PyTorch layout for {kind!r}; known: {', '.join(RULES)}")
    return RULES[kind]


def depth(rule: Rule, names: Any) -> int:
    """Layers that a stacked rule finds: the highest number and one."""
    before, after = rule.theirs.split("{i}")
    pattern = re.compile(re.escape(before) + r"(\d{1,3})" + re.escape(after))
    return max((int(match[1]) + 1 for match in map(pattern.fullmatch, names) if match), default=1)


def to_flax(kind: str, state_dict: Weights) -> dict[str, np.ndarray]:
    """Our parameters by dotted name from their state dict.

    Raises:
        CheckpointError: a key is missing, has no place, or the wrong number of axes; layers differ in shape.
    """
    found = stripped(kind, state_dict)
    taken: set[str] = set()

    def take(name: str, turn: Turn) -> np.ndarray:
        if name not in found:
            raise CheckpointError(f"{name} is missing")
        if found[name].ndim != turn.ndim:
            raise CheckpointError(f"{name} is {found[name].shape}, expected {turn.ndim} axes")
        taken.add(name)
        return turn.to_ours(found[name])

    params = {}
    for rule in rules_of(kind):
        if not rule.stacked:
            params[rule.ours] = take(rule.theirs, rule.turn)
            continue
        layers = [take(rule.theirs.format(i=i), rule.turn) for i in range(depth(rule, found))]
        for i, layer in enumerate(layers):
            if layer.shape != layers[0].shape:
                name = rule.theirs.format(i=i)
                raise CheckpointError(f"{name} is {layer.shape}, layer 0 has {layers[0].shape}")
        params[rule.ours] = np.stack(layers)
    if extra := sorted(found.keys() - taken):
        raise CheckpointError(f"{extra[0]} {found[extra[0]].shape} has no place in the model")
    return {name: np.ascontiguousarray(array) for name, array in params.items()}


def to_torch(kind: str, params: Weights) -> dict[str, np.ndarray]:
    """Their state dict, without prefix, from our parameters by dotted name; arrays may be views.

    Raises:
        CheckpointError: a parameter is missing or has no place.
    """
    rules = rules_of(kind)
    state_dict = {}
    for rule in rules:
        if rule.ours not in params:
            raise CheckpointError(f"parameter {rule.ours} is missing")
        array = params[rule.ours]
        if rule.stacked:
            for i, layer in enumerate(array):
                state_dict[rule.theirs.format(i=i)] = rule.turn.to_theirs(layer)
        else:
            state_dict[rule.theirs] = rule.turn.to_theirs(array)
    if extra := sorted(params.keys() - {rule.ours for rule in rules}):
        raise CheckpointError(f"parameter {extra[0]} has no place in the {kind} layout")
    return state_dict
