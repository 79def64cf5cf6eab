"""With the sensors' days hidden: which pattern of heart rate and activity do profile and blood panel suggest?

Age and BMI are exact, but the limits at which they vote are not: every quantity that is compared with a threshold keeps
a tenth of its band's width from it (half a unit of BMI, two years), or one more year would turn the answer.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from wearjax.benchmarks.wearableqa import windows
from wearjax.benchmarks.wearableqa.candidate import (
    Candidate,
    Hidden,
    Key,
    Margin,
    Option,
    Person,
    QuestionType,
)
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf
from wearjax.benchmarks.wearableqa.questions import health, options, wording

NAME = "fitness_prediction"
CUTS = (33.0, 67.0)  # percentiles, 100 being the most favourable
MARGIN = 5.0
SHORT_SLEEP, STRESSED = 25.0, 25.0  # percentiles below which an average heart and activity are set aside
BMI = (25.0, 30.0)
OLDER = (40.0, 60.0)
BMI_MARGIN, AGE_MARGIN = 0.5, 2.0
AGREEING = 2  # of three votes
LIPIDS = ("hdl", "triglycerides")
METABOLIC = ("glucose", "hba1c", "hs_crp")
# Class by thirds of resting heart rate and of steps (0 worst); the middle cell is told apart by sleep and stress.
CLASSES = (
    "Unfit and inactive: a high resting heart rate with few daily steps",
    "Unfit, average activity: a high resting heart rate with usual daily steps",
    "Strained or overtrained: a high resting heart rate with many daily steps",
    "Average heart, inactive: a usual resting heart rate with few daily steps",
    "Average heart, active: a usual resting heart rate with many daily steps",
    "Fit but inactive: a low resting heart rate with few daily steps",
    "Fit, average activity: a low resting heart rate with usual daily steps",
    "Fit and active: a low resting heart rate with many daily steps",
    "Short sleeper: short nights with usual resting heart rate and daily steps",
    "Stressed: high stress levels with usual resting heart rate and daily steps",
    "Short of sleep and stressed, with usual resting heart rate and daily steps",
    "Average throughout: usual resting heart rate and daily steps, rested and calm",
)
_OF_THIRDS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2))
# Rows of codes and what they give: thirds of resting heart rate and steps, short sleep, stress → class.
_TABLE = [
    *([rhr, steps, s, t, i] for i, (rhr, steps) in enumerate(_OF_THIRDS) for s in (0, 2) for t in (0, 2)),
    [1, 1, 2, 0, 8],
    [1, 1, 0, 2, 9],
    [1, 1, 2, 2, 10],
    [1, 1, 0, 0, 11],
]
# The direction that a class speaks for: fit, unfit, or neither.
_DIRECTIONS = [
    *([i, (rhr + steps > 2) - (rhr + steps < 2)] for i, (rhr, steps) in enumerate(_OF_THIRDS)),
    *([code, 0] for code in range(8, 12)),
]
OPTIONS = options.numbered(CLASSES)
# Which relation a vote rests on, in order of preference.
_RELATION = {"build": "steps_bmi", "lipids": "vo2_max_hdl", "metabolic": "rhr_hs_crp"}


@functools.cache
def graph(
    lipids: tuple[str, ...], metabolic: tuple[str, ...], sleep: bool, stress: bool, sex: str | None
) -> Graph:
    """The class, where the majority of three votes of profile and blood speaks for its direction, or for none.

    Args:
        sleep, stress: whether the middle cell can be told apart by them.
    """
    sketch = health.Sketch()
    for metric in ("rhr", "steps"):
        sketch.node(f"{metric} level", "band", sketch.percentile(metric), edges=list(CUTS))
    zero = sketch.node("0", "constant", value=0.0)
    short = sketch.far("short", sketch.percentile("sleep_duration"), SHORT_SLEEP, "down") if sleep else zero
    stressed = (
        sketch.far("stressed", sketch.percentile("avg_stress_level"), STRESSED, "down") if stress else zero
    )
    sketch.node("class", "table_lookup", "rhr level", "steps level", short, stressed, table=_TABLE)
    sketch.node("direction", "table_lookup", "class", table=_DIRECTIONS)
    sketch.leaf("bmi", Leaf("profile", "bmi"))
    sketch.leaf("age", Leaf("profile", "age"))
    body = [
        sketch.node("weight", "band", "bmi", edges=list(BMI)),
        sketch.node("years", "band", "age", edges=list(OLDER)),
    ]
    votes = [sketch.node("build", "vote", *body)]
    for name, keys in (("lipids", lipids), ("metabolic", metabolic)):
        flags = [flag for key in keys for flag in sketch.flags(key, sex)]
        votes.append(sketch.node(name, "vote", *flags))
    sketch.node("majority", "majority", *votes, least=AGREEING)
    sketch.node("agree", "equal", "direction", "majority")
    return sketch.graph(sketch.node("key", "kept_if", "class", "agree"))


def phrase(key: Key) -> str:
    return CLASSES[int(key[0])]


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """One question where profile and panel point where the sensors do."""
    valid = windows.valid_metrics(person.record, end)
    measured = {
        marker
        for domain in ("lipid", "glycaemic", "inflammatory")
        for marker in health.markers(person, domain, end)
    }
    lipids = tuple(key for key in LIPIDS if key in measured)
    metabolic = tuple(key for key in METABOLIC if key in measured)
    profile = person.record.demographics
    if (
        not {"rhr", "steps"} <= set(valid)
        or not lipids
        or not metabolic
        or profile.bmi is None
        or profile.age is None
    ):
        return
    sleep, stress = "sleep_duration" in valid, "avg_stress_level" in valid
    made = graph(lipids, metabolic, sleep, stress, health.sex_of(person))
    values = health.traced(made, person, end)
    key = health.key_of(values, made)
    if key is None:
        return
    margins = [Margin(_favour(metric), CUTS, MARGIN) for metric in ("rhr", "steps")]
    margins += [Margin("bmi", BMI, BMI_MARGIN), Margin("age", OLDER, AGE_MARGIN)]
    if values["rhr level"][0] == values["steps level"][0] == 1:
        margins += [Margin("sleep_duration percentile", (SHORT_SLEEP,), MARGIN)] if sleep else []
        margins += [Margin("avg_stress_level favour", (STRESSED,), MARGIN)] if stress else []
    agreed = [vote for vote in _RELATION if values[vote][0] == values["direction"][0]] or ["build"]
    yield Candidate(
        type=NAME,
        user=person.record.user,
        end=end,
        metrics=("rhr", "steps"),
        stem=_stem(end),
        graph=made,
        gold=OPTIONS[int(key[0])],
        distractors=_distractors(int(key[0]), person, end),
        margins=tuple(margins),
        hidden=Hidden(series=True),
        relation=_RELATION[agreed[0]],
    )


def _distractors(code: int, person: Person, end: int) -> tuple[Option, ...]:
    """All others, one of each kind first: the opposite, a mixed pattern, sleep or stress, average activity."""
    order = health.rng(person, NAME, end).permutation(len(OPTIONS)).tolist()
    first = [
        next(i for i in order if i in kind and i != code) for kind in ((0, 7), (2, 5), (8, 9, 10), (1, 6))
    ]
    rest = [i for i in order if i not in (*first, code)]
    return tuple(OPTIONS[i] for i in (*first, *rest))


def _favour(metric: str) -> str:
    return "rhr favour" if metric == "rhr" else f"{metric} percentile"


def _stem(end: int) -> str:
    return health.stem(
        f"The wearable's days are withheld. From profile, blood panel and cohort alone, which pattern did the wearable "
        f"most probably show over {wording.window(end)}? High and low are the upper and lower third of the cohort.",
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
