"""Small question types, people and finished questions for tests of building and auditing."""

from __future__ import annotations

import datetime as dt

import numpy as np

from wearjax.benchmarks.wearableqa import reads, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Hidden, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf, Node, evaluate
from wearjax.benchmarks.wearableqa.item import LETTERS, Item
from wearjax.benchmarks.wearableqa.origin import Origin
from wearjax.daily_metrics import INDEX, N_METRICS
from wearjax.sources.daily_record import DailyRecord, Demographics

END = 19_800
BANDS = tuple(Option(f"between {50 + 4 * i} and {54 + 4 * i} bpm", (float(i),)) for i in range(10))
WINDOW = Leaf("series", "rhr", *windows.WINDOW_RANGE, group="window")
LEVEL = Graph(
    {"w": WINDOW},
    (
        Node("level", "mean", ("w",)),
        Node("key", "band", ("level",), {"edges": [54 + 4 * i for i in range(9)]}),
    ),
    "key",
)
AMOUNT = Graph(
    {"w": WINDOW}, (Node("level", "mean", ("w",)), Node("key", "round_to", ("level",), {"step": 1})), "key"
)


def record(user: str, rng: np.random.Generator, *, months: int = 6) -> DailyRecord:
    """A resting heart rate with another level every four weeks, in the middle of a band."""
    levels = np.repeat(52.0 + 4 * rng.integers(0, 10, months), windows.WINDOW)
    values = np.full((len(levels), N_METRICS), np.nan)
    values[:, INDEX["rhr"]] = levels + rng.uniform(-1, 1, len(levels))
    values[:, INDEX["steps"]] = rng.uniform(4000, 9000, len(levels))
    return DailyRecord(
        user, np.arange(END - len(levels) + 1, END + 1), values, Demographics(age=40.0, sex="female")
    )


def origin(people: int, *, seed: int = 0) -> Origin:
    def read(tally, progress):
        del tally
        for i in range(people):
            yield record(f"u{i:03d}", np.random.default_rng([seed, i]))
            if progress:
                progress(i + 1, people)

    return Origin("made", {"source": "made", "people": people, "seed": seed}, "", read, people)


def same(option: Option, candidate: Candidate, key) -> bool:
    del candidate
    return bool(reads.same(np.array([key]), option.key).all())


def level_type(name: str = "level_band", *, group="data", propose=None) -> QuestionType:
    """In which of ten bands does the mean lie?"""

    def usual(person: Person, end: int):
        (key,) = evaluate(LEVEL, reads.read(LEVEL, person, end))
        if np.isfinite(key).all():
            yield candidate(person.record.user, end, int(key[0]), type_name=name)

    return QuestionType(
        name=name, group=group, signal="single", grounding="population", scope="window", coupling=False,
        propose=propose or usual, holds=same, phrase=lambda key: BANDS[int(key[0])].text,
    )  # fmt: skip


def candidate(user: str, end: int, band: int, *, type_name: str = "level_band", **options) -> Candidate:
    options.setdefault("gold", BANDS[band])
    options.setdefault("distractors", tuple(each for each in BANDS if each is not BANDS[band]))
    options.setdefault("metrics", ("rhr",))
    options.setdefault(
        "stem", f"Over the latest 28 days up to day {end}, what was the mean resting heart rate?"
    )
    options.setdefault("graph", LEVEL)
    options.setdefault("resample", "days")
    return Candidate(type=type_name, user=user, end=end, **options)


def amount_type() -> QuestionType:
    """What is the mean? Many false amounts around it."""

    def propose(person: Person, end: int):
        (key,) = evaluate(AMOUNT, reads.read(AMOUNT, person, end))
        if np.isfinite(key).all():
            yield amount(person.record.user, end, key[0])

    return QuestionType(
        name="amount", group="data", signal="single", grounding="population", scope="window", coupling=False,
        propose=propose, holds=same, phrase=lambda key: f"{key[0]:.0f} bpm", numeric=True,
    )  # fmt: skip


def amount(user: str, end: int, value: float) -> Candidate:
    around = [value + 3 * sign * step for step in range(1, 10) for sign in (-1, 1)]
    return candidate(
        user,
        end,
        0,
        type_name="amount",
        gold=Option(f"{value:.0f} bpm", (value,)),
        distractors=tuple(Option(f"{each:.0f} bpm", (each,)) for each in around),
        graph=AMOUNT,
    )


def item(name: str, *, user: str = "u", gold: int = 0, options=BANDS, answer: str = "A", **fields) -> Item:
    """A question whose gold stands at the letter, the others in their order."""
    others = [each for each in options if each is not options[gold]][:9]
    others.insert(LETTERS.index(answer), options[gold])
    return Item(
        **{
            "id": name, "stem": f"What was the mean resting heart rate ({name})?",
            "choices": tuple(each.text for each in others), "keys": tuple(each.key for each in others),
            "answer": answer, "category": "level_band", "reasoning_group": "data", "signal": "single",
            "grounding": "population", "scope": "window", "user_id": user, "end_date": dt.date(2024, 3, 18),
            "metrics": ("rhr",), "hidden": Hidden(), "graph": LEVEL, **fields,
        }
    )  # fmt: skip
