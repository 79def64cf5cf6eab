"""Which phenotype do fitness, recovery with sleep, and blood markers make together?

Metrics are placed among people of the same sex and age band where the cohort has 200 of them with the metric, and the
question then lists those percentiles; else among the whole cohort.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from wearjax.benchmarks.wearableqa import windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Margin, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph
from wearjax.benchmarks.wearableqa.questions import health, wording
from wearjax.daily_metrics import CORE

NAME = "multimodal_phenotype"
CUTS = (33.0, 67.0)  # percentiles
MARGIN = 5.0
FITNESS = ("rhr", "steps", "vo2_max")
RECOVERY = ("hrv", "sleep_duration", "bed_time_std", "avg_stress_level")
LEAST_FITNESS, LEAST_RECOVERY = 2, 3  # metrics of each axis
METABOLIC = ("glycaemic", "lipid", "inflammatory")
LEVELS, STATES, BLOOD = ("low", "middle", "high"), ("poor", "fair", "good"), ("unremarkable", "flagged")
CELLS: tuple[Key, ...] = tuple(
    (float(f), float(r), float(m)) for f, r, m in itertools.product(range(3), range(3), range(2))
)


@functools.cache
def graph(
    fitness: tuple[str, ...], recovery: tuple[str, ...], markers: tuple[tuple[str, ...], ...], sex: str | None
) -> Graph:
    """The cell of three axes.

    Args:
        fitness, recovery: metrics of each axis.
        markers: of each metabolic domain.
    """
    sketch = health.Sketch()
    for axis, metrics in (("fitness", fitness), ("recovery", recovery)):
        sketch.node(axis, "average", *(sketch.percentile(metric, peers=True) for metric in metrics))
        sketch.node(f"{axis} level", "band", axis, edges=list(CUTS))
    flags = [flag for keys in markers for key in keys for flag in sketch.flags(key, sex)]
    sketch.node("metabolic", "any_far", *flags)
    return sketch.graph(sketch.node("key", "stack", "fitness level", "recovery level", "metabolic"))


def phrase(key: Key) -> str:
    fitness, recovery, metabolic = (int(code) for code in key)
    return (
        f"{wording.capitalised(LEVELS[fitness])} fitness with {STATES[recovery]} recovery and sleep, and "
        f"{BLOOD[metabolic]} metabolic markers"
    )


OPTIONS: dict[Key, Option] = {key: Option(phrase(key), key) for key in CELLS}


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """One question where enough of each axis is measured."""
    valid = windows.valid_metrics(person.record, end)
    fitness = tuple(metric for metric in FITNESS if metric in valid)
    recovery = tuple(metric for metric in RECOVERY if metric in valid)
    markers = tuple(health.markers(person, domain, end) for domain in METABOLIC)
    if len(fitness) < LEAST_FITNESS or len(recovery) < LEAST_RECOVERY or not all(markers):
        return
    made = graph(fitness, recovery, markers, health.sex_of(person))
    key = health.answer(made, person, end)
    if key is None:
        return
    yield Candidate(
        type=NAME,
        user=person.record.user,
        end=end,
        metrics=(*fitness, *recovery),
        stem=_stem(person, fitness, recovery, end),
        graph=made,
        gold=OPTIONS[key],
        distractors=_distractors(key, person, end),
        margins=(Margin("fitness", CUTS, MARGIN), Margin("recovery", CUTS, MARGIN)),
    )


def _distractors(key: Key, person: Person, end: int) -> tuple[Option, ...]:
    """All cells of the gold's blood state, four of which differ in one axis only, and one of the other state.

    Only so does every option but one have four such neighbours: the gold is not the one amid the others. The cell of
    the other state is any of nine, and in four of them differs from the gold in all three axes. Were it one that shares
    an axis, at most five of the ten options could be the gold, whichever ten cells are taken: a guess among those would
    be right twice as often as chance, which the audits of options alone refuse.
    """
    order = health.rng(person, NAME, end).permutation(len(CELLS))
    cells = [CELLS[i] for i in order if CELLS[i] != key]
    alike = [cell for cell in cells if cell[2] == key[2]]
    other = next(cell for cell in cells if cell[2] != key[2])
    return tuple(OPTIONS[cell] for cell in (*alike, other))


def _stem(person: Person, fitness: tuple[str, ...], recovery: tuple[str, ...], end: int) -> str:
    every = (*fitness, *recovery)
    peers = {metric: points for metric in every if (points := health.peer_points(person, metric))}
    extra = [
        health.cohort_points(person, metric) for metric in every if metric not in CORE and metric not in peers
    ]
    told = [f"Percentiles of the cohort that are not listed: {'; '.join(extra)}."] if extra else []
    if peers:
        told.append(
            "For these metrics compare with people of the same sex and age band instead, whose percentiles are: "
            f"{'; '.join(peers.values())}."
        )
    return health.stem(
        f"Place the means of {wording.window(end)} among the cohort's percentiles, 100 being the most favourable.",
        *told,
        f"Fitness is the average over {wording.metrics(fitness)}, recovery and sleep the average over "
        f"{wording.metrics(recovery)}: below {CUTS[0]:g} low or poor, from {CUTS[1]:g} high or good.",
        "Metabolic markers are flagged when one of glucose, blood lipids or inflammation is far beyond its reference "
        "limit. Which phenotype is it?",
    )


TYPE = QuestionType(
    name=NAME,
    group="health",
    signal="cross",
    grounding="population",
    scope="window",
    propose=propose,
    phrase=phrase,
)
