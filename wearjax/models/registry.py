"""The list of architectures: the name in a bundle, the configuration class, and how to build the module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flax import nnx

from wearjax.errors import ConfigError
from wearjax.models import brits, dlinear, dlinear_forecast, lsm2, lsm2_sparse, mixlinear, segrnn, wbm


@dataclass(frozen=True)
class Architecture:
    """One architecture.

    Attributes:
        build: `build(config, rngs=...)` makes its module.
        training_flops: FLOP of one example's training step, by configuration.
    """

    kind: str
    config: type
    build: Callable[..., nnx.Module]
    training_flops: Callable[[Any], int]


ARCHITECTURES: dict[str, Architecture] = {
    "lsm2": Architecture("lsm2", lsm2.LSM2Config, lsm2.LSM2, lsm2.training_flops),  # daily, and weekly dense
    "lsm2_sparse": Architecture(
        "lsm2_sparse", lsm2_sparse.LSM2SparseConfig, lsm2_sparse.LSM2Sparse, lsm2_sparse.training_flops
    ),
    "wbm": Architecture("wbm", wbm.WBMConfig, wbm.WBM, wbm.training_flops),
    "dlinear": Architecture("dlinear", dlinear.DLinearConfig, dlinear.DLinear, dlinear.training_flops),
    "brits": Architecture("brits", brits.BRITSConfig, brits.BRITS, brits.training_flops),
    "dlinear_forecast": Architecture(
        "dlinear_forecast",
        dlinear_forecast.DLinearForecastConfig,
        dlinear_forecast.DLinearForecast,
        dlinear_forecast.training_flops,
    ),
    "segrnn": Architecture("segrnn", segrnn.SegRNNConfig, segrnn.SegRNN, segrnn.training_flops),
    "mixlinear": Architecture(
        "mixlinear", mixlinear.MixLinearConfig, mixlinear.MixLinear, mixlinear.training_flops
    ),
}
ForecastConfig = dlinear_forecast.DLinearForecastConfig | segrnn.SegRNNConfig | mixlinear.MixLinearConfig
FORECASTERS = ("dlinear_forecast", "segrnn", "mixlinear")  # kinds that continue hours
ModelConfig = (
    lsm2.LSM2Config
    | lsm2_sparse.LSM2SparseConfig
    | wbm.WBMConfig
    | dlinear.DLinearConfig
    | brits.BRITSConfig
    | dlinear_forecast.DLinearForecastConfig
    | segrnn.SegRNNConfig
    | mixlinear.MixLinearConfig
)


def get(kind: str) -> Architecture:
    """The architecture of that name. Raises ConfigError."""
    if kind not in ARCHITECTURES:
        raise ConfigError(f"kind: no architecture {kind!r}; known: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[kind]


def of(config: Any) -> Architecture:
    """The architecture that a configuration belongs to. Raises ConfigError."""
    for architecture in ARCHITECTURES.values():
        if type(config) is architecture.config:
            return architecture
    raise ConfigError(f"model: no architecture takes a {type(config).__name__}")
