"""The prediction benchmark of OpenMHC: learn a label from days of some participants, predict it for others.

Tasks pass one by one: cohorts from the label lookup, every method fitted and asked, gaps filled by the Linear
baseline, columns written. All that follows works on the small tables of predictions.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from wearjax import tasks as outcomes
from wearjax.benchmarks import earlier, result_files
from wearjax.benchmarks.openmhc import arguments, prediction_cohort, prediction_results, scored_on
from wearjax.benchmarks.openmhc.prediction_results import PredictionResults
from wearjax.benchmarks.openmhc.prediction_run import Progressed, Run
from wearjax.days import splits, task_labels
from wearjax.days.open import open_days
from wearjax.errors import ConfigError
from wearjax.predict import inputs, vector_cache
from wearjax.predict.predictors import linear
from wearjax.tasks import BASELINE, Task

ALL = tuple(outcomes.TASKS)


def evaluate_prediction(
    method: Any | Mapping[str, Any],
    *,
    data_dir: str | os.PathLike,
    tasks: str | Sequence[str] = ALL,
    split: str = "test",
    method_name: str | None = None,
    output_dir: str | os.PathLike | None = None,
    bootstrap: int = 1000,
    seed: int = 42,
    label_window: task_labels.Window = "full_history",
    round_ordinal: bool = True,
    force: bool = False,
    progress: Progressed | None = None,
) -> PredictionResults:
    """Evaluates one predictor, or several on the same participants.

    The baseline `linear` is always among them, and what a method does not predict (a number that is not finite)
    is taken from it and counted.

    Args:
        method: anything with `predict(data)` as `wearjax.predict.protocols.Predictor` describes it, a trained LSM-2
            of days or WBM (`wearjax.load_pretrained`), or a dict of names to such; an empty one evaluates the baseline
            alone.
        data_dir: day store with splits and task labels, or OpenMHC data root.
        tasks: codes; default the 32 of the benchmark. Those that cannot be evaluated are skipped and counted.
        split: `test` or `validation` (`val`).
        method_name: name of a single method; default is what it calls itself.
        output_dir: run folder. Predictions are written as they come: the same call continues an interrupted
            evaluation, and scores what is finished without asking the methods again.
        bootstrap: draws for the intervals; 0 for none.
        seed: of the bootstrap.
        label_window: `full_history`, or `forward` for the ablation that ends some weeks after the label.
        round_ordinal: False scores ordinal predictions without rounding them to a level.
        force: replace finished predictions in `output_dir` instead of reading them.
        progress: called with (pairs done, pairs, task, method) when a pair of task and method begins, and at the
            end; default is a bar on a terminal.

    Raises:
        ConfigError: an argument has an impossible value, no task can be evaluated, a method goes by the baseline's
            name, or `output_dir` holds predictions of other settings, or results of another track. MethodError: a
            method broke its contract or failed; the message names method and task. StoreError, SourceError: data,
            labels or finished predictions are not readable.
    """
    made = arguments.of_trained(data_dir, "as_predictor")
    methods = arguments.methods_by_name(method, method_name, call="predict(data)", made=made)
    arguments.check_baseline(methods, BASELINE, linear.Linear)
    given = tuple(methods) or (BASELINE,)
    result_files.check_folder(output_dir)
    if output_dir is not None and not force:
        earlier.check_kind(output_dir, "track", "prediction")
    chosen = outcomes.chosen(tasks)
    split = arguments.split_of(split)
    _check(chosen, label_window=label_window)
    arguments.check_least(bootstrap=(bootstrap, 0))
    arguments.check_seeds(seed=seed)
    days, members = open_days(data_dir), splits.read_splits(data_dir)
    labels = task_labels.read_lookup(data_dir, window=label_window)
    # Covariates and subgroups do not follow the ablation.
    people = labels if label_window == "full_history" else task_labels.read_lookup(data_dir)
    source = inputs.ParticipantDays(days)
    baseline = methods.pop(BASELINE, None) or linear.Linear(
        source, labels=people, kept_covariates=outcomes.kept_covariates
    )
    made_with = {
        "data": vector_cache.digest_of(days, {}), "labels": people.digest, "label_window": label_window,
        "round_ordinal": round_ordinal,
    }  # fmt: skip
    folder = None if output_dir is None else Path(output_dir)
    run = Run({BASELINE: baseline, **methods}, source, settings=made_with, folder=folder, force=force)
    cohorts = run.cohorts(labels, chosen, members, split)
    if not cohorts:
        raise ConfigError(f"{data_dir}: no task can be evaluated ({'; '.join(run.skipped)})")
    with _progress(progress) as told:
        predictions = [
            run.task(cohort, prediction_cohort.subgroups(people, cohort.test.users), told)
            for cohort in cohorts
        ]
        told(run.n_pairs, run.n_pairs, cohorts[-1].task.code, "")
    config = {
        "methods": list(run.methods), "own_methods": arguments.of_ones_own(run.methods), "data_dir": str(data_dir),
        "tasks": [task.code for task in chosen],
        "split": split, "bootstrap": bootstrap, "seed": seed, "label_window": label_window,
        "round_ordinal": round_ordinal,
    }  # fmt: skip
    results = prediction_results.score_predictions(
        predictions,
        method_names=given,
        config=config,
        versions=arguments.versions(),
        split=split,
        n_boot=bootstrap,
        seed=seed,
        substituted=run.substituted,
        skipped=run.skipped,
        seconds=run.seconds,
        provenance=getattr(days, "meta", {}).get("provenance", {}),
        scored_on=scored_on.facts(
            {"split": split, "label_window": label_window, "round_ordinal": round_ordinal},
            {c.task.code: scored_on.digest(made_with["data"], c.digest, round_ordinal) for c in cohorts},
        ),
    )
    if folder is not None:
        results = dataclasses.replace(results, run_dir=folder)
        results.save(folder)
    return results


def _check(tasks: Sequence[Task], *, label_window: str) -> None:
    if not tasks:
        raise ConfigError("tasks: none given")
    if label_window not in task_labels.WINDOWS:
        raise ConfigError(f"label_window {label_window!r}: expected {' or '.join(task_labels.WINDOWS)}")


@contextmanager
def _progress(given: Progressed | None) -> Iterator[Progressed]:
    """The caller's function, else a bar on a terminal, silence elsewhere."""
    if given is not None or not sys.stderr.isatty():
        yield given or (lambda done, total, task, method: None)
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("Evaluating tasks", total=None)
        yield lambda done, total, task, method: bar.update(
            line, completed=done, total=total, description=f"{task}: {method}"
        )
