"""The eight forecasting models of VitalBench: how each is built, what it can take, and its published sizes.

Every module is called `model(x, keys=None)`: windows (batch, context, channels) to forecasts (batch, horizon,
channels); `keys`, one an example, switch dropout on. MambaTS takes an `order` of channels too. Flexible models that
mix channels take `kept`: the first so many channels are there, and what stands in the others (finite numbers)
changes none of their forecasts; so one compiled shape serves any number of channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, cast

import jax
from flax import nnx
from jaxtyping import Array, Float, Int

from wearjax import vitals
from wearjax.errors import ConfigError
from wearjax.models.vital import (
    dlinear,
    fouriergnn,
    itransformer,
    lightts,
    mambats,
    micn,
    patchtst,
    s4,
    variable_order,
)

Reduction = Literal["observed", "all"]


@dataclass(frozen=True)
class Architecture:
    """One model.

    Attributes:
        name: as in the published tables.
        build: `build(config, rngs=...)` makes its module.
        training_flops: FLOP of one example's training step, by configuration.
        flexible: takes any number of channels at call time, with the same parameters.
        mixes_channels: forecasts of a channel depend on the others.
        reduction: what the published training averages squared errors over: observed entries, or all of them.
    """

    kind: str
    name: str
    config: type
    build: Callable[..., nnx.Module]
    training_flops: Callable[[Any], int]
    flexible: bool
    mixes_channels: bool
    reduction: Reduction = "observed"


def _architectures() -> dict[str, Architecture]:
    def made(kind, name, module, config, build, **facts):
        return Architecture(kind, name, config, build, module.training_flops, **facts)

    listed = (
        made("mambats", "MambaTS", mambats, mambats.MambaTSConfig, mambats.MambaTS,
             flexible=True, mixes_channels=True, reduction="all"),
        made("lightts", "LightTS", lightts, lightts.LightTSConfig, lightts.LightTS,
             flexible=False, mixes_channels=True),
        made("itransformer", "iTransformer", itransformer, itransformer.ITransformerConfig,
             itransformer.ITransformer, flexible=True, mixes_channels=True),
        made("fouriergnn", "FourierGNN", fouriergnn, fouriergnn.FourierGNNConfig, fouriergnn.FourierGNN,
             flexible=True, mixes_channels=True),
        made("patchtst", "PatchTST", patchtst, patchtst.PatchTSTConfig, patchtst.PatchTST,
             flexible=True, mixes_channels=False),
        made("micn", "MICN", micn, micn.MICNConfig, micn.MICN, flexible=False, mixes_channels=True),
        made("dlinear", "DLinear", dlinear, dlinear.DLinearConfig, dlinear.DLinear,
             flexible=True, mixes_channels=False),
        made("s4", "S4", s4, s4.S4Config, s4.S4, flexible=True, mixes_channels=False),
    )  # fmt: skip
    return {one.kind: one for one in listed}


ARCHITECTURES = _architectures()
VitalConfig = (
    mambats.MambaTSConfig
    | lightts.LightTSConfig
    | itransformer.ITransformerConfig
    | fouriergnn.FourierGNNConfig
    | patchtst.PatchTSTConfig
    | micn.MICNConfig
    | dlinear.DLinearConfig
    | s4.S4Config
)


def get(kind: str) -> Architecture:
    """The architecture of that name, in any spelling of case. Raises ConfigError."""
    if kind.lower() not in ARCHITECTURES:
        raise ConfigError(f"model: no model {kind!r}; known: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[kind.lower()]


def of(config: Any) -> Architecture:
    """The architecture that a configuration belongs to. Raises ConfigError."""
    for architecture in ARCHITECTURES.values():
        if type(config) is architecture.config:
            return architecture
    raise ConfigError(f"model: no model takes a {type(config).__name__}")


def forecast(
    model: nnx.Module,
    x: Float[Array, "B L K"],
    key: jax.Array | None = None,
    kept: Int[Array, ""] | None = None,
) -> Float[Array, "B T K"]:
    """Forecasts of a batch of windows; with a key, as in training; with `kept`, of its first channels."""
    keys = None if key is None else jax.random.split(key, len(x))
    if kept is None:
        return model(x, keys=keys)  # type: ignore[operator]
    return model(x, keys=keys, kept=kept)  # type: ignore[operator]


def build(config: VitalConfig, *, rngs: nnx.Rngs) -> nnx.Module:
    """The module of a configuration."""
    return of(config).build(config, rngs=rngs)


@dataclass(frozen=True)
class Published:
    """The run configuration of one model in one setting; calling it with a horizon gives the model's sizes.

    Attributes:
        learning_rate: of the first two epochs.
    """

    template: Any
    learning_rate: float

    def __call__(self, horizon: int) -> Any:
        """The configuration for a horizon in steps."""
        return replace(self.template, horizon=horizon)


# Learning rates at 5-second and at 1-minute steps.
_LEARNING_RATES = {
    "s4": (5e-4, 1e-3),
    "patchtst": (5e-4, 5e-4),
    "itransformer": (5e-4, 5e-4),
    "fouriergnn": (5e-4, 1e-3),
    "lightts": (1e-4, 1e-3),
    "dlinear": (1e-4, 5e-4),
    "mambats": (1e-3, 1e-3),
    "micn": (1e-3, 1e-3),
}


def published(kind: str, centre_name: str, track: int) -> Published:
    """Sizes and learning rate of the published runs (VitalBench, run scripts).

    Args:
        centre_name: `vitaldb` or `mover`; tracks 1 and 2 of VitalDB run at 5-second steps, all others at one minute.
        track: 1 complete variables, 2 incomplete ones, 3 across centres.

    Raises:
        ConfigError: unknown model, centre or track, or a model of fixed channels in track 2 or 3.
    """
    architecture = get(kind)
    if centre_name not in vitals.CENTRES or track not in (1, 2, 3):
        known = ", ".join(vitals.CENTRES)
        raise ConfigError(
            f"published: expected a centre of {known} and a track of 1 to 3, got {centre_name}, {track}"
        )
    if track > 1 and not architecture.flexible:
        raise ConfigError(
            f"{architecture.name}: track {track} needs a model that takes any number of channels"
        )
    centre = vitals.CENTRES[centre_name]
    centre = vitals.one_minute(centre) if track == 3 else centre
    fine = centre.step_seconds < 60
    sizes: dict[str, Any] = {"n_channels": centre.n_variables, "context": centre.context_steps}
    if not fine:
        sizes |= _coarse(architecture.kind, track)
    rate = _LEARNING_RATES[architecture.kind][0 if fine else 1]
    return Published(architecture.config(horizon=1, **sizes), rate)


def _coarse(kind: str, track: int) -> dict[str, int]:
    """Sizes that differ at one-minute steps."""
    patch = 6 if track == 1 else 5
    return {
        "s4": {"patch": 10, "stride": 5},
        "patchtst": {"patch": 10, "stride": 5},
        "mambats": {"patch": patch, "stride": patch},
        "itransformer": {"depth": 4},
    }.get(kind, {})


class _OneKey:
    """Stands in for random streams where only shapes are wanted: keeping count of draws is what takes the time."""

    def __init__(self):
        self._key = jax.random.key(0)

    def params(self) -> jax.Array:
        return self._key


def shapes(config: VitalConfig) -> nnx.Module:
    """The module with shapes and types in place of its arrays."""
    return nnx.eval_shape(lambda: build(config, rngs=cast(nnx.Rngs, _OneKey())))


class ParameterCounts(NamedTuple):
    """Numbers in a model.

    Attributes:
        trainable: parameters.
        total: with what training only sums up: MambaTS's costs of transitions.
    """

    trainable: int
    total: int


def parameter_counts(config: VitalConfig) -> ParameterCounts:
    """Counts of the published modules, found without making the arrays."""
    trainable = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(nnx.state(shapes(config), nnx.Param)))
    kept = variable_order.buffer_size(config.n_channels) if isinstance(config, mambats.MambaTSConfig) else 0
    return ParameterCounts(trainable, trainable + kept)
