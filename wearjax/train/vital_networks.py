"""What training needs to know of each of VitalBench's models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int64

from wearjax.models.vital import mambats, registry, s4, variable_order
from wearjax.objectives.vital_forecast import OrderCosts
from wearjax.segments.vital_settings import VitalSettings

Channels = Int64[np.ndarray, " kept"]


@dataclass(frozen=True, eq=False)
class Network:
    """A model as training sees it.

    Attributes:
        kind: its name.
        build: makes the module from random streams.
        call: `call(module, x, key)` forecasts (B, T, k) from (B, L, k); key None in evaluation. A model that mixes
            channels takes a fourth argument: only the first so many channels are there, the rest are zeros.
        mixes: whether channels see each other.
        flexible: whether it takes any number of channels.
        permutes: trained on permuted channels; `order(costs, kept)` is then their order in evaluation.
        reduction: of the loss, where the settings leave it to the model.
        config: what is recorded of it.
    """

    kind: str
    build: Callable[[nnx.Rngs], nnx.Module]
    call: Callable[..., Float[Array, "B T k"]]
    mixes: bool
    flexible: bool = True
    permutes: bool = False
    order: Callable[[OrderCosts, Channels], Channels] | None = None
    reduction: str = "observed"
    config: Any = None


def network_of(config: registry.VitalConfig, settings: VitalSettings) -> Network:
    """The network of a model's configuration. S4 takes its state matrix from the settings.

    Raises ConfigError for a class that is no model.
    """
    architecture = registry.of(config)
    if isinstance(config, s4.S4Config):
        config = replace(config, low_rank=settings.s4 == "nplr")
    permutes = isinstance(config, mambats.MambaTSConfig) and config.permute
    return Network(
        architecture.kind,
        lambda rngs: registry.build(config, rngs=rngs),
        registry.forecast,
        mixes=architecture.mixes_channels,
        flexible=architecture.flexible,
        permutes=permutes,
        order=partial(cheapest_order, seed=settings.seed) if permutes else None,
        # The mean over all entries belongs to permutation training, not to the architecture.
        reduction=architecture.reduction if permutes else "observed",
        config=config,
    )


def cheapest_order(costs: OrderCosts, kept: Channels, *, seed: int) -> Channels:
    """Kept channels in the order that the transitions seen in training make cheapest."""
    means = variable_order.mean_costs(np.asarray(costs.costs), np.asarray(costs.counts))
    return kept[variable_order.processing_order(means[np.ix_(kept, kept)], seed=seed)]
