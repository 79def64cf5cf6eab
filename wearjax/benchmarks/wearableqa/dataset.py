"""A folder of questions: `items.jsonl`, `build.json`, `cohort.json`, the records in `store/`, and what audits found.

`queue.jsonl` is for people: a question that somebody rejected there is left out when the questions are read, and one
that somebody fixed reads as it was fixed.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wearjax import checksum, json_text
from wearjax.benchmarks.wearableqa.candidate import Person
from wearjax.benchmarks.wearableqa.cohort import CohortReference
from wearjax.benchmarks.wearableqa.item import Item, read_lines
from wearjax.errors import ConfigError, StoreError
from wearjax.segments import daily_records

FORMAT = 1
ITEMS, BUILD, COHORT, STORE = "items.jsonl", "build.json", "cohort.json", "store"
QUEUE, AUDIT, REVIEWS = "queue.jsonl", "audit.json", "reviews.jsonl"
DECISIONS = ("accept", "reject", "fix")


class Dataset:
    """An opened folder of questions.

    Attributes:
        path: the folder.
        meta: content of `build.json`.

    Raises:
        StoreError: it is missing, or not complete.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        file = self.path / BUILD
        try:
            self.meta: dict[str, Any] = json_text.loads(file.read_text(encoding="utf-8"))
            version = self.meta["format"]
        except FileNotFoundError:
            raise StoreError(
                f"{self.path}: no finished questions there (no {BUILD}); make them with: wearjax qa build"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{file}: not readable ({error!r})") from None
        if version != FORMAT:
            raise StoreError(f"{file}: format {version}, this version reads {FORMAT}")

    @functools.cached_property
    def built(self) -> tuple[Item, ...]:
        """All questions, as they were built."""
        file = self.path / ITEMS
        try:
            return tuple(Item.from_json(stored) for stored in read_lines(file))
        except ConfigError as error:
            raise StoreError(f"{file}: {error}") from None

    @functools.cached_property
    def items(self) -> tuple[Item, ...]:
        """The questions that count: without those that people rejected, and with what they fixed."""
        decided = decisions(self.path / QUEUE)
        kept = []
        for item in self.built:
            row = decided.get(item.id)
            if row is None or row["decision"] == "accept":
                kept.append(item)
            elif row["decision"] == "fix":
                kept.append(_fixed(item, row))
        return tuple(kept)

    @functools.cached_property
    def store(self) -> daily_records.RecordStore:
        return daily_records.open_records(self.path / STORE)

    @functools.cached_property
    def cohort(self) -> CohortReference:
        return read_cohort(self.path / COHORT)

    def person(self, user: str) -> Person:
        """Raises StoreError where there is none."""
        return Person(self.store.record(user), self.cohort)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of questions, records and cohort, and of what people decided."""
        decided = {
            name: row for name, row in decisions(self.path / QUEUE).items() if row["decision"] != "accept"
        }
        parts = [
            _digest(self.path / ITEMS),
            self.store.digest,
            _digest(self.path / COHORT),
            json.dumps(decided, sort_keys=True) if decided else "",
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _digest(file: Path) -> str:
    try:
        return checksum.sha256(file)
    except OSError as error:
        raise StoreError(f"{file}: not readable ({error})") from None


def read_cohort(file: Path) -> CohortReference:
    """Raises StoreError where it cannot be read."""
    try:
        return CohortReference.from_json(json_text.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, ConfigError) as error:
        raise StoreError(f"{file}: not readable as a cohort ({error})") from None


def decisions(queue: Path) -> dict[str, dict[str, Any]]:
    """Rows of a queue on which somebody decided, by question. Raises StoreError on an unknown decision."""
    if not queue.exists():
        return {}
    found = {}
    for row in read_lines(queue):
        if row.get("decision") is None:
            continue
        if row["decision"] not in DECISIONS or not isinstance(row.get("id"), str):
            raise StoreError(
                f"{queue}: decision {row['decision']!r} of {row.get('id')!r}; known are {', '.join(DECISIONS)}"
            )
        found[row["id"]] = row
    return found


def _fixed(item: Item, row: Mapping[str, Any]) -> Item:
    stem, choices = row.get("question"), row.get("choices")
    if stem is None and choices is None:
        raise StoreError(
            f"{QUEUE}: {item.id} is to be fixed, but has neither question nor choices of its own"
        )
    if choices is not None and len(set(choices)) != len(item.choices):
        raise StoreError(f"{QUEUE}: {item.id} needs {len(item.choices)} different choices")
    return dataclasses.replace(item, stem=stem or item.stem, choices=tuple(choices or item.choices))
