"""Which habit promises most for a metric that is worse than the cohort's, since the metric tracks it in this person?

An option's words carry its direction, always the favourable one of the habit: fewer steps or shorter nights would never
be right, and an option that is never right gives itself away. For the same reason there is no false option of the right
habit in the wrong direction. A habit of strong correlation but harmful sign is a false option in its favourable
direction, at the delay where it is strongest: it scores nothing.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import numpy as np

from wearjax import daily_metrics
from wearjax.benchmarks.wearableqa import primitives, windows
from wearjax.benchmarks.wearableqa.candidate import (
    Candidate,
    Coupling,
    Key,
    Margin,
    Option,
    Person,
    QuestionType,
)
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf
from wearjax.benchmarks.wearableqa.questions import health, options, wording
from wearjax.daily_metrics import BY_KEY, CORE, INDEX

NAME = "recommendation"
LAGS = (0, 1, 2, 3)  # days by which the target follows
LEVERS = ("steps", "exercise_hours", "sleep_duration", "bed_time_std", "avg_stress_level")
TARGETS = ("rhr", "hrv", "vo2_max", "sleep_duration", "steps")  # those of which the cohort is shown
WORSE_THAN = 25.0  # percentile, 100 being the most favourable
MARGIN = 2.5
MOST_ROOM = 2.0  # spreads
LEAST_LEVERS = 3  # so that ten options differ
LEAST_PAIRS = 60  # days with both, of window and history
WORDS = (
    "More daily steps",
    "More exercise time",
    "Longer nights of sleep",
    "More regular bedtimes",
    "Lower stress levels",
)
DELAYS = ("on the same day", "one day later", "two days later", "three days later")
KEYS: tuple[Key, ...] = tuple(
    (float(a), float(b)) for a, b in itertools.product(range(len(LEVERS)), range(len(LAGS)))
)


@functools.cache
def graph(target: str, levers: tuple[str, ...]) -> Graph:
    """The lever with the largest product of |ρ| and room, and the lag at which the target follows it."""
    sketch = health.Sketch()
    followed = []
    for lag in LAGS:
        past = sketch.leaf(f"target {lag} past", _history(target, lag))
        first, last = windows.WINDOW_RANGE
        now = sketch.leaf(f"target {lag}", Leaf("series", target, first + lag, last + lag, "window"))
        followed.append(sketch.node(f"target {lag} all", "stack", past, now))
    scores = []
    for lever in levers:
        past = sketch.leaf(f"{lever} past", _history(lever, 0))
        every = sketch.node(f"{lever} all", "stack", past, sketch.window(lever))
        rho = sketch.node(f"{lever} rho", "lagged_spearman", every, *followed, min_pairs=LEAST_PAIRS)
        spread = sketch.node(f"{lever} spread", "scale", every)
        goal = sketch.cohort(lever, "p75" if BY_KEY[lever].better == "up" else "p25")
        room = sketch.node(
            f"{lever} room", "room", sketch.mean(lever), goal, spread, better=_better(lever), most=MOST_ROOM
        )
        helpful = _better(lever) * _better(target)
        scores.append(sketch.node(f"{lever} score", "lever_score", rho, room, helpful=helpful))
    sketch.node("best", "best_lever", *scores, codes=[float(LEVERS.index(lever)) for lever in levers])
    sketch.node("lead", "select", "best", columns=[2])
    sketch.node("choice", "select", "best", columns=[0, 1])
    level = _percentile(sketch, target)
    sketch.node("poor", "flag", level, limits=[WORSE_THAN], direction="down", undefined_within=0.0)
    return sketch.graph(sketch.node("key", "kept_if", "choice", "poor"))


def _percentile(sketch: health.Sketch, target: str) -> str:
    return sketch.node("target percentile", "average", sketch.percentile(target))


def _history(metric: str, lag: int) -> Leaf:
    first, last = windows.HISTORY_RANGE
    return Leaf("series", metric, first + lag, last + lag, "history")


def _better(metric: str) -> int:
    return 1 if BY_KEY[metric].better == "up" else -1


def phrase(key: Key) -> str:
    lever, lag = (int(code) for code in key)
    return f"{WORDS[lever]}, which the metric follows {DELAYS[lag]}"


OPTIONS: dict[Key, Option] = {key: Option(phrase(key), key) for key in KEYS}


def searched(person: Person, end: int) -> dict[str, tuple[str, ...]]:
    """Metrics that are worse than the cohort's quartile, each with the levers that could be looked at for it."""
    valid = windows.valid_metrics(person.record, end)
    window = person.record.between(end + windows.WINDOW_RANGE[0], end)
    there = np.isfinite(window)
    found = {}
    for target in TARGETS:
        if target not in valid or not _worse(person, target, window[:, INDEX[target]]):
            continue
        levers = tuple(
            lever
            for lever in LEVERS
            if lever in valid
            and lever != target
            and not daily_metrics.is_definitional(lever, target)
            and (there[:, INDEX[lever]] & there[:, INDEX[target]]).sum() >= windows.PAIRED_DAYS
        )
        if len(levers) >= LEAST_LEVERS:
            found[target] = levers
    return found


