"""What was the mean or median of a signal over the window?"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from wearjax.benchmarks.wearableqa import primitives, reads, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf, Node
from wearjax.benchmarks.wearableqa.questions import amounts, wording
from wearjax.benchmarks.wearableqa.seeds import seed_of
from wearjax.daily_metrics import BY_KEY, INDEX

NAME = "signal_summary"
STATISTICS = ("mean", "median")
RATE = ("rhr", "steps")
RATE_STEP = 0.1
ASKED = 4  # metrics at an end date: more would wait in vain, for any of them has an answer
RATE_UNIT = "bpm per 1,000 steps"
RATE_WORDS = "1,000 times the mean resting heart rate divided by the mean of daily steps"
DIGITS = 3  # of metrics without a rounding step of their own
STANDARD_ERRORS = {"mean": 1.0, "median": 1.2533}  # of a statistic, in σ/√n of normal data
COUNTED = ("exercise_count",)  # a median that is a whole number would give itself away
_POINTS = ("p25", "p50", "p75")
_FIRST = windows.HISTORY_RANGE[0]


def _days(span: windows.Range) -> slice:
    return slice(span[0] - _FIRST, span[1] - _FIRST + 1)


# The window, and what one may take for it, of the days from the start of the history.
_SPANS = {
    "window": _days(windows.WINDOW_RANGE),
    "previous": _days(windows.PREVIOUS),
    "history": _days(windows.HISTORY_RANGE),
    "first half": _days(windows.FIRST_HALF),
    "second half": _days(windows.SECOND_HALF),
}


@functools.cache
def graph(metric: str, statistic: str) -> Graph:
    """The statistic of the window, rounded as the metric is."""
    step = BY_KEY[metric].step
    rounded = (
        Node("key", "significant", ("value",), {"digits": DIGITS})
        if step is None
        else Node("key", "round_to", ("value",), {"step": step})
    )
    return Graph({"w": _leaf(metric)}, (Node("value", statistic, ("w",)), rounded), "key")


@functools.cache
def rate_graph() -> Graph:
    """Heart beats per step: 1,000 times the mean resting heart rate over the mean steps."""
    nodes = (
        Node("beats", "mean", ("rhr",)),
        Node("moves", "mean", ("steps",)),
        Node("value", "ratio", ("beats", "moves"), {"times": 1000.0}),
        Node("key", "round_to", ("value",), {"step": RATE_STEP}),
    )
    return Graph({metric: _leaf(metric) for metric in RATE}, nodes, "key")


def _leaf(metric: str) -> Leaf:
    return Leaf("series", metric, *windows.WINDOW_RANGE, group="window")


def phrase(key: Key) -> str:
    """The number alone: its unit is the question's."""
    return wording.short(key[0])


@dataclass(frozen=True, eq=False)
class _Asked:
    """An amount that a question can ask for.

    Attributes:
        words: what it is called.
        lures: what wrong computations give instead.
    """

    metrics: tuple[str, ...]
    graph: Graph
    words: str
    unit: str
    lures: list[float]
    scale: amounts.Scale


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """One statistic of some metrics, and the rate of heart beats to steps."""
    rng = np.random.default_rng(seed_of(person.record.user, NAME, end, "options"))
    asked = list(_asked(person, end, rng))
    golds = reads.answers([each.graph for each in asked], person, end)
    for each, ((gold,),) in zip(asked, golds, strict=True):
        false = amounts.around(float(gold), each.lures, each.scale, rng)
        if false is not None:
            yield Candidate(
                type=NAME,
                user=person.record.user,
                end=end,
                metrics=each.metrics,
                stem=_stem(each, end),
                graph=each.graph,
                gold=_option(float(gold), each),
                distractors=tuple(_option(value, each) for value in false),
                resample="days",
                tolerance=each.scale.step,
            )


def _asked(person: Person, end: int, rng: np.random.Generator) -> Iterator[_Asked]:
    valid = windows.valid_metrics(person.record, end)
    days = person.record.between(end + _FIRST, end).T
    found = {
        statistic: {span: primitives.OPS[statistic](days[:, where])[:, 0] for span, where in _SPANS.items()}
        for statistic in STATISTICS
    }
    error = _relative_error(days[:, _SPANS["window"]], found["mean"]["window"])
    drawn = rng.integers(len(STATISTICS), size=len(BY_KEY))
    some = rng.permutation(len(valid))[:ASKED]
    for metric in (valid[i] for i in np.sort(some)):
        i = INDEX[metric]
        statistic = "mean" if metric in COUNTED else STATISTICS[drawn[i]]
        step = _step(metric, found[statistic]["window"][i])
        if step:
            lures = _lures(
                {name: {k: v[i] for k, v in spans.items()} for name, spans in found.items()}, statistic
            )
            lures += [person.cohort.statistic(metric, point) for point in _POINTS]
            scale = amounts.Scale(step, *BY_KEY[metric].plausible, error[i] * STANDARD_ERRORS[statistic])
            words = f"the {statistic} of {wording.metric(metric)}"
            yield _Asked((metric,), graph(metric, statistic), words, wording.unit(metric), lures, scale)
    beats, moves = (INDEX[metric] for metric in RATE)
    if set(RATE) <= set(valid) and found["mean"]["window"][moves] > 0:
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = {
                s: {k: 1000 * v[beats] / v[moves] for k, v in spans.items()} for s, spans in found.items()
            }
            steps = np.array([person.cohort.statistic("steps", point) for point in _POINTS])
            lures = [*_lures(rates, "mean"), *(1000 * person.cohort.statistic("rhr", "p50") / steps)]
        scale = amounts.Scale(RATE_STEP, 0.0, np.inf, float(np.hypot(error[beats], error[moves])))
        yield _Asked(RATE, rate_graph(), RATE_WORDS, RATE_UNIT, lures, scale)


def _lures(found: dict[str, dict[str, float]], statistic: str) -> list[float]:
    """What one gets with the other statistic, or over other days."""
    other = STATISTICS[1 - STATISTICS.index(statistic)]
    return [found[other]["window"], *(found[statistic][span] for span in _SPANS if span != "window")]


def _relative_error(
    window: Float64[np.ndarray, "metric window"], mean: Float64[np.ndarray, " metric"]
) -> Float64[np.ndarray, " metric"]:
    """Standard error of the mean, as a share of it; NaN where nothing is measured."""
    n = np.isfinite(window).sum(axis=1)
    square = primitives.mean((window - mean[:, None]) ** 2)[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(square / n) / np.abs(mean)


def _step(metric: str, value: float) -> float:
    """What an amount is rounded to; 0 where it leaves nothing to round."""
    if not value > 0:
        return 0.0
    return BY_KEY[metric].step or float(10.0 ** (np.floor(np.log10(value)) - DIGITS + 1))


def _option(value: float, asked: _Asked) -> Option:
    return Option(wording.amount(value, asked.scale.step, asked.unit), (value,))


def _stem(asked: _Asked, end: int) -> str:
    return (
        f"Over {wording.window(end)}, what was {asked.words}? Days without a value do not count; the answer is rounded "
        f"to {wording.amount(asked.scale.step, asked.scale.step, asked.unit)}."
    )


TYPE = QuestionType(
    name=NAME,
    group="data",
    signal="single",
    grounding="population",
    scope="window",
    propose=propose,
    phrase=phrase,
    numeric=True,
)
