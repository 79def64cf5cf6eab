"""The pass over the evaluated days: hide, let every method fill, keep the pairs until participants are complete.

What is known of a method after a group of participants is one record of arrays, so that an interrupted
evaluation goes on where each of its methods stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wearjax.benchmarks.openmhc.imputation_cases import ATTRIBUTES, Cases, Masks
from wearjax.benchmarks.openmhc.imputation_errors import ErrorCollector
from wearjax.benchmarks.openmhc.imputation_gallery import Gallery
from wearjax.benchmarks.openmhc.imputation_group import Counts, Found, Task, Worker, work
from wearjax.benchmarks.openmhc.imputation_parts import ImputationParts
from wearjax.engine import Engine
from wearjax.errors import ConfigError
from wearjax.predict.imputers import fallback
from wearjax.train.interrupt import Interrupts

# How closely a method must repeat its first answer to go on from what is kept of it.
_SAME = 1e-3


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
        self.methods, self.scenarios, self.cases = dict(methods), scenarios, cases
        self.statistics, self.gallery = statistics, gallery
        self._worker = Worker(methods, scenarios, cases, masks_of, statistics, gallery.part({}))
        attributes = ATTRIBUTES if cases.subgroups else {}
        self.collector = ErrorCollector(tuple(methods), scenarios, cases.participants, attributes=attributes)
        self.counts = {name: Counts(len(scenarios)) for name in methods}
        whole = any(getattr(m, "requires_user_grouped_batches", False) for m in methods.values())
        self._groups = list(cases.groups(batch_days, whole_participants=whole))
        self._groups_done = dict.fromkeys(methods, 0)
        self._first_answer: dict[str, np.ndarray] = {}
        self._whole = True  # no group is half taken up

    def all_groups(
        self,
        advance: Callable[[int], None],
        kept: ImputationParts | None = None,
        engine: Engine | None = None,
    ) -> None:
        """Passes over the days, from where each method stopped if it is found in `kept`.

        Raises:
            KeyboardInterrupt: on Ctrl-C or SIGTERM, after what is complete was written.
            ConfigError: a method of that name gave other answers before, or the engine failed.
        """
        if kept is not None:
            self._restore(kept)
        pending = []
        for number, group in enumerate(self._groups):
            if number >= min(self._groups_done.values()):
                pending.append(number)
            else:
                advance(self._days_of(group))
        with Interrupts() as interrupts:

            def check() -> None:
                if interrupts.requested:
                    raise KeyboardInterrupt

            self._worker.check = check
            try:
                results = (engine or Engine()).map(work, map(self._task, pending), shared=self._worker)
                for number, found in zip(pending, results, strict=True):
                    self._keep(found, number + 1)
                    advance(self._days_of(self._groups[number]))
                    check()
                    if kept is not None and (kept.is_due() or number == pending[-1]):
                        self._save(kept)
            except BaseException:
                if kept is not None and self._whole:
                    self._save(kept)
                raise

    def _task(self, number: int) -> Task:
        names = tuple(name for name, done in self._groups_done.items() if done <= number)
        return Task(self._groups[number], names, self.gallery.bounds())

    def _days_of(self, group: list[np.ndarray]) -> int:
        return sum(map(self.cases.count_days, group))

    def _keep(self, found: Found, done: int) -> None:
        self._whole = False
        for name, counts in found.counts.items():
            self.counts[name].add(counts)
            self.collector.merge(name, found.errors[name], found.people)
            self.gallery.restore(name, found.gallery[name])
            if name in found.first_answer:
                self._first_answer.setdefault(name, found.first_answer[name])
        self.gallery.trim()
        self._groups_done.update(dict.fromkeys(found.counts, done))
        self._whole = True

    def _save(self, kept: ImputationParts) -> None:
        for name, done in self._groups_done.items():
            if done:
                kept.write(name, self._record(name))

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

    def _restore(self, kept: ImputationParts) -> None:
        for name in self.methods:
            record = kept.read(name)
            if record is None:
                continue
            self._first_answer[name] = record["first_answer"]
            self._check_same(name, kept)
            self.collector.restore(name, _part(record, "errors"))
            self.gallery.restore(name, _part(record, "gallery"))
            vars(self.counts[name]).update(_part(record, "counts"))
            self._groups_done[name] = int(record["groups_done"])

    def _check_same(self, name: str, kept: ImputationParts) -> None:
        """A method must repeat its first answer: another one may have taken its name meanwhile."""
        before = self._first_answer[name]
        if not len(before):
            return
        now = self._worker.first_fill(name, self._groups)
        scale = float(np.nanmax(np.abs(before), initial=0.0, where=np.isfinite(before)))
        if now.shape != before.shape or not np.allclose(
            now, before, rtol=_SAME, atol=_SAME * scale, equal_nan=True
        ):
            raise ConfigError(
                f"{kept.folder}: {name!r} now fills in other values than when this evaluation was begun; "
                "pass force=True (--force) to start over, or choose another folder"
            )

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
