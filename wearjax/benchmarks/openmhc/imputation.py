"""The imputation benchmark of OpenMHC: hide measured cells in six ways, let methods fill them, score that.

Days pass once: read a batch, hide, impute with every method, keep the pairs until their participants are
complete, turn them into one error a participant and task. All that follows works on the small error table.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from wearjax import __version__, channels
from wearjax.benchmarks.openmhc import imputation_errors, imputation_scores
from wearjax.benchmarks.openmhc.imputation_cases import ATTRIBUTES, Batch, Cases, Masks
from wearjax.benchmarks.openmhc.imputation_errors import DayPairs, ErrorCollector, HiddenCells
from wearjax.benchmarks.openmhc.imputation_gallery import Gallery
from wearjax.benchmarks.openmhc.imputation_results import ImputationResults
from wearjax.benchmarks.openmhc.imputation_tasks import BASELINE
from wearjax.days import labels, splits
from wearjax.days.open import open_days
from wearjax.days.store import Days
from wearjax.errors import ConfigError, MethodError
from wearjax.predict import protocols
from wearjax.predict.imputers import fallback, statistical
from wearjax.segments import mask_cache, masks, seven_days

ALL = masks.SCENARIOS
MAX_DAYS = 7


def evaluate_imputation(
    method: Any | Mapping[str, Any],
    *,
    data_dir: str | os.PathLike,
    split: str = "test",
    n_days: int = 1,
    scenarios: Sequence[str] = ALL,
    max_samples: int | None = None,
    method_name: str | None = None,
    output_dir: str | os.PathLike | None = None,
    bootstrap: int = 1000,
    seed: int = 42,
    mask_dir: str | os.PathLike | None = None,
    mask_seed: int = mask_cache.MASK_SEED,
    batch_days: int = 256,
    gallery_days: int = 2,
) -> ImputationResults:
    """Evaluates one imputer, or several on the same masked days.

    The baseline `locf` is always among them; a given method of that name takes its place.

    Args:
        method: anything with `impute(data, observed_mask, target_mask, ...)` as `wearjax.predict.protocols`
            describes it, or a dict of names to such.
        data_dir: day store with splits, or OpenMHC data root.
        split: `test` or `validation` (`val`, as results call it).
        n_days: days a method sees at once, 1 to 7; more than one gives it windows of a participant's days.
        max_samples: evaluate that many days (windows, for `n_days` > 1), drawn by `default_rng(seed)`; each
            keeps the mask that it has in the whole split.
        method_name: name of a single method; default is what it calls itself.
        output_dir: run folder for scores, errors, results and example days.
        bootstrap: draws for the intervals; 0 for none.
        seed: of the bootstrap, of `max_samples` and of the choice of example days; masks have their own.
        mask_dir: published masks (`<mask_dir>/<split>/<scenario>.npz`); default draws them from `mask_seed`.
        batch_days: most days in a call of a method; a method with `requires_user_grouped_batches` gets whole
            participants instead.
        gallery_days: example days kept per scenario.

    Raises:
        ConfigError: an argument has an impossible value, or the split has no day. MethodError: a method broke
        its contract. StoreError, SourceError: the data are not readable.
    """
    methods = _named_methods(method, method_name)
    given = tuple(methods)
    scenarios = _checked(
        scenarios,
        split=split,
        n_days=n_days,
        least={"max_samples": (max_samples, 1), "bootstrap": (bootstrap, 0), "batch_days": (batch_days, 1)},
    )
    split = mask_cache.split_name(split)
    days = open_days(data_dir)
    members = splits.read_splits(data_dir)
    indices, train = members.indices(days, split), members.indices(days, "train").tolist()
    if not len(indices):
        raise ConfigError(f"{data_dir}: split {split!r} has no day that passes the wear and variance filters")
    if BASELINE not in methods:
        methods = {BASELINE: statistical.build(BASELINE, days, train), **methods}
    config = {
        "methods": list(methods), "data_dir": str(data_dir), "split": split, "n_days": n_days,
        "scenarios": list(scenarios), "max_samples": max_samples, "bootstrap": bootstrap, "seed": seed,
        "mask_dir": None if mask_dir is None else str(mask_dir), "mask_seed": mask_seed,
        "batch_days": batch_days, "gallery_days": gallery_days,
    }  # fmt: skip
    people = labels.read_demographics(data_dir)
    cases = Cases(days, indices, n_days=n_days, max_samples=max_samples, seed=seed, demographics=people)
    run = _Run(
        methods,
        scenarios,
        cases,
        Masks(scenarios, split, folder=None if mask_dir is None else Path(mask_dir), mask_seed=mask_seed),
        fallback.fit_days(days, train),
        Gallery(tuple(methods), scenarios, cases, per_scenario=gallery_days, seed=seed),
        batch_days=batch_days,
    )
    with _progress(cases.n_evaluated) as advance:
        run.all_groups(advance)
    results = _results(run, given, config, _days_left_out(days, members, split, cases))
    if output_dir is not None:
        results.save(output_dir)
    return results


def _results(
    run: _Run, given: tuple[str, ...], config: dict[str, Any], left_out: dict[str, int]
) -> ImputationResults:
    """Scores the collected errors and puts everything together."""
    table = run.collector.table()
    split, seed, n_boot = config["split"], config["seed"], config["bootstrap"]
    return ImputationResults(
        scores=tuple(imputation_scores.score(table, n_boot=n_boot, seed=seed, split=split)),
        errors=table,
        by_method=run.metrics(split),
        method_names=given,
        split=split,
        seed=seed,
        n_days=config["n_days"],
        n_boot=n_boot,
        n_samples=run.cases.n_evaluated,
        substituted={m: int(sum(run.substituted[m, s].sum() for s in run.scenarios)) for m in run.methods},
        skipped={**left_out, **run.skipped},
        seconds={m: round(s, 3) for m, s in run.seconds.items()},
        config=config,
        versions=_versions(),
        provenance=getattr(run.cases.days, "meta", {}).get("provenance", {}),
        gallery=run.gallery.arrays(),
    )


def _versions() -> dict[str, str]:
    return {"wearjax": __version__, "numpy": np.__version__, "python": platform.python_version()}


def _named_methods(method: Any, name: str | None) -> dict[str, Any]:
    if isinstance(method, Mapping):
        if name is not None:
            raise ConfigError("method_name: only for a single method; the dict already names them")
        if not method:
            raise ConfigError("method: the dict of methods is empty")
        methods = {str(key): value for key, value in method.items()}
    else:
        methods = {name or protocols.method_name(method): method}
    for key, value in methods.items():
        if not callable(getattr(value, "impute", None)):
            raise MethodError(f"{key}: has no impute(data, observed_mask, target_mask) method")
    return methods


def _checked(
    scenarios: Sequence[str], *, split: str, n_days: int, least: dict[str, tuple[int | None, int]]
) -> tuple[str, ...]:
    """The scenarios in benchmark order, after a look at every argument."""
    wanted = (scenarios,) if isinstance(scenarios, str) else tuple(scenarios)
    unknown = [s for s in wanted if s not in ALL]
    if unknown or not wanted:
        raise ConfigError(
            f"scenarios: {unknown[0] if unknown else 'none'!r}; expected some of {', '.join(ALL)}"
        )
    if mask_cache.split_name(split) not in ("test", "val"):
        raise ConfigError(f"split {split!r}: expected test or validation")
    if not 1 <= n_days <= MAX_DAYS:
        raise ConfigError(f"n_days: expected 1 to {MAX_DAYS}, got {n_days}")
    for name, (value, smallest) in least.items():
        if value is not None and value < smallest:
            raise ConfigError(f"{name}: expected at least {smallest}, got {value}")
    return tuple(s for s in ALL if s in wanted)


def _days_left_out(days: Days, members: splits.Splits, split: str, cases: Cases) -> dict[str, int]:
    """Days and participants of the split that are not evaluated, by reason."""
    everything = members.indices(days, split, retained_only=False)
    present = set(days.participants[everything])
    counts = {
        "days below the wear or variance filter": len(everything) - len(cases.indices),
        "days beyond max_samples": len(cases.indices) - cases.n_evaluated,
        "participants of the split without a day": len(set(members.of(split)) - present),
        "participants without an evaluated day": len(present) - len(cases.participants),
    }
    return {reason: n for reason, n in counts.items() if n}


class _Run:
    """The pass over the days: state that grows batch by batch."""

    def __init__(
        self,
        methods: dict[str, Any],
        scenarios: tuple[str, ...],
        cases: Cases,
        masks_of: Masks,
        statistics: fallback.FallbackStatistics,
        gallery: Gallery,
        *,
        batch_days: int,
    ):
        self.methods, self.scenarios, self.cases, self.masks, self.gallery = (
            methods,
            scenarios,
            cases,
            masks_of,
            gallery,
        )
        self.statistics, self.batch_days = statistics, batch_days
        attributes = ATTRIBUTES if cases.subgroups else {}
        self.collector = ErrorCollector(tuple(methods), scenarios, cases.participants, attributes=attributes)
        pairs = [(m, s) for m in methods for s in scenarios]
        self.substituted = {pair: np.zeros(channels.N_CHANNELS, np.int64) for pair in pairs}
        self.asked = {pair: np.zeros(channels.N_CHANNELS, np.int64) for pair in pairs}
        self.applicable: Counter[str] = Counter()
        self.seconds = dict.fromkeys(methods, 0.0)

    def all_groups(self, advance) -> None:
        whole = any(getattr(m, "requires_user_grouped_batches", False) for m in self.methods.values())
        for group in self.cases.groups(self.batch_days, whole_participants=whole):
            pairs: dict[tuple[str, str], list[DayPairs]] = {}
            positions: dict[str, list[np.ndarray]] = {}
            for rows in group:
                batch = self.cases.batch(rows)
                for scenario in self.scenarios:
                    self._impute(scenario, batch, pairs, positions)
                advance(int(np.count_nonzero(batch.windows != seven_days.PADDING)))
            self._finish(pairs, positions)

    def _impute(self, scenario: str, batch: Batch, pairs: dict, positions: dict) -> None:
        """One scenario of one batch: hide, fill with every method, keep the pairs."""
        target, applicable = self.masks.of_batch(scenario, batch)
        rows = np.flatnonzero(applicable.any(axis=1))
        if not len(rows):
            return
        has_mask = applicable[rows]
        self.applicable[scenario] += int(has_mask.sum())
        truth, hidden = batch.values[rows], target[rows]
        observed = ~np.isnan(truth)
        corrupted = np.where(hidden, np.float32(np.nan), truth)
        at = batch.windows[rows][has_mask]
        positions.setdefault(scenario, []).append(at)
        true_days, hidden_days = self._days(truth, has_mask), self._days(hidden, has_mask)
        cells = HiddenCells(true_days, hidden_days)
        shown = self.gallery.offered(scenario, at)
        for name, imputer in self.methods.items():
            start = time.perf_counter()
            # Copies, so that a method which writes into its arguments harms only itself.
            filled = protocols.call_impute(
                imputer, corrupted.copy(), observed.copy(), hidden.copy(), **batch.metadata(rows)
            )
            self.seconds[name] += time.perf_counter() - start
            done = fallback.substitute(filled, hidden, self.statistics.fill)
            self.substituted[name, scenario] += done.substituted
            self.asked[name, scenario] += done.asked
            filled_days = self._days(done.values, has_mask)
            pairs.setdefault((name, scenario), []).append(cells.pairs(filled_days))
            self.gallery.keep(scenario, name, shown, true_days, hidden_days, filled_days)

    def _days(self, array: np.ndarray, has_mask: np.ndarray) -> np.ndarray:
        """Cuts windows into days and keeps those with a mask."""
        cut = seven_days.split_days(array, self.cases.n_days)
        return cut.reshape(-1, *cut.shape[2:]) if has_mask.all() else cut[has_mask]

    def _finish(
        self, pairs: dict[tuple[str, str], list[DayPairs]], positions: dict[str, list[np.ndarray]]
    ) -> None:
        for (name, scenario), parts in pairs.items():
            at = np.concatenate(positions[scenario])
            self.collector.add(
                name,
                scenario,
                imputation_errors.join(parts),
                participant=self.cases.participant_of[at],
                subgroups={attribute: codes[at] for attribute, codes in self.cases.subgroups.items()},
            )

    @property
    def skipped(self) -> dict[str, int]:
        total = self.cases.n_evaluated
        found = {f"{s}: days without a mask": total - self.applicable[s] for s in self.scenarios}
        found["cells beyond float16"] = self.collector.overflows
        return {reason: n for reason, n in found.items() if n}

    def metrics(self, split: str) -> dict[str, dict[str, dict[str, dict]]]:
        """Display metrics and fallback rates by method, scenario and split."""
        return {m: {s: {split: self._cell(m, s)} for s in self.scenarios} for m in self.methods}

    def _cell(self, method: str, scenario: str) -> dict[str, Any]:
        substituted, asked = self.substituted[method, scenario], self.asked[method, scenario]
        return {
            **self.collector.display_metrics(method, scenario, self.statistics.stds),
            "n_samples": self.applicable[scenario],
            "n_applicable": self.applicable[scenario],
            "n_total": self.cases.n_evaluated,
            "overall_fallback_rate": fallback.overall_rate(substituted, asked),
            "fallback_rate": fallback.channel_rates(substituted, asked),
        }


@contextmanager
def _progress(total: int) -> Iterator:
    """A bar on a terminal, silence elsewhere."""
    if not sys.stderr.isatty():
        yield lambda n: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Evaluating days", total=total)
        yield lambda n: bar.advance(task, n)
