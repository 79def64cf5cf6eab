"""Who is asked in a prediction task, in which subgroups they are, and who stands in for an answer that lacks.

OpenMHC evaluation, prediction track: cohorts and subgroups from the label lookup, substitution of missing
predictions by the Linear baseline.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64

from wearjax.days.splits import Splits
from wearjax.days.task_labels import Cohort, TaskLabels
from wearjax.predict.protocols import EvalContext
from wearjax.scores import correlation, fairness
from wearjax.tasks import Task

AGE, SEX = "age", "BiologicalSex"
MIN_TRAIN = 2
_RANK_MERGED = ("binary", "ordinal")


@dataclass(frozen=True, eq=False)
class TaskCohort:
    """Participants, labels and eligible days of one task.

    Attributes:
        train, test: of the two splits; `split` is the name of the second.
        label_window: of the lookup.
    """

    task: Task
    train: Cohort
    test: Cohort
    split: str
    label_window: str

    @property
    def train_context(self) -> EvalContext:
        return EvalContext(self.task.code, "train", self.train.users, self.train.dates, self.label_window)

    @property
    def test_context(self) -> EvalContext:
        return EvalContext(self.task.code, self.split, self.test.users, self.test.dates, self.label_window)

    @property
    def digest(self) -> str:
        """Names the participants, labels and dates: predictions of another cohort are not reused."""
        found = hashlib.sha256()
        for cohort in (self.train, self.test):
            people = (
                "\t".join((user, *dates)) for user, dates in zip(cohort.users, cohort.dates, strict=True)
            )
            found.update("\n".join(people).encode() + b"\0" + cohort.labels.tobytes())
        return found.hexdigest()[:24]


def task_cohort(labels: TaskLabels, task: Task, members: Splits, split: str) -> TaskCohort | str:
    """The cohort of a task, or the reason why it cannot be evaluated."""
    if task.code not in labels.tasks:
        return "no labels"
    train = labels.cohort(task.code, members.train)
    if len(train) < MIN_TRAIN:
        return f"fewer than {MIN_TRAIN} participants with a label in train"
    if len(np.unique(train.labels)) < 2:
        return "all labels in train are equal"
    test = labels.cohort(task.code, members.of(split))
    if not len(test):
        return f"no participant with a label in {split}"
    return TaskCohort(task, train, test, split, labels.window)


@dataclass(frozen=True, eq=False)
class Substituted:
    """Predictions without a gap, and how many came from the baseline."""

    values: Float64[np.ndarray, "n"]
    n_substituted: int


def substitute(raw: Float[np.ndarray, "n"], linear: Float[np.ndarray, "n"], kind: str) -> Substituted:
    """Puts the Linear baseline where a method gave no finite number.

    A binary or ordinal task that has both becomes ranks: each of the two groups is replaced by its mean ranks over
    the size of the group, so that neither scale decides the order. Otherwise the baseline's numbers are inserted.
    """
    values, lacking = np.array(raw, np.float64), ~np.isfinite(raw)
    if lacking.any():
        values[lacking] = linear[lacking]
        if kind in _RANK_MERGED and not lacking.all():
            for group in (lacking, ~lacking):
                values[group] = correlation.mean_ranks(values[group]) / group.sum()
    return Substituted(values, int(lacking.sum()))


def subgroups(labels: TaskLabels, users: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Age group and sex of participants by their first label; ages below 30 are one group, down to any age."""
    ages = [labels.first_value(AGE, user) if AGE in labels.tasks else None for user in users]
    sexes = [labels.first_value(SEX, user) if SEX in labels.tasks else None for user in users]
    named = {0.0: "female", 1.0: "male"}
    return {
        "age_group": tuple(fairness.age_group(age, minors_in_first=True) for age in ages),
        "sex": tuple(fairness.UNKNOWN if sex is None else named.get(sex, fairness.UNKNOWN) for sex in sexes),
    }
