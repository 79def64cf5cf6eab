"""Forecasts by a trained LSM-2 of several days: the days to come are the hidden last days of a window."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32

from wearjax.channels import HOURS_PER_DAY, MINUTES_PER_DAY, N_CHANNELS
from wearjax.convert.bundle import Bundle
from wearjax.days import hourly
from wearjax.days.store import Days
from wearjax.errors import MethodError
from wearjax.predict.imputers import lsm2
from wearjax.predict.predictors import lsm2 as encoder
from wearjax.predict.predictors import representation
from wearjax.segments import seven_days

KINDS = (lsm2.LSM2SparseImputer.name, lsm2.LSM2Imputer.name)
_NOTHING = -1


def days_of(bundle: Bundle) -> int:
    """Days of the window of a model that can forecast by filling its last ones; 0 for any other model."""
    if bundle.kind not in KINDS:
        return 0
    n_days, rest = divmod(bundle.config.minutes, MINUTES_PER_DAY)
    n_days *= getattr(bundle.config, "n_days", 1)
    return 0 if rest or n_days < 2 else n_days


class LSM2Forecaster:
    """Fills the hidden days at the end of a window, and adds its minutes up to hours.

    The other days of the window are the participant's last retained days before the origin, cut as the windows that
    these models learn from: gaps in the calendar are stepped over, and LSM-2-Sparse is told how far apart the days
    lie. They are minutes and come from the store; the hourly histories that are handed over are not read, nor is
    any day from the origin on. Flags are probabilities, in an hour the largest of its minutes.

    Args:
        bundle: a trained model of kind `lsm2_sparse`, or `lsm2` with more than one day (a weekly model).
        days: the store under evaluation.
        batch_size: windows a call of the model.
        clip: keep minutes inside the plausible range of their channel, so that no hour has negative steps.

    Attributes:
        counts: `windows` forecast, and `without_days`: those of them with no retained day before the origin, for
            which there is no forecast (NaN).
        settings: what the forecasts depend on, beside the store.

    Raises:
        MethodError: a model of single days, or of a kind that cannot impute.
    """

    on_accelerator = True

    def __init__(self, bundle: Bundle, days: Days, *, batch_size: int = 16, clip: bool = True):
        minutes, kind = bundle.config.minutes, bundle.kind
        self._sparse = kind == lsm2.LSM2SparseImputer.name
        self._n_days = days_of(bundle)
        if not self._n_days:
            raise MethodError(
                "LSM2Forecaster: expected a model of kind 'lsm2_sparse', or of kind 'lsm2' for several whole days; "
                f"got {kind!r} for {minutes} minutes"
            )
        self._imputer: Any = lsm2.imputer_of(bundle, batch_size=batch_size, clip=clip)
        self.name = kind
        self._days, self._batch_size = days, batch_size
        self._rows = representation.retained_rows(days)
        self.settings = {"weights": encoder.weights_digest(bundle), "clip": clip}
        self.counts = {"windows": 0, "without_days": 0}

    def predict(
        self,
        history: Float32[np.ndarray, "19 _"],
        horizon: int,
        *,
        participant: str | None = None,
        origin_date: dt.date | None = None,
    ) -> Float32[np.ndarray, "19 H"]:
        """Hours from `origin_date` on, in stored units; see `predict_batch`."""
        dates = None if origin_date is None else [origin_date]
        return self.predict_batch([history], horizon, participant=participant, origin_date=dates)[0]

    def predict_batch(
        self,
        histories: Sequence[Float32[np.ndarray, "19 _"]],
        horizon: int,
        *,
        participant: str | None = None,
        origin_date: Sequence[dt.date] | None = None,
    ) -> Float32[np.ndarray, "window 19 H"]:
        """Hours from each origin on; NaN where no retained day lies before it.

        Args:
            histories: their number counts, and that they end with a day; they are not read.
            horizon: whole days, fewer than those of the model's window.
            participant: whose histories they are.
            origin_date: the first day to forecast, one for each history.

        Raises:
            MethodError: no participant or dates, not one date a history, another horizon, or a history that ends
                within a day.
        """
        n_ahead = self._days_ahead(histories, horizon)
        if participant is None or origin_date is None or len(origin_date) != len(histories):
            raise MethodError(
                f"{self.name}: forecasts from minutes of its store; it needs participant and origin_date, one date "
                "a history"
            )
        rows, dates = self._rows.of(participant)
        origins = np.asarray(origin_date, "datetime64[D]").astype(np.int64)
        found = [self._window(rows, dates, int(origin), n_ahead) for origin in origins]
        known = np.flatnonzero([window is not None for window in found])
        self.counts["windows"] += len(found)
        self.counts["without_days"] += len(found) - len(known)
        out = np.full((len(found), N_CHANNELS, horizon), np.nan, np.float32)
        for start in range(0, len(known), self._batch_size):
            part = known[start : start + self._batch_size]
            out[part] = self._forecast([found[place] for place in part], n_ahead)
        return out

    def _days_ahead(self, histories: Sequence[Float32[np.ndarray, "19 _"]], horizon: int) -> int:
        n_ahead, rest = divmod(horizon, HOURS_PER_DAY)
        if rest or not 1 <= n_ahead < self._n_days:
            raise MethodError(
                f"{self.name}: horizon of {horizon} hours; expected 1 to {self._n_days - 1} whole days"
            )
        for history in histories:
            if history.ndim != 2 or len(history) != N_CHANNELS or history.shape[1] % HOURS_PER_DAY:
                raise MethodError(
                    f"{self.name}: expected a history ({N_CHANNELS}, hours) that ends with a day, "
                    f"got {history.shape}"
                )
        return n_ahead

    def _window(self, rows, dates, origin: int, n_ahead: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Rows of the days of a window and their distance from its first; -1 where a slot has no day to read."""
        stop = int(np.searchsorted(dates, origin))
        start = max(0, stop - (self._n_days - n_ahead))
        if start == stop:
            return None
        own = np.full(self._n_days, _NOTHING, np.int64)
        offsets = np.full(self._n_days, seven_days.PADDING, np.int64)
        slots = slice(self._n_days - n_ahead - (stop - start), self._n_days - n_ahead)
        own[slots] = rows[start:stop]
        offsets[slots] = dates[start:stop] - dates[start]
        offsets[slots.stop :] = origin + np.arange(n_ahead) - dates[start]
        return own, offsets

    def _forecast(self, windows: Sequence[Any], n_ahead: int) -> Float32[np.ndarray, "window 19 H"]:
        rows, offsets = (np.stack(part) for part in zip(*windows, strict=True))
        count, shape = len(rows), (N_CHANNELS, MINUTES_PER_DAY)
        values: np.ndarray = np.full((count, self._n_days, *shape), np.nan, np.float32)
        read, place = np.unique(
            rows[rows != _NOTHING], return_inverse=True
        )  # windows share most of their days
        values[rows != _NOTHING] = self._days.batch(read)[place]
        values = values.swapaxes(1, 2).reshape(count, N_CHANNELS, -1)
        ahead = slice(values.shape[2] - n_ahead * MINUTES_PER_DAY, None)
        target = np.zeros(values.shape, bool)
        target[:, :, ahead] = True
        known = {"day_offsets": offsets} if self._sparse else {}
        filled = self._imputer.impute(values, np.isfinite(values), target, **known)
        return hourly.aggregate(filled[:, :, ahead])
