"""Checks that the configurations of the forecasting models share, and the shape of their input."""

from __future__ import annotations

from typing import Any

import jax

from wearjax.errors import ConfigError
from wearjax.models import sizes


def check(config: Any, *, at_least_1: tuple[str, ...], rates: tuple[str, ...] = ()) -> None:
    """ConfigError naming the first of the fields that is below 1, or the first rate outside of [0, 1)."""
    sizes.at_least_1(config, "n_channels", "context", "horizon", *at_least_1)
    sizes.rates(config, *rates)


def check_heads(config: Any) -> None:
    if config.d_model % config.n_heads:
        raise ConfigError(f"model.n_heads: {config.n_heads} heads do not divide d_model {config.d_model}")


def check_input(config: Any, x: jax.Array, *, any_channels: bool) -> None:
    """ConfigError unless x is (batch, context, channels); models of fixed width want the channels of the config."""
    fits = x.ndim == 3 and x.shape[1] == config.context and x.shape[2] >= 1
    if not fits or not (any_channels or x.shape[2] == config.n_channels):
        channels = "channels" if any_channels else config.n_channels
        raise ConfigError(f"x: expected (batch, {config.context}, {channels}), got {tuple(x.shape)}")