def _worse(person: Person, target: str, days: np.ndarray) -> bool:
    """Cheaply, what the graph finds exactly."""
    quartile = person.cohort.statistic(target, "p25" if BY_KEY[target].better == "up" else "p75")
    return bool(_better(target) * (np.nanmean(days) - quartile) < 0)


def looked(person: Person, end: int) -> int:
    """One search for each metric that is worse."""
    return len(searched(person, end))


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """For each metric that is worse than the cohort's quartile, the habit that promises most."""
    for target, levers in searched(person, end).items():
        if not _notable(person, end, target, levers):
            continue
        made = graph(target, levers)
        values = health.traced(made, person, end)
        key = health.key_of(values, made)
        if key is None:
            continue
        lever, lag = LEVERS[int(key[0])], int(key[1])
        couplings: tuple[Coupling, ...] = tuple((each, target, k) for each in levers for k in LAGS)
        yield Candidate(
            type=NAME,
            user=person.record.user,
            end=end,
            metrics=(lever, target),
            stem=_stem(person, target, levers, end),
            graph=made,
            gold=OPTIONS[key],
            distractors=_distractors(key, values, levers, person, end),
            margins=(Margin("target percentile", (WORSE_THAN,), MARGIN),),
            coupling=(lever, target, lag),
            searched=couplings,
            lead="lead",
            tag="empirical",
            rho=float(values[f"{lever} score"][3]),
        )


def _notable(person: Person, end: int, target: str, levers: tuple[str, ...]) -> bool:
    """Whether any lever goes with the target in the window about as closely as the effect gate wants."""
    window = person.record.between(end + windows.WINDOW_RANGE[0], end)
    followed = window[:, INDEX[target]]
    for lag in LAGS:
        first = window[: len(window) - lag, [INDEX[lever] for lever in levers]].T
        rho = primitives.correlation(first, followed[None, lag:], min_pairs=windows.HALF_DAYS)
        with np.errstate(invalid="ignore"):
            if np.any(np.abs(rho) >= 0.45):
                return True
    return False


def _distractors(
    key: Key, values: dict[str, np.ndarray], levers: tuple[str, ...], person: Person, end: int
) -> tuple[Option, ...]:
    """The other levers, those with the strongest ρ first, and the right one at other lags."""
    keys = [key_ for key_ in KEYS if LEVERS[int(key_[0])] in levers and key_ != key]
    order = health.rng(person, NAME, end).permutation(len(keys))
    keys = [keys[i] for i in order]
    own = {
        float(LEVERS.index(lever)): (
            float(values[f"{lever} score"][1]),
            abs(float(values[f"{lever} score"][3])),
        )
        for lever in levers
    }
    rivals = sorted((k for k in keys if k[0] != key[0] and own[k[0]][0] == k[1]), key=lambda k: -own[k[0]][1])
    return options.balanced(
        OPTIONS[key],
        [OPTIONS[k] for k in keys],
        first=[OPTIONS[k] for k in rivals],
        n=len(keys),
    )


def _stem(person: Person, target: str, levers: tuple[str, ...], end: int) -> str:
    extra = [health.cohort_points(person, lever) for lever in levers if lever not in CORE]
    return health.stem(
        f"{wording.capitalised(wording.metric(target))} over {wording.window(end)} is worse than in three quarters "
        f"of the cohort. The habits to look at are {wording.metrics(levers)}.",
        "Score each by the size of its rank correlation with the metric over these days and the 500 before, at the "
        f"best delay of 0 to {max(LAGS)} days, times its distance to the favourable quartile of the cohort in its own "
        f"spreads (at most {MOST_ROOM:g}); a correlation of the unhelpful sign scores nothing.",
        *([f"Percentiles of the cohort that are not listed: {'; '.join(extra)}."] if extra else []),
        "Which change of habit scores highest?",
    )


TYPE = QuestionType(
    name=NAME,
    group="health",
    signal="cross",
    grounding="population",
    scope="history",
    coupling=True,
    propose=propose,
    phrase=phrase,
    looked=looked,
)
