"""Answers a question by its own computation: what a reader with the right tools and no mistakes would choose."""

from __future__ import annotations

import numpy as np

from wearjax.benchmarks.wearableqa import reads
from wearjax.benchmarks.wearableqa.candidate import Person
from wearjax.benchmarks.wearableqa.graph import evaluate
from wearjax.benchmarks.wearableqa.item import LETTERS, Item


def answer(item: Item, person: Person) -> str | None:
    """Letter of the only option whose claim equals what the record gives; None where none or several do."""
    found = evaluate(item.graph, reads.read(item.graph, person, item.end))
    alike = [
        i for i, key in enumerate(item.keys) if len(key) == found.shape[1] and reads.same(found, key).all()
    ]
    return LETTERS[alike[0]] if len(alike) == 1 and np.isfinite(found).all() else None
