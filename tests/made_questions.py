"""A small folder of questions about made-up records, for tests of prompts, runs and reports."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import numpy as np

from wearjax.benchmarks.wearableqa import cohort, dataset, windows
from wearjax.benchmarks.wearableqa.candidate import Hidden, Person
from wearjax.benchmarks.wearableqa.cohort import CohortReference
from wearjax.benchmarks.wearableqa.dataset import Dataset
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf, Node, evaluate
from wearjax.benchmarks.wearableqa.item import LETTERS, Item, line
from wearjax.benchmarks.wearableqa.reads import read
from wearjax.daily_metrics import INDEX, N_METRICS
from wearjax.segments import daily_records
from wearjax.sources.daily_record import BloodValue, DailyRecord, Demographics

END = dt.date(2024, 6, 30)
LAST = (END - dt.date(1970, 1, 1)).days
METRICS = ("steps", "rhr", "sleep_duration")


def record(user: str, *, days: int = 70, seed: int = 0) -> DailyRecord:
    rng = np.random.default_rng([seed, *user.encode()])
    values = np.full((days, N_METRICS), np.nan)
    values[:, INDEX["steps"]] = rng.integers(2000, 15000, days)
    values[:, INDEX["rhr"]] = rng.integers(50, 70, days)
    values[:, INDEX["sleep_duration"]] = rng.uniform(5, 9, days).round(2)
    values[rng.random(days) < 0.1] = np.nan
    known = Demographics(age=44, sex="female", bmi=24.6)
    blood = {"ldl": BloodValue(121.0, "mg/dL", dt.date(2024, 5, 1)), "glucose": BloodValue(92.5, "mg/dL")}
    return DailyRecord(user, np.arange(LAST - days + 1, LAST + 1), values, known, blood)


def graph(metric: str) -> Graph:
    """Mean of the window."""
    leaf = Leaf("series", metric, *windows.WINDOW_RANGE, group="window")
    return Graph({"w": leaf}, (Node("mean", "mean", ("w",)),), "mean")


def item(user: str, metric: str, place: int, *, hidden: Hidden | None = None, **changed) -> Item:
    """What was the mean? Answers are 3 % apart; the right one stands at `place`."""
    person = Person(record(user), CohortReference())
    key = float(evaluate(graph(metric), read(graph(metric), person, LAST))[0, 0])
    keys = tuple((key * (1 + 0.03 * (i - place)),) for i in range(len(LETTERS)))
    health = place % 2 == 1
    options = {
        "id": f"made_{user}_{metric}", "stem": f"What was the mean of {metric} over the latest 28 days?",
        "choices": tuple(f"{each[0]:.1f}" for each in keys), "keys": keys, "answer": LETTERS[place],
        "category": "concordance" if health else "signal_summary",
        "reasoning_group": "health" if health else "data", "signal": "cross" if health else "single",
        "grounding": "population", "scope": "history" if health else "window", "user_id": user, "end_date": END,
        "metrics": (metric,), "hidden": hidden or Hidden(), "graph": graph(metric),
    }  # fmt: skip
    return Item(**(options | changed))


def items(users: int = 4) -> list[Item]:
    """A question of each metric about each user."""
    names = [f"u{i}" for i in range(users)]
    return [
        item(user, metric, (3 * i + j) % len(LETTERS))
        for i, user in enumerate(names)
        for j, metric in enumerate(METRICS)
    ]


def write(folder: Path, made: list[Item] | None = None) -> Dataset:
    """A finished folder of questions."""
    made = items() if made is None else made
    folder.mkdir(parents=True)
    users = sorted({each.user_id for each in made})
    store = daily_records.write_records(folder / dataset.STORE, (record(user) for user in users))
    reference = cohort.of_store(store)
    (folder / dataset.COHORT).write_text(json.dumps(reference.to_json()))
    (folder / dataset.ITEMS).write_text("".join(line(each.to_json()) for each in made))
    meta = {
        "format": dataset.FORMAT,
        "generator": "1",
        "store_digest": store.digest,
        "yields": {},
        "request": {},
    }
    (folder / dataset.BUILD).write_text(json.dumps(meta))
    return Dataset(folder)
