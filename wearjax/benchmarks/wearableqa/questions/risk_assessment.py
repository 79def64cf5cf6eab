"""Which domains do a blood panel, fitness and sleep mark together, and which not?

Up to three domains may be active, and none may: that there is no raised risk has to be offered as a false answer, and
what is never right would give itself away.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from wearjax.benchmarks.wearableqa import relations, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Margin, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph
from wearjax.benchmarks.wearableqa.questions import health, options, wording

NAME = "risk_assessment"
LOW_FITNESS = 20.0  # percentile, the mean over resting heart rate and VO2max
SHORT_SLEEP, IRREGULAR = 6.0, 60.0  # hours, minutes
FITNESS_MARGIN, SLEEP_MARGIN, IRREGULAR_MARGIN = 4.0, 0.2, 5.0
MOST = 3  # active domains
LEAST_DOMAINS = 5  # measured
FALSE_OPTIONS = 24
WORDS = (*health.DOMAIN_WORDS.values(), "fitness", "sleep")
_BLOOD = tuple(health.DOMAIN_WORDS)
_FITNESS, _SLEEP = ("rhr", "vo2_max"), ("sleep_duration", "bed_time_std")
NOT_MEASURED = -1.0


@functools.cache
def graph(markers: tuple[tuple[str, ...], ...], metrics: tuple[str, ...], sex: str | None) -> Graph:
    """The state of each of nine domains; −1 where nothing of it is measured.

    Args:
        markers: of each blood domain.
        metrics: with a valid window.
    """
    sketch = health.Sketch()
    states = []
    for domain, keys in zip(_BLOOD, markers, strict=True):
        states.append(
            sketch.domain(domain, keys, sex)
            if keys
            else sketch.node(f"no {domain}", "constant", value=NOT_MEASURED)
        )
    fitness = [sketch.percentile(metric) for metric in _FITNESS if metric in metrics]
    if fitness:
        level = sketch.node("fitness percentile", "average", *fitness)
        states.append(
            sketch.node("fitness", "any_far", sketch.far("low fitness", level, LOW_FITNESS, "down"))
        )
    else:
        states.append(sketch.node("no fitness", "constant", value=NOT_MEASURED))
    nights = []
    if "sleep_duration" in metrics:
        nights.append(sketch.far("short sleep", sketch.mean("sleep_duration"), SHORT_SLEEP, "down"))
    if "bed_time_std" in metrics:
        nights.append(sketch.far("irregular", sketch.mean("bed_time_std"), IRREGULAR, "up"))
    states.append(
        sketch.node("sleep", "any_far", *nights)
        if nights
        else sketch.node("no sleep", "constant", value=NOT_MEASURED)
    )
    sketch.node("states", "stack", *states)
    return sketch.graph(sketch.node("key", "at_most", "states", most=MOST))


def phrase(key: Key) -> str:
    active = [word for word, state in zip(WORDS, key, strict=True) if state == 1]
    named = (
        "none"
        if not active
        else active[0]
        if len(active) == 1
        else f"{', '.join(active[:-1])} and {active[-1]}"
    )
    return f"A pattern consistent with raised risk in these domains and in no other one: {named}"


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """One question where each measured domain is clearly active or clearly not."""
    markers = tuple(health.markers(person, domain, end) for domain in _BLOOD)
    valid = windows.valid_metrics(person.record, end)
    metrics = tuple(metric for metric in (*_FITNESS, *_SLEEP) if metric in valid)
    if not any(markers):
        return
    made = graph(markers, metrics, health.sex_of(person))
    key = health.answer(made, person, end)
    if key is None or sum(state != NOT_MEASURED for state in key) < LEAST_DOMAINS:
        return
    yield Candidate(
        type=NAME,
        user=person.record.user,
        end=end,
        metrics=metrics,
        stem=_stem(key, metrics, end),
        graph=made,
        gold=Option(phrase(key), key),
        distractors=_distractors(key, person, end),
        margins=_margins(metrics),
        relation=relations.FLAG_TABLE,
    )


def _margins(metrics: tuple[str, ...]) -> tuple[Margin, ...]:
    found = []
    if any(metric in metrics for metric in _FITNESS):
        found.append(Margin("fitness percentile", (LOW_FITNESS,), FITNESS_MARGIN))
    if "sleep_duration" in metrics:
        found.append(Margin("sleep_duration mean", (SHORT_SLEEP,), SLEEP_MARGIN))
    if "bed_time_std" in metrics:
        found.append(Margin("bed_time_std mean", (IRREGULAR,), IRREGULAR_MARGIN))
    return tuple(found)


def _distractors(key: Key, person: Person, end: int) -> tuple[Option, ...]:
    """Sets with one domain more, less, or another one, and none; then others, so that no domain stands out."""
    measured = [i for i, state in enumerate(key) if state != NOT_MEASURED]
    active = frozenset(i for i in measured if key[i] == 1)
    sets = [
        frozenset(chosen)
        for size in range(MOST + 1)
        for chosen in itertools.combinations(measured, size)
        if frozenset(chosen) != active
    ]
    order = health.rng(person, NAME, end).permutation(len(sets))
    shuffled = [sets[i] for i in order]
    subset = [each for each in shuffled if each < active and len(active) - len(each) == 1]
    superset = [each for each in shuffled if each > active and len(each) - len(active) == 1]
    swapped = [each for each in shuffled if len(each) == len(active) and len(each - active) == 1]
    far = [each for each in shuffled if len(each ^ active) > 2]
    none: list[frozenset[int]] = [frozenset()] if active else []
    first = [*subset[:1], *superset[:1], *swapped[:1], *none]

    def option(each: frozenset[int]) -> Option:
        states = tuple(
            NOT_MEASURED if state == NOT_MEASURED else float(i in each) for i, state in enumerate(key)
        )
        return Option(phrase(states), states)

    pool = [*none, *subset, *superset, *swapped, *far][: 3 * FALSE_OPTIONS]
    return options.balanced(
        Option(phrase(key), key), map(option, pool), first=map(option, first), n=FALSE_OPTIONS
    )


def _stem(key: Key, metrics: tuple[str, ...], end: int) -> str:
    measured = [word for word, state in zip(WORDS, key, strict=True) if state != NOT_MEASURED]
    rules = []
    if any(metric in metrics for metric in _FITNESS):
        fit = tuple(metric for metric in _FITNESS if metric in metrics)
        rules.append(
            f"Fitness counts when the cohort percentile of {wording.metrics(fit)}, in the favourable direction and on "
            f"average, is below {LOW_FITNESS:g}."
        )
    nights = []
    if "sleep_duration" in metrics:
        nights.append(f"sleep lasts less than {SHORT_SLEEP:g} hours on average")
    if "bed_time_std" in metrics:
        nights.append(f"bedtime irregularity averages more than {IRREGULAR:g} minutes")
    if nights:
        rules.append(f"Sleep counts when {' or '.join(nights)}.")
    return health.stem(
        f"Take the blood panel and the means of {wording.window(end)}.",
        f"The domains are {', '.join(measured[:-1])} and {measured[-1]}.",
        "A domain of blood markers counts when one of its markers is far beyond its reference limit, not only "
        "borderline.",
        *rules,
        "Which option fits?",
    )


TYPE = QuestionType(
    name=NAME,
    group="health",
    signal="cross",
    grounding="literature",
    scope="window",
    propose=propose,
    phrase=phrase,
)
