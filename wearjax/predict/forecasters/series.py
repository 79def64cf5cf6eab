"""Forecasts by the Flax models of hours: DLinear, SegRNN and MixLinear."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Float32

from wearjax.channels import N_CHANNELS
from wearjax.convert import bundle as bundles
from wearjax.errors import MethodError
from wearjax.models import registry
from wearjax.objectives import forecast
from wearjax.train import config as configs


class SeriesForecaster:
    """Satisfies the forecaster contract with point forecasts of the model's own horizon.

    Only the last hours of a history are read, as many as the model takes; shorter ones are filled up with missing hours
    on the left. Flags are scores as the model gives them, not cut to 0..1.

    Args:
        bundle: a trained model that forecasts hours.
        batch_size: windows a call of the model; the last call is padded, so that it compiles once.

    Attributes:
        n_pred_steps: hours of a forecast, the only horizon there is.
    """

    on_accelerator = True

    def __init__(self, bundle: bundles.Bundle, *, batch_size: int = 64):
        if batch_size < 1:
            raise MethodError(f"batch_size: must be at least 1, got {batch_size}")
        if bundle.kind not in registry.FORECASTERS:
            raise MethodError(
                f"a model of kind {bundle.kind!r} cannot forecast; kinds that can: "
                f"{', '.join(registry.FORECASTERS)}"
            )
        self.bundle, self.batch_size = bundle, batch_size
        self.name = bundle.kind
        self.n_pred_steps = bundle.config.horizon
        graph, state = nnx.split(bundle.model)
        self._forecast = partial(jax.jit(partial(_forecast, graph, bundle.stats)), state)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What its forecasts depend on."""
        digest = hashlib.sha256(self.bundle.stats.to_json().encode())
        for name, array in sorted(bundles.parameters(self.bundle.model).items()):
            digest.update(name.encode() + array.tobytes())
        return {
            "kind": self.bundle.kind,
            "config": configs.to_dict(self.bundle.config),
            "weights": digest.hexdigest()[:16],
        }

    def predict(
        self, history: Float32[np.ndarray, "channel=19 hour"], horizon: int
    ) -> Float32[np.ndarray, "channel=19 horizon"]:
        """The hours that follow a history; NaN = missing.

        Raises:
            MethodError: another horizon than the model's, or another shape.
        """
        return self.predict_batch([history], horizon)[0]

    def predict_batch(
        self, histories: Sequence[Float32[np.ndarray, "channel=19 hour"]], horizon: int
    ) -> Float32[np.ndarray, "window channel=19 horizon"]:
        """The same for several histories."""
        config = self.bundle.config
        if horizon != config.horizon:
            raise MethodError(
                f"{self.name}: forecasts {config.horizon} hours (model.horizon), {horizon} are asked for"
            )
        found = np.empty((len(histories), N_CHANNELS, horizon), np.float32)
        for start in range(0, len(histories), self.batch_size):
            part = histories[start : start + self.batch_size]
            batch = np.full((self.batch_size, config.steps, N_CHANNELS), np.nan, np.float32)
            for row, history in zip(batch, part, strict=False):
                if history.ndim != 2 or history.shape[0] != N_CHANNELS:
                    raise MethodError(
                        f"{self.name}: expected a history of shape ({N_CHANNELS}, hours), got {history.shape}"
                    )
                known = history[:, -config.steps :].T
                row[len(row) - len(known) :] = known
            found[start : start + len(part)] = np.asarray(self._forecast(batch))[: len(part)]
        return found


def _forecast(graph, stats, state, values: Float[Array, "B T C"]) -> Float[Array, "B C H"]:
    scaled, observed = forecast.standardize(values, stats)
    found = nnx.merge(graph, state).forecast(scaled, observed.astype(jnp.float32))
    return forecast.restore(found, stats).swapaxes(1, 2)
