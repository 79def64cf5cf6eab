"""The imputation benchmark's tasks and how they nest: channel tasks, buckets, scenarios, scopes.

OpenMHC evaluation, imputation scoring: skill and rank are nested means, first over the tasks of a scenario
and bucket, then over the buckets of a scenario, then over the scenarios of a scope. The collapsed tasks
stand for the sleep and workout channels; single binary channels are reported but enter no scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from wearjax import channels
from wearjax.scores import skill
from wearjax.segments.masks import SCENARIOS, SEMANTIC, STRUCTURAL

BASELINE = "locf"
BUCKETS = tuple(channels.CATEGORIES)
COLLAPSED = {"sleep": channels.SLEEP, "workouts": channels.WORKOUTS}
# What the semantic scenarios hide and score; the structural ones score every channel.
_SEMANTIC_CHANNELS = {
    "sleep_gap": channels.CONTINUOUS,
    "workout_gap": channels.CATEGORIES["physiology"],
    "intensity_failure": channels.CATEGORIES["physiology"],
}


class Task(NamedTuple):
    """One scored cell of the benchmark, named as in its files: `ch_5`, or `cat_collapsed:sleep`."""

    scenario: str
    channel: str
    channel_type: Literal["continuous", "binary", "binary_collapsed"]

    @property
    def bucket(self) -> str | None:
        """The bucket the task counts in, or None for a single binary channel."""
        if self.channel_type == "binary":
            return None
        if self.channel_type == "binary_collapsed":
            return self.channel.removeprefix("cat_collapsed:")
        return channels.CHANNELS[int(self.channel.removeprefix("ch_"))].category


def tasks(scenarios: Sequence[str] = SCENARIOS) -> tuple[Task, ...]:
    """All tasks of the scenarios, in the channel table's order."""
    found = []
    for scenario in scenarios:
        scored = _SEMANTIC_CHANNELS.get(scenario, range(channels.N_CHANNELS))
        found += [Task(scenario, f"ch_{c}", channels.CHANNELS[c].kind) for c in scored]
        if scenario in STRUCTURAL:
            found += [Task(scenario, f"cat_collapsed:{name}", "binary_collapsed") for name in COLLAPSED]
    return tuple(found)


def floored(members: Sequence[Task]) -> Bool[np.ndarray, " task"]:
    """Which tasks have their error floored inside a ratio: everything binary."""
    return np.array([task.channel_type != "continuous" for task in members], dtype=bool)


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Membership of given tasks in the cells (scenario, bucket), and of these in the scopes.

    Attributes:
        scopes: six scenarios, four `cat:` scopes, `semantic`, `overall`.
        cell_of: tasks in their (scenario, bucket).
        scenario_of: cells in their scenario.
        category_of: structural tasks in their bucket, for the `cat:` scopes, which have no scenario level.
        bucket_of: all tasks in their bucket, for fairness.
        wide_of: scenarios in `semantic` and `overall`.
        scope_of: tasks in the scopes they reach by any path.
    """

    tasks: tuple[Task, ...]
    scopes: tuple[str, ...]
    cell_of: Bool[np.ndarray, "task cell"]
    scenario_of: Bool[np.ndarray, "cell scenario"]
    category_of: Bool[np.ndarray, "task category"]
    bucket_of: Bool[np.ndarray, "task category"]
    wide_of: Bool[np.ndarray, "scenario wide"]
    scope_of: Bool[np.ndarray, "task scope"]

    def scope_means(self, values: Float[np.ndarray, "*outer task"]) -> Float[np.ndarray, "*outer scope"]:
        """Nested mean of each scope; NaN where a scope holds no value."""
        cells = skill.group_mean(values, self.cell_of)
        scenarios = skill.group_mean(cells, self.scenario_of)
        flat = skill.group_mean(values, self.category_of)
        return np.concatenate([scenarios, flat, skill.group_mean(scenarios, self.wide_of)], axis=-1)

    def scope_counts(self, values: Float[np.ndarray, "*outer task"]) -> Int[np.ndarray, "*outer scope"]:
        """What each scope averages: buckets of a scenario, tasks of a category, scenarios of a wide scope."""
        cells = skill.group_mean(values, self.cell_of)
        scenarios = skill.group_mean(cells, self.scenario_of)
        counts = [
            skill.group_count(cells, self.scenario_of),
            skill.group_count(values, self.category_of),
            skill.group_count(scenarios, self.wide_of),
        ]
        return np.concatenate(counts, axis=-1)

    def bucket_balanced(self, values: Float[np.ndarray, "*outer task"]) -> Float[np.ndarray, "*outer"]:
        """Mean over the buckets of the mean over all of a bucket's tasks, whatever their scenario."""
        buckets = skill.group_mean(values, self.bucket_of)
        return skill.group_mean(buckets, np.ones((len(BUCKETS), 1), bool))[..., 0]

    def bucket_counts(self, values: Float[np.ndarray, "*outer task"]) -> Int[np.ndarray, "*outer"]:
        """Number of buckets with a value."""
        return np.isfinite(skill.group_mean(values, self.bucket_of)).sum(axis=-1)


def hierarchy(members: Sequence[Task]) -> Hierarchy:
    """The nesting of any subset of the tasks."""
    bucket_of = np.array([[task.bucket == b for b in BUCKETS] for task in members], bool).reshape(
        -1, len(BUCKETS)
    )
    scenario = np.array([[t.scenario == s for s in SCENARIOS] for t in members], bool).reshape(
        -1, len(SCENARIOS)
    )
    structural = np.array([[task.scenario in STRUCTURAL] for task in members], bool).reshape(-1, 1)
    cell_of = (scenario[:, :, None] & bucket_of[:, None, :]).reshape(len(members), -1)
    scenario_of = np.repeat(np.eye(len(SCENARIOS), dtype=bool), len(BUCKETS), axis=0)
    wide_of = np.array([[s in SEMANTIC, True] for s in SCENARIOS])
    category_of = bucket_of & structural
    in_scenario = scenario & bucket_of.any(axis=1, keepdims=True)
    return Hierarchy(
        tasks=tuple(members),
        scopes=(*SCENARIOS, *(f"cat:{b}" for b in BUCKETS), "semantic", "overall"),
        cell_of=cell_of,
        scenario_of=scenario_of,
        category_of=category_of,
        bucket_of=bucket_of,
        wide_of=wide_of,
        scope_of=np.concatenate([in_scenario, category_of, in_scenario @ wide_of], axis=1),
    )
