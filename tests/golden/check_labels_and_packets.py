"""Golden cases of file slugs and age groups."""

from __future__ import annotations

import harness

from wearjax.benchmarks.openmhc import packet
from wearjax.scores import fairness


@harness.checks("labels_and_packets", op="slug")
def check_slug(case: dict) -> None:
    assert [packet.slug(name) for name in case["values"]] == case["expected"]


@harness.checks("labels_and_packets", op="bin_age")
def check_age_groups(case: dict) -> None:
    assert [fairness.age_group(age, starts=case["bins"]) for age in case["values"]] == case["expected"]
