"""The surgeries of a split as training and scoring take them: gaps filled, scaled, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int32, Int64

from wearjax.errors import ConfigError
from wearjax.segments import vital_imputation, vital_windows
from wearjax.segments.vital_settings import VitalSettings

if TYPE_CHECKING:
    from wearjax.segments.vital_cases import CaseStore

Record = Float[np.ndarray, "row variable"]


@dataclass(frozen=True, eq=False)
class ScaledCases:
    """Scaled surgeries of a split, one after another.

    Attributes:
        offsets: first row of each case, and the number of rows at the end.
        values: what models see; 0 = missing.
        targets: what they are scored on, the last variables; 0 where not observed.
        observed: where targets count.
        low, span: of each case and variable: original = scaled · span + low.
    """

    ids: tuple[str, ...]
    offsets: Int64[np.ndarray, "case+1"]
    values: Float32[np.ndarray, "row variable"]
    targets: Float32[np.ndarray, "row target"]
    observed: Bool[np.ndarray, "row target"]
    low: Float64[np.ndarray, "case variable"]
    span: Float64[np.ndarray, "case variable"]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_channels(self) -> int:
        return self.values.shape[1]

    @property
    def n_targets(self) -> int:
        return self.targets.shape[1]

    def windows_of(self, horizon: int) -> Int64[np.ndarray, " case"]:
        """Number of windows of each case."""
        return vital_windows.window_count(np.diff(self.offsets), horizon)

    def window_ends(self, horizon: int) -> tuple[Int32[np.ndarray, " window"], Int32[np.ndarray, " window"]]:
        """Last input row of every window, and its case."""
        counts = self.windows_of(horizon)
        case = np.repeat(np.arange(len(self), dtype=np.int32), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return (self.offsets[case] + within).astype(np.int32), case

    def case_starts(self) -> Int32[np.ndarray, " row"]:
        """First row of the case that each row belongs to."""
        return np.repeat(self.offsets[:-1], np.diff(self.offsets)).astype(np.int32)

    def future(
        self, case: int, horizon: int
    ) -> tuple[Float32[np.ndarray, "window horizon target"], Bool[np.ndarray, "window horizon target"]]:
        """Targets of every window of a case, and where they are observed; views, not copies."""
        rows = slice(self.offsets[case] + 1, self.offsets[case + 1])
        return _sliding(self.targets[rows], horizon), _sliding(self.observed[rows], horizon)

    def original(
        self, case: int, scaled: Float[np.ndarray, "*any target"], targets: Int64[np.ndarray, " target"]
    ) -> Float64[np.ndarray, "*any target"]:
        """Values in the units of the variables; `targets` are their positions among all channels."""
        return scaled * self.span[case, targets] + self.low[case, targets]


def _sliding(rows: np.ndarray, width: int) -> np.ndarray:
    if len(rows) < width:
        return np.empty((0, width, rows.shape[1]), rows.dtype)
    return np.lib.stride_tricks.sliding_window_view(rows, width, axis=0).transpose(0, 2, 1)


def prepare(
    ids: Sequence[str],
    record: Callable[[int], Record],
    n_targets: int,
    settings: VitalSettings = VitalSettings(),  # noqa: B008 (frozen)
    *,
    keep: tuple[int, ...] = (),
    stats: vital_windows.Range | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ScaledCases:
    """Fills and scales surgeries as the settings say.

    With `impute_targets` off, filled inputs and raw targets share the extremes of the raw record, so that errors
    stand beside those of a run without imputation.

    Args:
        record: values of the case at a position of `ids`, 0 = missing, covariates first and targets last.
        keep: columns in which 0 is a value, sex.
        stats: extremes of the training values, for `train_global`.

    Raises:
        ConfigError: no cases, records of different widths, or a value that is not finite.
    """
    if not len(ids):
        raise ConfigError("cases: the split has none")
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    ranges: list[vital_windows.Range] = []
    for i, name in enumerate(ids):
        raw = np.asarray(record(i), np.float32)
        if raw.ndim != 2 or raw.shape[1] <= n_targets or (parts and raw.shape[1] != parts[0][0].shape[1]):
            raise ConfigError(
                f"case {name}: expected (row, variable) as the other cases, {n_targets} of them targets, "
                f"got {raw.shape}"
            )
        if not np.isfinite(raw).all():
            raise ConfigError(f"case {name}: a value is not finite; 0 stands for a missing one")
        values, targets, observed, used = _prepare_case(raw, n_targets, settings, keep, stats)
        parts.append((values, targets, observed))
        ranges.append(used)
        if progress:
            progress(i + 1, len(ids))
    values, targets, observed = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return ScaledCases(
        tuple(ids),
        np.cumsum([0] + [len(part[0]) for part in parts]),
        values,
        targets,
        observed,
        np.stack([used.low for used in ranges]),
        np.stack([used.span for used in ranges]),
    )


def _prepare_case(
    raw: Record,
    n_targets: int,
    settings: VitalSettings,
    keep: tuple[int, ...],
    stats: vital_windows.Range | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, vital_windows.Range]:
    filled = vital_imputation.impute(raw, settings.imputation, keep=keep)
    scored = filled if settings.impute_targets else raw
    if settings.scaling == "per_case":
        stats = vital_windows.case_range(scored)
    elif stats is None:
        raise ConfigError("scaling: train_global needs the extremes of the training values")
    values = vital_windows.scale(filled, scaling=settings.scaling, stats=stats, keep=keep)
    targets = vital_windows.scale(
        scored[:, -n_targets:], scaling=settings.scaling, stats=_last(stats, n_targets)
    )
    if settings.scaling == "per_case":
        observed = targets != 0
    else:
        observed = ~vital_windows.missing(scored[:, -n_targets:], ())
    return values, np.where(observed, targets, 0), observed, stats


def _last(stats: vital_windows.Range, n: int) -> vital_windows.Range:
    return vital_windows.Range(stats.low[-n:], stats.high[-n:])


def of_store(
    store: CaseStore,
    ids: Sequence[str],
    settings: VitalSettings = VitalSettings(),  # noqa: B008 (frozen)
    *,
    every: int = 1,
    stats: vital_windows.Range | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ScaledCases:
    """Some cases of a store, in the order of `ids`: a split's list, or its first part.

    Args:
        every: rows of the store that make one row, for VitalDB at one minute.
        stats: for `train_global`, what `training_range` found.
    """
    return prepare(
        ids,
        lambda i: _record(store, ids[i], settings, every),
        store.centre.n_targets,
        settings,
        keep=zero_is_value(store),
        stats=stats,
        progress=progress,
    )


def training_range(
    store: CaseStore, ids: Sequence[str], settings: VitalSettings, *, every: int = 1
) -> vital_windows.Range:
    """Extremes of the observed values of some cases, before any imputation."""
    records = (_record(store, name, settings, every) for name in ids)
    return vital_windows.observed_range(records, keep=zero_is_value(store))


def zero_is_value(store: CaseStore) -> tuple[int, ...]:
    """Columns in which 0 is a value."""
    return tuple(i for i, variable in enumerate(store.centre.variables) if variable.zero_is_value)


def _record(store: CaseStore, name: str, settings: VitalSettings, every: int) -> Record:
    values = store.case(store.index(name))
    return values if every == 1 else vital_windows.downsample(values, every, rule=settings.downsampling)
