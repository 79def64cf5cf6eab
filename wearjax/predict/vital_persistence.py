"""Persistence: a vital sign stays what it was when last seen; the baseline beside the models of VitalBench.

Of each variable the last value observed in the context is repeated over the horizon: the naive forecast of textbooks
("Repeat" of Zeng et al. 2023), with the last observation carried over gaps. Where the context holds no observation,
the mean of what a model sees there is repeated: the scaled mark of a missing value, 0, or what imputation filled in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float32

from wearjax.segments.vital_scaled import ScaledCases
from wearjax.segments.vital_settings import ChannelOrder, VitalSettings
from wearjax.train import vital_evaluation
from wearjax.train.vital_evaluation import View


@dataclass(frozen=True)
class Persistence:
    """Forecasts surgeries as `wearjax.train.vitals.VitalModel` does, without weights.

    Attributes:
        context, horizon: rows that are looked at, and that are forecast.
        incomplete: every surgery has its own draw of channels (tracks 2 and 3).
    """

    context: int
    horizon: int
    settings: VitalSettings
    incomplete: bool = False
    history: ClassVar[list[dict[str, float]]] = []
    record: ClassVar[dict[str, Any]] = {"trained": False}

    def views(self, cases: ScaledCases, *, channel_order: ChannelOrder | None = None) -> list[View]:
        """What of every case counts, as for a model that treats channels alone, which no order changes."""
        return vital_evaluation.case_views(cases, self.settings, incomplete=self.incomplete, mixes=False)

    def forecasts(
        self, cases: ScaledCases, *, views: list[View]
    ) -> Iterator[tuple[int, View, Float32[np.ndarray, "window horizon target"]]]:
        """Forecasts of every window of every case, of its scored targets in ascending order, case by case."""
        counts = cases.windows_of(self.horizon)
        for case in np.flatnonzero(counts):
            seen = views[case]
            scored = np.sort(seen.channels[seen.scored]) - (cases.n_channels - cases.n_targets)
            last = self.last(cases, int(case))[: counts[case], None, scored]
            yield int(case), seen, np.broadcast_to(last, (len(last), self.horizon, len(scored)))

    def ahead(self, cases: ScaledCases, case: int, seen: View) -> Float32[np.ndarray, "horizon channel"]:
        """The forecast from the last row of a case, of all channels seen, in their order."""
        last = self.last(cases, case)[-1, seen.channels - (cases.n_channels - cases.n_targets)]
        return np.broadcast_to(last, (self.horizon, len(last)))

    def last(self, cases: ScaledCases, case: int) -> Float32[np.ndarray, "row target"]:
        """What each row of a case makes the forecast: the last observed value of its context, or the context's mean."""
        rows = slice(cases.offsets[case], cases.offsets[case + 1])
        targets, observed = cases.targets[rows], cases.observed[rows]
        at = np.arange(len(targets))[:, None]
        first = np.maximum(at + 1 - self.context, 0)
        latest = np.maximum.accumulate(np.where(observed, at, -1))
        carried = np.take_along_axis(targets, np.maximum(latest, 0), axis=0)
        seen = cases.values[rows, -cases.n_targets :].cumsum(axis=0, dtype=np.float64)
        sums = np.concatenate([np.zeros_like(seen[:1]), seen])
        mean = (sums[1:] - sums[first[:, 0]]) / (at + 1 - first)
        return np.where(latest >= first, carried, mean).astype(np.float32)
