"""The imputation benchmark of OpenMHC: hide measured cells in six ways, let methods fill them, score that.

Days pass once: read a batch, hide, impute with every method, keep the pairs until their participants are
complete, turn them into one error a participant and task. All that follows works on the small error table.
With an output folder, what is complete is written now and then, and the same call goes on from there.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from wearjax import __version__
from wearjax import engine as engines
from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import (
    arguments,
    imputation_masks,
    imputation_parts,
    imputation_scores,
    parts,
    scored_on,
)
from wearjax.benchmarks.openmhc.imputation_cases import Cases, Masks
from wearjax.benchmarks.openmhc.imputation_gallery import Gallery
from wearjax.benchmarks.openmhc.imputation_results import ImputationResults
from wearjax.benchmarks.openmhc.imputation_run import Run
from wearjax.benchmarks.openmhc.imputation_tasks import BASELINE
from wearjax.days import labels, splits
from wearjax.days.open import open_days
from wearjax.days.store import Days
from wearjax.engine import Engine
from wearjax.errors import ConfigError, did_you_mean
from wearjax.predict import protocols
from wearjax.predict.imputers import fallback, statistical
from wearjax.segments import mask_cache, masks

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
    engine: str | Engine | None = None,
    jobs: int | None = None,
    force: bool = False,
) -> ImputationResults:
    """Evaluates one imputer, or several on the same masked days.

    The baseline `locf` is always among them. What a method does not fill in (a value that is not finite, or beyond
    float16, in which errors are computed) is replaced by the mean or majority of the training days and counted.

    Args:
        method: anything with `impute(data, observed_mask, target_mask, ...)` as `wearjax.predict.protocols`
            describes it, or a dict of names to such.
        data_dir: day store with splits, or OpenMHC data root.
        split: `test` or `validation` (`val`, as results call it).
        n_days: days a method sees at once, 1 to 7; more than one gives it windows of a participant's days.
        max_samples: evaluate that many days (windows, for `n_days` > 1), drawn by `default_rng(seed)`; each
            keeps the mask that it has in the whole split.
        method_name: name of a single method; default is what it calls itself.
        output_dir: run folder for scores, errors, results and example days. What is complete after a minute, at
            Ctrl-C and at the end is kept there: the same call goes on from it, reads what is finished, and methods
            may be added.
        bootstrap: draws for the intervals; 0 for none.
        seed: of the bootstrap, of `max_samples` and of the choice of example days; masks have their own.
        mask_dir: published masks (`<mask_dir>/<split>/<scenario>.npz`); default is the folder of masks in a data root
            of the full version, else they are drawn from `mask_seed`.
        batch_days: most days in a call of a method; a method with `requires_user_grouped_batches` gets whole
            participants instead.
        gallery_days: example days kept per scenario.
        engine: where groups of participants are worked on, see `wearjax.engine.Engine`; scores do not depend on it.
            Trained models and PyPOTS run in this process only.
        jobs: processes or workers of the engine.
        force: replace what is in `output_dir`, and start over.

    Raises:
        ConfigError: an argument has an impossible value, the split has no day, or `output_dir` holds another
            evaluation, finished or not; the message names what differs; or a method goes by the baseline's name.
            MethodError: a method broke its contract. StoreError, SourceError: the data are not readable.
    """
    methods = arguments.methods_by_name(method, method_name, call="impute(data, observed_mask, target_mask)")
    if not methods:
        raise ConfigError("method: the dict of methods is empty")
    arguments.check_baseline(methods, BASELINE, statistical.LOCFImputer)
    given = tuple(methods)
    scenarios = _checked(scenarios, split=split, n_days=n_days)
    arguments.check_least(max_samples=(max_samples, 1), bootstrap=(bootstrap, 0), batch_days=(batch_days, 1))
    arguments.check_seeds(seed=seed, mask_seed=mask_seed)
    if engine is not None or jobs is not None:
        protocols.check_elsewhere(methods)
    result_files.check_folder(output_dir)
    if output_dir is not None:
        (parts.clear if force else parts.check_free)(Path(output_dir))
    split = mask_cache.split_name(split)
    days = open_days(data_dir)
    origin = imputation_masks.origin(data_dir, mask_dir=mask_dir, mask_seed=mask_seed)
    members = splits.read_splits(data_dir)
    indices, train = members.indices(days, split), members.indices(days, "train").tolist()
    if not len(indices):
        raise ConfigError(f"{data_dir}: split {split!r} has no day that passes the wear and variance filters")
    if BASELINE not in methods:
        methods = {BASELINE: statistical.build(BASELINE, days, train), **methods}
    settings = {
        "split": split, "n_days": n_days, "scenarios": list(scenarios), "max_samples": max_samples, "seed": seed,
        "mask_dir": None if mask_dir is None else str(mask_dir), "mask_seed": mask_seed,
        "batch_days": batch_days, "gallery_days": gallery_days,
        **({"shipped_masks": origin.shipped} if origin.shipped else {}),
    }  # fmt: skip
    config = {
        "methods": list(methods), "own_methods": arguments.of_ones_own(methods), "data_dir": str(data_dir),
        "bootstrap": bootstrap, **settings,
    }  # fmt: skip
    people = labels.read_demographics(data_dir)
    cases = Cases(days, indices, n_days=n_days, max_samples=max_samples, seed=seed, demographics=people)
    kept = None
    if output_dir is not None:
        kept = imputation_parts.ImputationParts(
            Path(output_dir),
            {
                "track": "imputation", "wearjax": __version__, **settings,
                "people": imputation_parts.digest_of_people(people),
                "days": imputation_parts.digest_of(days, indices, np.array(train, int)),
            },
        )  # fmt: skip

    def fit() -> fallback.FallbackStatistics:
        return fallback.fit_days(days, train)

    run = Run(
        methods,
        scenarios,
        cases,
        Masks(scenarios, split, folder=origin.folder, mask_seed=mask_seed, n=len(indices)),
        fit() if kept is None else kept.statistics(fit),
        Gallery(tuple(methods), scenarios, cases, per_scenario=gallery_days, seed=seed),
        batch_days=batch_days,
    )
    with engines.opened(engine, jobs) as where, _progress(cases.n_evaluated) as advance:
        run.all_groups(advance, kept, where)
    results = _results(run, given, config, _days_left_out(days, members, split, cases), origin.notes)
    if output_dir is not None:
        results = dataclasses.replace(results, run_dir=Path(output_dir))
        results.save(output_dir)
    return results


def _results(
    run: Run,
    given: tuple[str, ...],
    config: dict[str, Any],
    left_out: dict[str, int],
    notes: tuple[str, ...],
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
        substituted=run.substituted,
        skipped={**left_out, **run.skipped},
        seconds={m: round(float(c.seconds), 3) for m, c in run.counts.items()},
        config=config,
        versions=arguments.versions(),
        provenance=getattr(run.cases.days, "meta", {}).get("provenance", {}),
        gallery=run.gallery.arrays(),
        notes=notes,
        scored_on=_scored_on(run, config),
    )


def _scored_on(run: Run, config: Mapping[str, Any]) -> dict[str, Any]:
    """Digests of what was hidden, by scenario: the days, and how many cells of each channel."""
    cases, counts = run.cases, run.counts[run.collector.methods[0]]
    days = imputation_parts.digest_of(cases.days, cases.indices[cases.evaluated])
    cells = {
        name: scored_on.digest(days, name, counts.applicable[s], counts.asked[s])
        for s, name in enumerate(run.scenarios)
    }
    drawn = config["mask_dir"] is None and "shipped_masks" not in config
    settings = {
        "split": config["split"], "n_days": config["n_days"], "max_samples": config["max_samples"],
        "sample_seed": None if config["max_samples"] is None else config["seed"],
        "mask_seed": config["mask_seed"] if drawn else None, "masks": "drawn" if drawn else "files",
        "participants": len(cases.participants), "days": cases.n_evaluated,
    }  # fmt: skip
    return scored_on.facts(settings, cells)


def _checked(scenarios: Sequence[str], *, split: str, n_days: int) -> tuple[str, ...]:
    """The scenarios in benchmark order, after a look at the other arguments."""
    wanted = (scenarios,) if isinstance(scenarios, str) else tuple(scenarios)
    unknown = [s for s in wanted if s not in ALL]
    if unknown or not wanted:
        raise ConfigError(
            f"scenarios: {unknown[0] if unknown else 'none'!r} is unknown"
            f"{did_you_mean(unknown[0], ALL) if unknown else ''}; expected some of {', '.join(ALL)}"
        )
    arguments.split_of(split)
    if not 1 <= n_days <= MAX_DAYS:
        raise ConfigError(f"n_days: expected 1 to {MAX_DAYS}, got {n_days}")
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


@contextmanager
def _progress(total: int) -> Iterator:
    """A bar on a terminal, silence elsewhere."""
    if not sys.stderr.isatty():
        yield lambda n: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Evaluating days", total=total)
        yield lambda n: bar.advance(task, n)
