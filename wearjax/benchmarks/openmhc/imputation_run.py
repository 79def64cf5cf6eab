"""The pass over the evaluated days: hide, let every method fill, keep the pairs until participants are complete.

What is known of a method after a group of participants is one record of arrays, so that an interrupted
evaluation goes on where each of its methods stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wearjax import channels
from wearjax.benchmarks.openmhc import imputation_errors
from wearjax.benchmarks.openmhc.imputation_cases import ATTRIBUTES, Batch, Cases, Masks
from wearjax.benchmarks.openmhc.imputation_errors import DayPairs, ErrorCollector, HiddenCells
from wearjax.benchmarks.openmhc.imputation_gallery import Gallery
from wearjax.benchmarks.openmhc.imputation_unfinished import Unfinished
from wearjax.errors import ConfigError
from wearjax.predict import protocols
from wearjax.predict.imputers import fallback
from wearjax.segments import seven_days
from wearjax.train.interrupt import Interrupts

# How closely a method must repeat its first answer to go on with an unfinished evaluation.
_SAME = 1e-3


class Counts:
    """What one method's share of the pass counted, by scenario (and channel)."""

    def __init__(self, n_scenarios: int):
        self.substituted = np.zeros((n_scenarios, channels.N_CHANNELS), np.int64)
        self.asked = np.zeros((n_scenarios, channels.N_CHANNELS), np.int64)
        self.applicable = np.zeros(n_scenarios, np.int64)
        self.seconds = np.zeros(())

    def add(self, other: Counts) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class _Group:
    """What a group of participants gave so far; it counts once all of it is there."""

    counts: dict[str, Counts]
    pairs: dict[tuple[str, int], list[DayPairs]] = field(default_factory=dict)
    positions: dict[int, list[np.ndarray]] = field(default_factory=dict)


