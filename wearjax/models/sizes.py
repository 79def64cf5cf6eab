"""Checks that the configurations of models share; each raises ConfigError naming the first field that fails."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from wearjax.errors import ConfigError

DTYPES = {
    "float32": jnp.float32,
    "bfloat16": jnp.bfloat16,
}  # to compute in; parameters and losses stay float32


def at_least_1(config: Any, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 1:
            raise ConfigError(f"model.{name}: must be at least 1, got {getattr(config, name)}")


def rates(config: Any, *names: str) -> None:
    """Shares of what is dropped: all of it is too much."""
    for name in names:
        if not 0.0 <= getattr(config, name) < 1.0:
            raise ConfigError(f"model.{name}: must be in [0, 1), got {getattr(config, name)}")


def not_negative(config: Any, *names: str) -> None:
    for name in names:
        if not getattr(config, name) >= 0.0:
            raise ConfigError(f"model.{name}: must not be negative, got {getattr(config, name)}")


def dtype(config: Any) -> None:
    if config.dtype not in DTYPES:
        raise ConfigError(f"model.dtype: expected one of {sorted(DTYPES)}, got {config.dtype!r}")
