"""Trained VitalBench models over whole surgeries: validation loss and forecasts, in batches of one size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float32, Int32, Int64

from wearjax.segments import vital_masks
from wearjax.segments.vital_scaled import ScaledCases
from wearjax.segments.vital_settings import VitalSettings
from wearjax.train import vital_steps
from wearjax.train.vital_steps import Rows, Steps

Channels = Int64[np.ndarray, " kept"]
Order = Callable[[Channels], Channels]


@dataclass(frozen=True, eq=False)
class View:
    """What of a case, or of a batch, goes through the model.

    Attributes:
        channels: in the order the model sees them; those that fill up to a width are `ABSENT`, and last.
        scored: which of them count.
    """

    channels: Int32[np.ndarray, " k"]
    scored: Bool[np.ndarray, " k"]

    @property
    def kept(self) -> int:
        """How many channels are there."""
        return int((self.channels >= 0).sum())


def view(kept: Channels, n_channels: int, n_targets: int, *, mixes: bool, n_last: int | None = None) -> View:
    """The view of some kept channels.

    A model that treats every channel alone is given all targets whatever was kept: the others cannot change a
    forecast, and the shape stays the same from batch to batch. One that mixes them is given the kept ones, filled up
    to half of all channels or to all: two shapes to compile, whatever is drawn.

    Args:
        kept: channels, in the order in which the model processes them.
        mixes: whether channels of the model see each other.
        n_last: score only so many of the last targets.
    """
    n_covariates = n_channels - n_targets
    seen = kept if mixes else np.arange(n_covariates, n_channels)
    counts = (seen >= n_covariates) & np.isin(seen, kept)
    if n_last is not None:
        counts &= vital_masks.scored(n_channels, n_last)[seen]
    half = -(-n_channels // 2)
    missing = (half if len(seen) <= half else n_channels) - len(seen) if mixes else 0
    filled = np.pad(np.asarray(seen, np.int32), (0, missing), constant_values=vital_steps.ABSENT)
    return View(filled, np.pad(counts, (0, missing)))


def case_views(
    cases: ScaledCases, settings: VitalSettings, *, incomplete: bool, mixes: bool, order: Order | None = None
) -> list[View]:
    """The view of every case of a validation or test split: all channels, or its own draw.

    Args:
        order: the order in which a model processes channels that were kept, where it matters.
    """
    n_covariates, n = cases.n_channels - cases.n_targets, len(cases)
    last: Sequence[int | None] = [None] * n
    if incomplete:
        kept = vital_masks.of_cases(n_covariates, cases.n_targets, n, seed=settings.seed)
    else:
        kept = vital_masks.complete(cases.n_channels, n)
        if settings.faithful_track1:
            drawn = vital_masks.last_targets_of_cases(n_covariates, cases.n_targets, n, seed=settings.seed)
            last = [int(k) for k in drawn]
    ordered = [channels if order is None else order(channels) for channels in kept]
    return [
        view(channels, cases.n_channels, cases.n_targets, mixes=mixes, n_last=n_last)
        for channels, n_last in zip(ordered, last, strict=True)
    ]


def validation_loss(
    steps: Steps, params: Any, rows: Rows, cases: ScaledCases, views: Sequence[View], batch_size: int
) -> float:
    """Mean over cases of their masked squared error; NaN where no case has an observed target.

    The last windows of a case that fill no batch are left out, as in the released code. Windows of several cases
    share a batch if they keep as many channels; batches are of one size.
    """
    ends, case = cases.window_ends(steps.horizon)
    used = _whole_batches(cases.windows_of(steps.horizon), batch_size)
    kept = np.array([each.kept for each in views])
    found = []
    for number in np.unique(kept):
        members = np.flatnonzero(kept == number).tolist()
        windows = np.flatnonzero(used & np.isin(case, members))
        place = np.zeros(len(cases), np.int64)
        place[members] = np.arange(len(members))
        channels = np.stack([views[i].channels for i in members])
        scored = np.stack([views[i].scored for i in members])
        for start in range(0, len(windows), batch_size):
            real = windows[start : start + batch_size]
            batch = np.resize(real, batch_size)  # the last is filled up; what that gives is cut off below
            at = place[case[batch]]
            sums = steps.errors(params, rows, ends[batch], channels[at], scored[at])
            found.append((case[real], sums))
    total, count = (np.zeros(len(cases)) for _ in range(2))
    for owners, sums in jax.device_get(found):
        for into, sum_ in zip((total, count), sums, strict=True):
            into += np.bincount(owners, np.asarray(sum_[: len(owners)], np.float64), minlength=len(cases))
    if steps.reduction == "all":
        entries = np.array([steps.horizon * each.scored.sum() for each in views])
        count = np.where(count > 0, np.bincount(case[used], minlength=len(cases)) * entries, 0)
    scored_cases = count > 0
    return float(np.mean(total[scored_cases] / count[scored_cases])) if scored_cases.any() else float("nan")


def _whole_batches(counts: Int64[np.ndarray, " case"], batch_size: int) -> Bool[np.ndarray, " window"]:
    size = np.minimum(batch_size, np.maximum(counts, 1))
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return within < np.repeat(counts // size * size, counts)


def forecast_case(
    steps: Steps, params: Any, rows: Rows, cases: ScaledCases, case: int, seen: View, batch_size: int
) -> Float32[np.ndarray, "window horizon target"]:
    """Forecasts of every window of a case, of the targets that count, in ascending order.

    The next batch is under way while one is copied to the host.
    """
    n = int(cases.windows_of(steps.horizon)[case])
    targets = np.flatnonzero(seen.scored)
    targets = targets[np.argsort(seen.channels[targets])]
    out = np.empty((n, steps.horizon, len(targets)), np.float32)
    first = int(cases.offsets[case])
    waiting: list[tuple[int, jax.Array]] = []
    for start in range(0, n, batch_size):
        ends = np.minimum(np.arange(start, start + batch_size), n - 1) + first
        waiting.append((start, steps.forecast(params, rows, ends.astype(np.int32), seen.channels)))
        if len(waiting) > 1:
            _place(out, *waiting.pop(0), targets)
    for start, found in waiting:
        _place(out, start, found, targets)
    return out


def _place(out: np.ndarray, start: int, found: jax.Array, targets: np.ndarray) -> None:
    rows = min(len(found), len(out) - start)
    out[start : start + rows] = np.asarray(found)[:rows][:, :, targets]
