"""The imputation benchmark of OpenMHC: hide measured cells in six ways, let methods fill them, score that.

Days pass once: read a batch, hide, impute with every method, keep the pairs until their participants are
complete, turn them into one error a participant and task. All that follows works on the small error table.
With an output folder, what is complete is written now and then, and the same call goes on from there.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from wearjax import __version__
from wearjax import engine as engines
from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import imputation_scores, imputation_unfinished
from wearjax.benchmarks.openmhc.imputation_cases import Cases, Masks
from wearjax.benchmarks.openmhc.imputation_gallery import Gallery
from wearjax.benchmarks.openmhc.imputation_results import ImputationResults
from wearjax.benchmarks.openmhc.imputation_run import Run
from wearjax.benchmarks.openmhc.imputation_tasks import BASELINE
from wearjax.days import labels, splits
from wearjax.days.open import open_days
from wearjax.days.store import Days
from wearjax.engine import Engine
from wearjax.errors import ConfigError, MethodError, did_you_mean
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
        output_dir: run folder for scores, errors, results and example days. What is complete after a minute
            or at Ctrl-C is kept there; the same call goes on from it, and methods may be added.
        bootstrap: draws for the intervals; 0 for none.
        seed: of the bootstrap, of `max_samples` and of the choice of example days; masks have their own.
        mask_dir: published masks (`<mask_dir>/<split>/<scenario>.npz`); default draws them from `mask_seed`.
        batch_days: most days in a call of a method; a method with `requires_user_grouped_batches` gets whole
            participants instead.
        gallery_days: example days kept per scenario.
        engine, jobs: where groups of participants are worked on, see `wearjax.engine.Engine`; scores do not depend on
            it. Trained models and PyPOTS run in this process only.
        force: replace results in `output_dir`, and start over what is unfinished there.

    Raises:
        ConfigError: an argument has an impossible value, the split has no day, or `output_dir` holds results
            or the unfinished part of another evaluation. MethodError: a method broke
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
    if engine is not None or jobs is not None:
        protocols.check_elsewhere(methods)
    result_files.check_folder(output_dir)
    if output_dir is not None:
        imputation_unfinished.prepare(Path(output_dir), force=force)
    split = mask_cache.split_name(split)
    days = open_days(data_dir)
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
    }  # fmt: skip
    config = {"methods": list(methods), "data_dir": str(data_dir), "bootstrap": bootstrap, **settings}
    people = labels.read_demographics(data_dir)
    cases = Cases(days, indices, n_days=n_days, max_samples=max_samples, seed=seed, demographics=people)
    run = Run(
        methods,
        scenarios,
        cases,
        Masks(scenarios, split, folder=None if mask_dir is None else Path(mask_dir), mask_seed=mask_seed),
        fallback.fit_days(days, train),
        Gallery(tuple(methods), scenarios, cases, per_scenario=gallery_days, seed=seed),
        batch_days=batch_days,
    )
    unfinished = None
    if output_dir is not None:
        key = imputation_unfinished.digest(
            {**settings, "people": people}, days, indices, np.array(train, int)
        )
        unfinished = imputation_unfinished.Unfinished(Path(output_dir), key)
    with engines.opened(engine, jobs) as where, _progress(cases.n_evaluated) as advance:
        run.all_groups(advance, unfinished, where)
    results = _results(run, given, config, _days_left_out(days, members, split, cases))
    if output_dir is not None and unfinished is not None:
        results.save(output_dir)
        unfinished.remove()
    return results


def _results(
    run: Run, given: tuple[str, ...], config: dict[str, Any], left_out: dict[str, int]
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
        versions=_versions(),
        provenance=getattr(run.cases.days, "meta", {}).get("provenance", {}),
        gallery=run.gallery.arrays(),
    )


def _versions() -> dict[str, str]:
    return {"wearjax": __version__, "numpy": np.__version__, "python": platform.python_version()}


def named(methods: Iterable[Any]) -> dict[str, Any]:
    """Methods by name, for `evaluate_imputation`.

    Args:
        methods: methods, which name themselves, or pairs of a name and a method.

    Raises:
        ConfigError: two of one name.
    """
    found: dict[str, Any] = {}
    for item in methods:
        name, method = item if isinstance(item, tuple) else (protocols.method_name(item), item)
        if name in found:
            raise ConfigError(f"two methods are called {name!r}; give one of them another name")
        found[name] = method
    return found


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
            f"scenarios: {unknown[0] if unknown else 'none'!r} is unknown"
            f"{did_you_mean(unknown[0], ALL) if unknown else ''}; expected some of {', '.join(ALL)}"
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


@contextmanager
def _progress(total: int) -> Iterator:
    """A bar on a terminal, silence elsewhere."""
    if not sys.stderr.isatty():
        yield lambda n: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Evaluating days", total=total)
        yield lambda n: bar.advance(task, n)
