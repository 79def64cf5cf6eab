"""A trained model as a person uses it: load a folder, impute, forecast or embed."""

from __future__ import annotations

import os
from functools import cached_property, partial
from typing import TYPE_CHECKING

import jax
import numpy as np
from flax import nnx
from jaxtyping import Float32, Shaped

from wearjax.channels import N_CHANNELS
from wearjax.convert import bundle as bundles
from wearjax.errors import MethodError
from wearjax.objectives import masked_reconstruction
from wearjax.predict import batched
from wearjax.predict.imputers import lsm2, pieces
from wearjax.predict.representations import WeekEncoder

if TYPE_CHECKING:
    from wearjax.days.store import Days
    from wearjax.predict.forecaster import Forecaster
    from wearjax.predict.protocols import Predictor


_ENCODERS = ("lsm2", "wbm")


class Pretrained:
    """A loaded model. `evaluate_imputation`, `evaluate_forecasting` and `evaluate_prediction` take it as a method,
    where its kind can do what they ask.

    Attributes:
        bundle: configuration, module and normalization.
    """

    def __init__(self, bundle: bundles.Bundle, *, batch_size: int = 16):
        self.bundle = bundle
        self.name = bundle.kind
        self.batch_size = batch_size
        self._imputers: dict[int, lsm2.TrainedImputer] = {}

    def _imputer(self, size: int) -> lsm2.TrainedImputer:
        """The imputer with batches of a size, compiled once each."""
        if size not in self._imputers:
            self._imputers[size] = lsm2.imputer_of(self.bundle, batch_size=size)
        return self._imputers[size]

    def _alone(self, data: np.ndarray) -> bool:
        config = self.bundle.config
        return pieces.single(data, getattr(config, "minutes", 0) * getattr(config, "n_days", 1))

    def impute(
        self,
        data: Float32[np.ndarray, "batch channel=19 time"],
        observed_mask: Shaped[np.ndarray, "batch channel=19 time"],
        target_mask: Shaped[np.ndarray, "batch channel=19 time"],
        *,
        day_offsets: np.ndarray | None = None,
        out: np.ndarray | None = None,
    ) -> Float32[np.ndarray, "batch channel=19 time"]:
        """`data` with the target cells filled; see `LSM2Imputer.impute` and `LSM2SparseImputer.impute`.

        Runs in batches of `batch_size`, a single day or window by itself; beside the arrays given and returned one
        batch is held.

        Args:
            day_offsets: calendar days since the first of a window; read by models of several days only.
            out: float32 array to write into, memory-mapped or `data` itself; None makes one.
        """
        imputer = self._imputer(1 if self._alone(data) else self.batch_size)
        if isinstance(imputer, lsm2.LSM2SparseImputer):
            return imputer.impute(data, observed_mask, target_mask, day_offsets=day_offsets, out=out)
        return imputer.impute(data, observed_mask, target_mask, out=out)

    @cached_property
    def _embed(self):
        if self.bundle.kind not in _ENCODERS:
            raise MethodError(
                f"a model of kind {self.bundle.kind!r} gives no representation; {' and '.join(_ENCODERS)} do"
            )
        if self.bundle.kind == "wbm":
            return WeekEncoder(self.bundle, batch_size=self.batch_size)
        graph, state = nnx.split(self.bundle.model)
        return partial(jax.jit(partial(_embed, graph, self.bundle.stats)), state)

    def embed(self, values: Float32[np.ndarray, "example ..."]) -> Float32[np.ndarray, "example feature"]:
        """One vector an example; NaN = not measured.

        Args:
            values: for LSM-2 days (or weeks, for a weekly model) of minutes, (example, 19, minutes): the mean
                encoder output over the measured tokens. For WBM weeks of hours, (example, 168, 19).

        Raises:
            MethodError: another shape, or a model that gives no representation.
        """
        embed = self._embed
        if self.bundle.kind == "wbm":
            return embed(values)
        config = self.bundle.config
        return batched.vectors(
            embed, values, wanted=(N_CHANNELS, config.minutes), size=config.encoder_dim,
            batch_size=1 if len(values) == 1 else self.batch_size,
        )  # fmt: skip

    @cached_property
    def _forecaster(self):
        from wearjax.predict.forecasters import loading

        return loading.of_bundle(self.bundle)

    def forecast(
        self, history: Float32[np.ndarray, "channel=19 hour"], horizon: int
    ) -> Float32[np.ndarray, "channel=19 horizon"]:
        """The hours that follow a history of hours, in the units of the channel table; NaN = missing.

        Raises:
            MethodError: a model that cannot forecast or reads a store instead, another horizon than the model's, or
                another shape.
        """
        return self._forecaster.predict(history, horizon)

    def as_forecaster(self, days: Days) -> Forecaster:
        """The method of the forecasting track. Raises MethodError for a model that cannot forecast.

        Args:
            days: the store under evaluation, which an LSM-2 reads.
        """
        from wearjax.predict.forecasters import loading

        return loading.of_bundle(self.bundle, days=days)

    def as_predictor(self, days: Days) -> Predictor:
        """The method of the prediction track: a linear probe on the model's vectors.

        Args:
            days: the store under evaluation.

        Raises:
            MethodError: a model that gives no vectors of days or weeks.
        """
        from wearjax.predict.predictors import registry

        if self.bundle.kind not in _ENCODERS:
            raise MethodError(
                f"a model of kind {self.bundle.kind!r} predicts no outcome; {' and '.join(_ENCODERS)} do"
            )
        return registry.build(self.bundle.kind, days, weights=self.bundle)


def load_pretrained(path: str | os.PathLike, *, batch_size: int = 16) -> Pretrained:
    """Loads a trained model: the folder `bundle` of a run.

    Args:
        path: the bundle.
        batch_size: most days, or windows, that the model sees at once.

    Raises:
        CheckpointError: no bundle there, or an unreadable one.
    """
    return Pretrained(bundles.load_bundle(path), batch_size=batch_size)


def _embed(graph, stats, state, values):
    scaled, missing = masked_reconstruction.normalize(values, stats)
    return nnx.merge(graph, state).embed(scaled, missing)
