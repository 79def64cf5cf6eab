"""The pass over the tasks of the prediction benchmark: every method is fitted, asked, and its gaps are filled."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wearjax.benchmarks.openmhc import prediction_cohort, prediction_files, prediction_metrics
from wearjax.benchmarks.openmhc.prediction_cohort import TaskCohort
from wearjax.benchmarks.openmhc.prediction_errors import TaskPredictions
from wearjax.benchmarks.openmhc.prediction_files import TaskAnswers
from wearjax.days import splits, task_labels
from wearjax.errors import MethodError
from wearjax.predict import inputs, protocols
from wearjax.tasks import BASELINE, Task

Progressed = Callable[[int, int, str, str], None]


class Run:
    """State that grows with each pair of task and method.

    Args:
        methods: by name, the baseline first.
        source: the days.
        settings: what the predictions of every method depend on, kept beside them; `round_ordinal` among them.
        folder: where finished predictions lie; None keeps them in memory only.
        force: ask again for what is finished.

    Attributes:
        substituted: by method and task, predictions that came from the baseline.
        seconds: inside each method, those of an earlier, interrupted evaluation included.
        skipped: what was left out, by reason.
        n_pairs: pairs of task and method, once the cohorts are known.

    Raises:
        ConfigError: a method asks for inputs that there are none of, or two would share a folder. MethodError: it
        relies on what it would not be given.
    """

    def __init__(
        self,
        methods: dict[str, Any],
        source: inputs.ParticipantDays,
        *,
        settings: dict[str, Any],
        folder: Path | None,
        force: bool,
    ):
        self.methods, self.source, self.settings = methods, source, settings
        self.folder, self.force = folder, force
        self.specs = {name: protocols.data_spec_of(method) for name, method in methods.items()}
        for name, method in methods.items():
            protocols.check_supported(method, self.specs[name], name=name)
        if folder is not None:
            prediction_files.check_names(tuple(methods))
        self.substituted: dict[str, dict[str, int]] = {name: {} for name in methods}
        self.seconds = dict.fromkeys(methods, 0.0)
        self.skipped: Counter[str] = Counter()
        self.n_pairs, self._done = 0, 0

    def cohorts(
        self, labels: task_labels.TaskLabels, tasks: Sequence[Task], members: splits.Splits, split: str
    ) -> list[TaskCohort]:
        """The tasks that can be evaluated; the others are counted with the reason."""
        found = []
        for task in tasks:
            cohort = prediction_cohort.task_cohort(labels, task, members, split)
            if isinstance(cohort, str):
                self.skipped[f"task {task.code}: {cohort}"] += 1
                continue
            found.append(cohort)
            absent = sum(self.source.n_absent(c) for c in (cohort.train_context, cohort.test_context))
            if absent:
                self.skipped[f"task {task.code}: eligible days that the data do not have"] = absent
        self.n_pairs = len(found) * len(self.methods)
        return found

    def task(
        self, cohort: TaskCohort, subgroups: dict[str, tuple[str, ...]], told: Progressed
    ) -> TaskPredictions:
        """Every method's predictions of one task."""
        code = cohort.task.code
        answers: dict[str, TaskAnswers] = {}
        for name in self.methods:
            told(self._done, self.n_pairs, code, name)
            answers[name] = self._finished(name, cohort) or self._ask(name, cohort, answers.get(BASELINE))
            self.substituted[name][code] = answers[name].n_substituted
            self.seconds[name] += answers[name].seconds
            self._done += 1
        return TaskPredictions(
            task=cohort.task,
            users=cohort.test.users,
            y_true=cohort.test.labels,
            y_pred={name: found.y_pred for name, found in answers.items()},
            y_proba={name: found.y_proba for name, found in answers.items()},
            subgroups=subgroups,
        )

    def _settings(self, name: str, cohort: TaskCohort) -> dict[str, Any]:
        """What the predictions of one pair depend on, as far as it can be known."""
        method = self.methods[name]
        kind = type(method)
        own = {"class": f"{kind.__module__}.{kind.__qualname__}", **(getattr(method, "settings", None) or {})}
        plain = json.loads(json.dumps(own, default=str, sort_keys=True))
        return {**self.settings, "split": cohort.split, "cohort": cohort.digest, "method": plain}

    def _file(self, name: str, cohort: TaskCohort) -> Path | None:
        if self.folder is None:
            return None
        return prediction_files.file_of(self.folder, name, cohort.task.code, cohort.split)

    def _finished(self, name: str, cohort: TaskCohort) -> TaskAnswers | None:
        file = self._file(name, cohort)
        if file is None or self.force:
            return None
        return prediction_files.read(file, users=cohort.test.users, settings=self._settings(name, cohort))

    def _ask(self, name: str, cohort: TaskCohort, baseline: TaskAnswers | None) -> TaskAnswers:
        """Fits a method and asks it; fills what it leaves open."""
        start = time.perf_counter()
        raw = self._raw(name, cohort)
        seconds = round(time.perf_counter() - start, 3)  # as it is kept
        kind, n_open = cohort.task.kind, int(np.sum(~np.isfinite(raw)))
        if baseline is None:
            if n_open:
                raise MethodError(
                    f"{name}, task {cohort.task.code!r}: {n_open} predictions are not finite; the baseline must "
                    "answer for everybody"
                )
            filled = prediction_cohort.Substituted(raw, 0)
        else:
            filled = prediction_cohort.substitute(raw, baseline.y_proba, kind)
        rounded = self.settings["round_ordinal"]
        y_pred, y_proba = prediction_metrics.output_columns(filled.values, kind, rounded=rounded)
        answers = TaskAnswers(y_pred, y_proba, filled.n_substituted, seconds)
        if (file := self._file(name, cohort)) is not None:
            prediction_files.write(
                file,
                answers,
                users=cohort.test.users,
                y_true=cohort.test.labels,
                settings=self._settings(name, cohort),
            )
        return answers

    def _raw(self, name: str, cohort: TaskCohort) -> np.ndarray:
        method, spec, code = self.methods[name], self.specs[name], cohort.task.code
        if callable(getattr(method, "fit", None)):
            context = cohort.train_context
            protocols.call_set_context(method, context, name=name)
            data = self.source.arrays(context, spec)
            protocols.call_fit(method, data, cohort.train.labels, cohort.task.kind, task=code, name=name)
        context = cohort.test_context
        protocols.call_set_context(method, context, name=name)
        return protocols.call_predict(method, self.source.arrays(context, spec), task=code, name=name)
