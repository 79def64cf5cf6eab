"""From imputed days to per-participant errors, a few days at a time.

Continuous channels are reduced to sums as the days pass; binary channels keep their pairs, a flag and a
float16 each, until the participant is complete, because an area under a curve needs them all.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from wearjax import channels
from wearjax.benchmarks.openmhc import imputation_tasks
from wearjax.scores import classification
from wearjax.scores import errors as score_errors
from wearjax.scores.errors import ErrorTable, SubgroupErrors
from wearjax.segments.masks import STRUCTURAL

_CONTINUOUS = list(channels.CONTINUOUS)
_BINARY = list(channels.BINARY)


@dataclass(frozen=True, eq=False)
class DayPairs:
    """What is kept of the scored cells of some days.

    Attributes:
        count, absolute, squared: number of scored cells and sums of their errors, continuous channels.
        cells: number of scored cells, binary channels.
        truth, score: the pairs of each binary channel, days one after another.
        overflows: cells that float16 cannot hold.
    """

    count: Int[np.ndarray, "day continuous"]
    absolute: Float[np.ndarray, "day continuous"]
    squared: Float[np.ndarray, "day continuous"]
    cells: Int[np.ndarray, "day binary"]
    truth: tuple[Bool[np.ndarray, " cell"], ...]
    score: tuple[Float[np.ndarray, " cell"], ...]
    overflows: int


class HiddenCells:
    """The target cells of some days where the truth is known, ready to be paired with any method's fills."""

    def __init__(
        self,
        truth: Float[np.ndarray, "day channel=19 minute"],
        target: Bool[np.ndarray, "day channel=19 minute"],
    ):
        cells = np.flatnonzero(target)
        true = truth.ravel()[cells]
        finite = np.isfinite(true)
        self._shape = truth.shape
        self._arrange(cells[finite], score_errors.half_precision(true[finite]))

    def _arrange(self, cells: np.ndarray, true: np.ndarray) -> None:
        n_days, n_channels, n_minutes = self._shape
        self._cells, self._true = cells, true
        # Cells lie day by day and channel by channel: each (day, channel) is a slice of them.
        self._row = cells // n_minutes
        self._count = np.bincount(self._row, minlength=n_days * n_channels).reshape(n_days, n_channels)
        ends = np.cumsum(self._count).reshape(self._count.shape)
        starts = ends - self._count
        self._slices = [[slice(*at) for at in zip(starts[:, c], ends[:, c], strict=True)] for c in _BINARY]
        self._flags = tuple(chained > 0.5 for chained in self._chained(true))

    def _chained(self, values: np.ndarray) -> Iterator[np.ndarray]:
        """The values of each binary channel, day after day."""
        return (np.concatenate([values[at] for at in own]) for own in self._slices)

    def pairs(self, prediction: Float[np.ndarray, "day channel=19 minute"]) -> DayPairs:
        """Pairs with a method's fills, both rounded to float16; fills that are not finite are left out."""
        filled = prediction.ravel()[self._cells]
        finite = np.isfinite(filled)
        if not finite.all():
            fewer = copy.copy(self)
            fewer._arrange(self._cells[finite], self._true[finite])
            return fewer.pairs(prediction)
        filled = score_errors.half_precision(filled)
        sums = score_errors.error_sums(self._true, filled, self._row, self._count.size)
        count, absolute, squared = (part.reshape(self._count.shape) for part in sums)
        return DayPairs(
            count=count[:, _CONTINUOUS],
            absolute=absolute[:, _CONTINUOUS],
            squared=squared[:, _CONTINUOUS],
            cells=count[:, _BINARY],
            truth=self._flags,
            score=tuple(chained.astype(np.float16) for chained in self._chained(filled)),
            overflows=int(np.count_nonzero(np.isinf(self._true)) + np.count_nonzero(np.isinf(filled))),
        )


