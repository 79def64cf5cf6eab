"""Which explanation fits the most unusual days of the window best?"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from wearjax.benchmarks.wearableqa import relations, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Margin, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph
from wearjax.benchmarks.wearableqa.primitives_health import GAP_DAYS, NOTABLE, STANDARD_ERRORS, STRETCH
from wearjax.benchmarks.wearableqa.questions import health, options, wording

NAME = "differential_reasoning"
SIGNALS = (
    "rhr", "hrv", "sleep_duration", "deep_percentage", "steps", "exercise_hours", "avg_stress_level", "bed_time_std",
)  # fmt: skip
EXERCISE = "exercise_hours"
REQUIRED = ("rhr", "hrv", "sleep_duration", "steps")
LEAST_SIGNALS = 7
LEAST_SESSIONS = 8  # days
MOVED_MARGIN = 0.2  # of what counts as moved: a tenth of the band from one sign to the other
EXPLANATIONS = (
    "An episode that looks like acute illness",
    "A training load beyond the usual one",
    "A run of nights with too little sleep",
    "Late evenings with poor rest after them",
    "A stretch of psychological stress",
    "A break from training and activity",
    "Travel with shifted bedtimes",
    "An easing of training with good recovery",
    "A sensor that was hardly worn or read",
    "No notable change on any of these days",
)
# Signs that each explanation expects, in the order of SIGNALS. Not reviewed by a clinician.
SIGNATURES: dict[int, tuple[int, ...]] = {
    0: (1, -1, 1, -1, -1, -1, 1, 0),
    1: (1, -1, 0, 0, 1, 1, 1, 0),
    2: (0, -1, -1, -1, 0, 0, 1, 0),
    3: (1, -1, 0, -1, 0, 0, 0, 1),
    4: (1, -1, 0, 0, 0, 0, 1, 0),
    5: (0, 0, 0, 0, -1, -1, 0, 0),
    6: (0, 0, -1, 0, 1, -1, 0, 1),
    7: (-1, 1, 1, 0, 0, -1, -1, 0),
    9: (0, 0, 0, 0, 0, 0, 0, 0),
}
OPTIONS = options.numbered(EXPLANATIONS)


@functools.cache
def graph(signals: tuple[str, ...]) -> Graph:
    """The explanation of the most unusual stretch, each signal in its own spreads of the window."""
    sketch = health.Sketch()
    scaled = []
    for signal in signals:
        window = sketch.window(signal)
        if signal == EXERCISE:
            window = sketch.node("exercise", "rest_days", window, sketch.window("exercise_count"))
        level = sketch.node(f"{signal} level", "median", window)
        spread = sketch.node(f"{signal} spread", "scale", window)
        scaled.append(sketch.node(f"{signal} z", "robust_z", window, level, spread))
    sparse = [i for i, signal in enumerate(signals) if signal == EXERCISE]
    sketch.node("stretch", "unusual_stretch", *scaled, sparse=sparse)
    sketch.node("moved", "select", "stretch", columns=list(range(len(signals) + 2, 2 * len(signals) + 2)))
    columns = [SIGNALS.index(signal) for signal in signals]
    sketch.node(
        "fit", "explanation", "stretch",
        signatures=[[float(signature[c]) for c in columns] for signature in SIGNATURES.values()],
        codes=[float(code) for code in SIGNATURES],
    )  # fmt: skip
    return sketch.graph(sketch.node("key", "select", "fit", columns=[0]))


def phrase(key: Key) -> str:
    return EXPLANATIONS[int(key[0])]


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """One question where enough signals are measured and one explanation fits clearly best."""
    valid = windows.valid_metrics(person.record, end)
    sessions = np.isfinite(windows.days_of(person.record, EXERCISE, end, windows.WINDOW_RANGE)).sum()
    signals = tuple(
        key for key in SIGNALS if key in valid or (key == EXERCISE and sessions >= LEAST_SESSIONS)
    )
    if len(signals) < LEAST_SIGNALS or not set(REQUIRED) <= set(signals):
        return
    made = graph(signals)
    key = health.answer(made, person, end)
    if key is None:
        return
    yield Candidate(
        type=NAME,
        user=person.record.user,
        end=end,
        metrics=signals,
        stem=_stem(signals, end),
        graph=made,
        gold=OPTIONS[int(key[0])],
        distractors=options.others(OPTIONS, OPTIONS[int(key[0])]),
        margins=(Margin("moved", (-1.0, 1.0), MOVED_MARGIN),),
        resample="jitter",
        relation=relations.SIGNATURE_TABLE,
    )


def _stem(signals: tuple[str, ...], end: int) -> str:
    return health.stem(
        f"Within {wording.window(end)}, find the stretch of {STRETCH[0]} to {STRETCH[1]} days on which "
        f"{wording.metrics(signals)} together are the most unusual for this window (distance from its median, in "
        "robust spreads).",
        f"A signal counts as moved when its mean there is at least {NOTABLE:g} spread and {STANDARD_ERRORS:g} standard "
        f"errors away; {GAP_DAYS} or more days in a row with hardly anything measured explain themselves.",
        "Which explanation fits the signs of all signals best?",
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