class Run:
    """One evaluation in progress.

    Args:
        gallery: keeps the example days.
        batch_days: most days in a call of a method.
    """

    def __init__(
        self,
        methods: Mapping[str, Any],
        scenarios: tuple[str, ...],
        cases: Cases,
        masks_of: Masks,
        statistics: fallback.FallbackStatistics,
        gallery: Gallery,
        *,
        batch_days: int,
    ):
        self.methods, self.scenarios, self.cases, self.masks = dict(methods), scenarios, cases, masks_of
        self.statistics, self.gallery = statistics, gallery
        attributes = ATTRIBUTES if cases.subgroups else {}
        self.collector = ErrorCollector(tuple(methods), scenarios, cases.participants, attributes=attributes)
        self.counts = {name: Counts(len(scenarios)) for name in methods}
        whole = any(getattr(m, "requires_user_grouped_batches", False) for m in methods.values())
        self._groups = list(cases.groups(batch_days, whole_participants=whole))
        self._groups_done = dict.fromkeys(methods, 0)
        self._first_answer: dict[str, np.ndarray] = {}
        self._whole = True  # no group is half taken up

    def all_groups(self, advance: Callable[[int], None], unfinished: Unfinished | None = None) -> None:
        """Passes over the days, from where each method stopped if it is found in `unfinished`.

        Raises:
            KeyboardInterrupt: on Ctrl-C or SIGTERM, after what is complete was written.
            ConfigError: a method of that name gave other answers before.
        """
        if unfinished is not None:
            self._restore(unfinished)
        with Interrupts() as interrupts:
            try:
                for number, group in enumerate(self._groups):
                    self._one_group(number, group, advance, interrupts)
                    if unfinished is not None and unfinished.is_due():
                        self._save(unfinished)
            except BaseException:
                if unfinished is not None and self._whole:
                    self._save(unfinished)
                raise

    def _one_group(self, number: int, group: list[np.ndarray], advance, interrupts: Interrupts) -> None:
        pending = [name for name, done in self._groups_done.items() if done <= number]
        found = _Group({name: Counts(len(self.scenarios)) for name in pending})
        for rows in group:
            if pending:
                self._one_batch(self.cases.batch(rows), found, interrupts)
            advance(self.cases.count_days(rows))
        self._keep(found, number + 1)

    def _one_batch(self, batch: Batch, found: _Group, interrupts: Interrupts) -> None:
        for s in range(len(self.scenarios)):
            self._impute(s, batch, found)
            if interrupts.requested:
                raise KeyboardInterrupt

    def _impute(self, s: int, batch: Batch, found: _Group) -> None:
        """One scenario of one batch: hide, fill with every pending method, keep the pairs."""
        scenario = self.scenarios[s]
        target, applicable = self.masks.of_batch(scenario, batch)
        rows = np.flatnonzero(applicable.any(axis=1))
        if not len(rows):
            return
        has_mask = applicable[rows]
        truth, hidden = batch.values[rows], target[rows]
        at = batch.windows[rows][has_mask]
        found.positions.setdefault(s, []).append(at)
        true_days, hidden_days = self._days(truth, has_mask), self._days(hidden, has_mask)
        cells = HiddenCells(true_days, hidden_days)
        shown = self.gallery.offered(scenario, at)
        for name, counts in found.counts.items():
            filled, seconds = self._answer(name, batch, rows, hidden)
            self._first_answer.setdefault(name, filled[0][hidden[0]])
            done = fallback.substitute(filled, hidden, self.statistics.fill)
            counts.seconds += seconds
            counts.applicable[s] += int(has_mask.sum())
            counts.substituted[s] += done.substituted
            counts.asked[s] += done.asked
            filled_days = self._days(done.values, has_mask)
            found.pairs.setdefault((name, s), []).append(cells.pairs(filled_days))
            self.gallery.keep(scenario, name, shown, true_days, hidden_days, filled_days)

    def _answer(
        self, name: str, batch: Batch, rows: np.ndarray, hidden: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """What a method fills in, and how long it took."""
        truth = batch.values[rows]
        corrupted = np.where(hidden, np.float32(np.nan), truth)
        # Arrays of its own, so that a method which writes into its arguments harms only itself.
        start = time.perf_counter()
        filled = protocols.call_impute(
            self.methods[name], corrupted, ~np.isnan(truth), hidden.copy(), **batch.metadata(rows)
        )
        return filled, time.perf_counter() - start

    def _days(self, array: np.ndarray, has_mask: np.ndarray) -> np.ndarray:
        """Cuts windows into days and keeps those with a mask."""
        cut = seven_days.split_days(array, self.cases.n_days)
        return cut.reshape(-1, *cut.shape[2:]) if has_mask.all() else cut[has_mask]

    def _keep(self, found: _Group, done: int) -> None:
        self._whole = False
        for name, counts in found.counts.items():
            self.counts[name].add(counts)
        for (name, s), parts in found.pairs.items():
            at = np.concatenate(found.positions[s])
            self.collector.add(
                name,
                self.scenarios[s],
                imputation_errors.join(parts),
                participant=self.cases.participant_of[at],
                subgroups={attribute: codes[at] for attribute, codes in self.cases.subgroups.items()},
            )
        self._groups_done.update(dict.fromkeys(found.counts, done))
        self._whole = True

    def _save(self, unfinished: Unfinished) -> None:
        for name, done in self._groups_done.items():
            if done:
                unfinished.write(name, self._record(name))

    def _record(self, name: str) -> dict[str, np.ndarray]:
        parts = {
            "errors": self.collector.record(name),
            "counts": vars(self.counts[name]),
            "gallery": self.gallery.record(name),
        }
        arrays = {f"{part}/{key}": np.asarray(a) for part, found in parts.items() for key, a in found.items()}
        return {
            **arrays,
            "groups_done": np.array(self._groups_done[name]),
            "first_answer": self._first_answer.get(name, np.zeros(0, np.float32)),
        }

    def _restore(self, unfinished: Unfinished) -> None:
        for name in self.methods:
            record = unfinished.read(name)
            if record is None:
                continue
            self._first_answer[name] = record["first_answer"]
            self._check_same(name, unfinished)
            self.collector.restore(name, _part(record, "errors"))
            self.gallery.restore(name, _part(record, "gallery"))
            vars(self.counts[name]).update(_part(record, "counts"))
            self._groups_done[name] = int(record["groups_done"])

    def _check_same(self, name: str, unfinished: Unfinished) -> None:
        """A method must repeat its first answer: another one may have taken its name meanwhile."""
        before = self._first_answer[name]
        if not len(before):
            return
        now = self._first_fill(name)
        scale = float(np.nanmax(np.abs(before), initial=0.0, where=np.isfinite(before)))
        if now.shape != before.shape or not np.allclose(
            now, before, rtol=_SAME, atol=_SAME * scale, equal_nan=True
        ):
            raise ConfigError(
                f"{unfinished.folder}: {name!r} now fills in other values than when this evaluation was begun; "
                "pass force=True (--force) to start over, or choose another folder"
            )

    def _first_fill(self, name: str) -> np.ndarray:
        for batch_rows in (rows for group in self._groups for rows in group):
            batch = self.cases.batch(batch_rows)
            for scenario in self.scenarios:
                target, applicable = self.masks.of_batch(scenario, batch)
                rows = np.flatnonzero(applicable.any(axis=1))
                if len(rows):
                    hidden = target[rows]
                    return self._answer(name, batch, rows, hidden)[0][0][hidden[0]]
        return np.zeros(0, np.float32)

    @property
    def substituted(self) -> dict[str, int]:
        """Predictions that had to be replaced, by method."""
        return {name: int(counts.substituted.sum()) for name, counts in self.counts.items()}

    @property
    def skipped(self) -> dict[str, int]:
        """What of the evaluated days was left out, by reason."""
        total, applicable = self.cases.n_evaluated, next(iter(self.counts.values())).applicable
        found = {
            f"{scenario}: days without a mask": total - int(n)
            for scenario, n in zip(self.scenarios, applicable, strict=True)
        }
        found["cells beyond float16"] = self.collector.overflows
        return {reason: n for reason, n in found.items() if n}

    def metrics(self, split: str) -> dict[str, dict[str, dict[str, dict]]]:
        """Display metrics and fallback rates by method, scenario and split."""
        return {
            name: {scenario: {split: self._cell(name, s)} for s, scenario in enumerate(self.scenarios)}
            for name in self.methods
        }

    def _cell(self, name: str, s: int) -> dict[str, Any]:
        counts = self.counts[name]
        substituted, asked = counts.substituted[s], counts.asked[s]
        return {
            **self.collector.display_metrics(name, self.scenarios[s], self.statistics.stds),
            "n_samples": int(counts.applicable[s]),
            "n_applicable": int(counts.applicable[s]),
            "n_total": self.cases.n_evaluated,
            "overall_fallback_rate": fallback.overall_rate(substituted, asked),
            "fallback_rate": fallback.channel_rates(substituted, asked),
        }


def _part(record: Mapping[str, np.ndarray], part: str) -> dict[str, np.ndarray]:
    return {k.removeprefix(f"{part}/"): a for k, a in record.items() if k.startswith(f"{part}/")}