def join(parts: Sequence[DayPairs]) -> DayPairs:
    """The pairs of consecutive days as one."""

    def stacked(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    def chained(name: str) -> tuple[np.ndarray, ...]:
        return tuple(
            np.concatenate(one) for one in zip(*(getattr(part, name) for part in parts), strict=True)
        )

    return DayPairs(
        count=stacked("count"),
        absolute=stacked("absolute"),
        squared=stacked("squared"),
        cells=stacked("cells"),
        truth=chained("truth"),
        score=chained("score"),
        overflows=sum(part.overflows for part in parts),
    )


class ErrorCollector:
    """Collects the errors of several methods, participant by participant.

    Args:
        attributes: subgroup names of each attribute; empty without demographics.
    """

    def __init__(
        self,
        methods: Sequence[str],
        scenarios: Sequence[str],
        participants: Sequence[str],
        *,
        attributes: Mapping[str, Sequence[str]],
    ):
        self.methods, self.scenarios, self.participants = (
            tuple(methods),
            tuple(scenarios),
            tuple(participants),
        )
        self.tasks = imputation_tasks.tasks(scenarios)
        self._overflows = np.zeros(len(methods), np.int64)
        self._task_of = {(t.scenario, t.channel): i for i, t in enumerate(self.tasks)}
        shape = (len(methods), len(self.tasks), len(participants))
        self._errors = np.full(shape, np.nan)
        self._attributes = {name: tuple(values) for name, values in attributes.items()}
        self._subgroups = {name: np.full((len(v), *shape), np.nan) for name, v in self._attributes.items()}
        shown = (len(methods), len(scenarios), channels.N_CHANNELS, len(participants))
        # Per-participant values of the display metrics: mean absolute and squared error, accuracy and AUC.
        self._first, self._second = np.full(shown, np.nan), np.full(shown, np.nan)
        self._masked = np.zeros(shown[:3], np.int64)

    def add(
        self,
        method: str,
        scenario: str,
        pairs: DayPairs,
        *,
        participant: Int[np.ndarray, " day"],
        subgroups: Mapping[str, Int[np.ndarray, " day"]],
    ) -> None:
        """Scores whole participants; all of a participant's days must be in one call, side by side.

        Args:
            participant: position of each day's participant.
            subgroups: position of each day's subgroup, for every attribute.
        """
        m, s = self.methods.index(method), self.scenarios.index(scenario)
        self._overflows[m] += pairs.overflows
        self._masked[m, s, _CONTINUOUS] += pairs.count.sum(axis=0)
        self._masked[m, s, _BINARY] += pairs.cells.sum(axis=0)
        self._add_continuous(m, s, pairs, participant, subgroups)
        self._add_binary(m, s, pairs, participant, subgroups)

    def _add_continuous(self, m, s, pairs, participant, subgroups) -> None:
        people, local = np.unique(participant, return_inverse=True)
        for i, c in enumerate(_CONTINUOUS):
            task = self._task_of.get((self.scenarios[s], f"ch_{c}"))
            sums = (pairs.count[:, i], pairs.absolute[:, i])
            mean = _means(local, len(people), *sums)
            self._first[m, s, c, people] = mean
            self._second[m, s, c, people] = _means(local, len(people), pairs.count[:, i], pairs.squared[:, i])
            if task is None:
                continue
            self._errors[m, task, people] = mean
            for name, code in subgroups.items():
                n_groups = len(self._attributes[name])
                inside = _means(code * len(people) + local, n_groups * len(people), *sums)
                self._subgroups[name][:, m, task, people] = inside.reshape(n_groups, len(people))

    def _add_binary(self, m, s, pairs, participant, subgroups) -> None:
        edges = np.flatnonzero(np.diff(participant)) + 1
        starts, stops = np.concatenate([[0], edges]), np.concatenate([edges, [len(participant)]])
        offsets = np.concatenate([np.zeros((1, len(_BINARY)), np.int64), np.cumsum(pairs.cells, axis=0)])
        for start, stop in zip(starts, stops, strict=True):
            person = participant[start]
            codes = {name: code[start:stop] for name, code in subgroups.items()}
            area = np.full(channels.N_CHANNELS, np.nan)
            inside = {
                name: np.full((len(v), channels.N_CHANNELS), np.nan) for name, v in self._attributes.items()
            }
            for i, c in enumerate(_BINARY):
                cells = slice(offsets[start, i], offsets[stop, i])
                truth, score = pairs.truth[i][cells], pairs.score[i][cells].astype(np.float32)
                if not len(truth):
                    continue
                self._first[m, s, c, person] = classification.balanced_accuracy(truth, score)
                area[c] = self._second[m, s, c, person] = classification.roc_auc(truth, score)
                for name, code in codes.items():
                    inside[name][:, c] = _areas_inside(
                        truth, score, np.repeat(code, pairs.cells[start:stop, i]), area[c], len(inside[name])
                    )
            if self.scenarios[s] in STRUCTURAL:
                self._put_areas(self._errors[m], s, person, area)
                for name, areas in inside.items():
                    for group, one in enumerate(areas):
                        self._put_areas(self._subgroups[name][group, m], s, person, one)

    def _put_areas(self, errors: np.ndarray, s: int, person: int, area: np.ndarray) -> None:
        """Errors of the binary channels and, as their mean where defined, of the collapsed tasks."""
        scenario = self.scenarios[s]
        for c in _BINARY:
            errors[self._task_of[scenario, f"ch_{c}"], person] = 1.0 - area[c]
        for name, members in imputation_tasks.COLLAPSED.items():
            defined = area[list(members)][np.isfinite(area[list(members)])]
            if len(defined):
                errors[self._task_of[scenario, f"cat_collapsed:{name}"], person] = np.mean(1.0 - defined)

    @property
    def overflows(self) -> int:
        """Cells of all methods that float16 could not hold."""
        return int(self._overflows.sum())

    def _arrays(self, method: str) -> dict[str, np.ndarray]:
        """Views of everything known of one method."""
        m = self.methods.index(method)
        parts = {"errors": self._errors, "first": self._first, "second": self._second, "masked": self._masked}
        inside = {f"inside_{name}": errors[:, m] for name, errors in self._subgroups.items()}
        return {**{k: a[m] for k, a in parts.items()}, **inside, "overflows": self._overflows[m : m + 1]}

    def record(self, method: str) -> dict[str, np.ndarray]:
        """Copies of everything known of one method."""
        return {name: array.copy() for name, array in self._arrays(method).items()}

    def restore(self, method: str, record: Mapping[str, np.ndarray]) -> None:
        """Takes up a record of the same tasks and participants."""
        for name, array in self._arrays(method).items():
            array[...] = record[name]

    def merge(self, method: str, record: Mapping[str, np.ndarray], people: slice) -> None:
        """Takes up the record of another collector of the same tasks, for some of the participants."""
        for name, array in self._arrays(method).items():
            if name in ("masked", "overflows"):
                array += record[name]
            else:
                array[..., people] = record[name]

    def table(self) -> ErrorTable:
        """The errors collected so far."""
        groups = {name: SubgroupErrors(v, self._subgroups[name]) for name, v in self._attributes.items()}
        return ErrorTable(self.methods, self.tasks, self.participants, self._errors, groups)

    def display_metrics(self, method: str, scenario: str, stds: Float[np.ndarray, "channel=19"]) -> dict:
        """Metrics for people: macro averages over participants, per channel and over the channels of a kind.

        Args:
            stds: standard deviation of each channel over the training split, for the normalized errors.
        """
        m, s = self.methods.index(method), self.scenarios.index(scenario)
        per_channel = {}
        for c in range(channels.N_CHANNELS):
            if self._masked[m, s, c]:
                shown = (
                    self._continuous_metrics if channels.CHANNELS[c].is_continuous else self._binary_metrics
                )
                per_channel[f"ch_{c}"] = {
                    "n_masked": int(self._masked[m, s, c]),
                    **shown(m, s, c, float(stds[c])),
                }
        return {"per_channel": per_channel, **_macro(per_channel)}

    def _continuous_metrics(self, m, s, c, std) -> dict[str, float]:
        mae, mse = _mean(self._first[m, s, c]), _mean(self._second[m, s, c])
        rmse = _mean(np.sqrt(self._second[m, s, c]))
        return {
            "mae": mae,
            "mse": mse,
            "rmse": rmse,
            "normalized_mae": mae / std,
            "normalized_mse": mse / std**2,
            "normalized_rmse": rmse / std,
        }

    def _binary_metrics(self, m, s, c, std) -> dict[str, float]:
        return {"balanced_accuracy": _mean(self._first[m, s, c]), "roc_auc": _mean(self._second[m, s, c])}


def _means(key: np.ndarray, n: int, count: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Total over count by key; NaN without cells, and where a cell went beyond float16."""
    counts = np.bincount(key, weights=count, minlength=n)
    totals = np.bincount(key, weights=total, minlength=n)
    return np.divide(totals, counts, out=np.full(n, np.nan), where=(counts > 0) & np.isfinite(totals))


def _areas_inside(truth, score, code, area, n_groups) -> np.ndarray:
    """Area under the curve inside each subgroup; most participants have all cells in one."""
    out = np.full(n_groups, np.nan)
    present = np.flatnonzero(np.bincount(code, minlength=n_groups))
    for group in present:
        chosen = code == group
        out[group] = area if len(present) == 1 else classification.roc_auc(truth[chosen], score[chosen])
    return out


def _mean(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")


def _macro(per_channel: dict[str, dict[str, float]]) -> dict[str, dict]:
    """Means over the continuous and over the binary channels that had scored cells."""
    kinds: dict[str, list[dict]] = {"continuous": [], "binary": []}
    for name, metrics in per_channel.items():
        kinds[channels.CHANNELS[int(name.removeprefix("ch_"))].kind].append(metrics)
    prefix = {"continuous": "mean", "binary": "macro"}
    names = {
        "continuous": ("normalized_mae", "normalized_rmse", "normalized_mse", "mae", "rmse"),
        "binary": ("balanced_accuracy", "roc_auc"),
    }
    return {
        kind: {
            **{
                f"{prefix[kind]}_{n}": _mean(np.array([metrics[n] for metrics in found])) for n in names[kind]
            },
            "n_channels": len(found),
            "aggregation": "user_macro",
        }
        for kind, found in kinds.items()
    }
