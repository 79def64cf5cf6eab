"""The queue of questions for people to look at, and the panel of language models whose votes put questions there.

Each line of `queue.jsonl` has a question and why it is there. Who looks at it sets `decision` to `accept`, `reject` or
`fix`; for `fix` the line's `question` and `choices` are the corrected ones, the choices in the same order. What is
written there stays there, whatever else is audited later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wearjax import writing
from wearjax.benchmarks.wearableqa import dataset as datasets
from wearjax.benchmarks.wearableqa.candidate import Person
from wearjax.benchmarks.wearableqa.dataset import Dataset
from wearjax.benchmarks.wearableqa.item import LETTERS, Item, line, read_lines
from wearjax.benchmarks.wearableqa.seeds import seed_of

if TYPE_CHECKING:
    from wearjax.language.endpoint import Endpoint

SAMPLE = "drawn for people to look at"
VOTES = ("fine", "ambiguous", "leaky")
LEAST_VOTES = 2


def add(
    built: Dataset, faults: Mapping[str, Sequence[str]], *, sampled: int = 0, seed: int = 0
) -> list[dict[str, Any]]:
    """Adds questions with faults and a sample of each type; lines that are there stay. Returns all lines."""
    file = built.path / datasets.QUEUE
    rows = {row["id"]: row for row in read_lines(file)} if file.exists() else {}
    reasons = {name: list(why) for name, why in faults.items()}
    of_type: dict[str, list[Item]] = defaultdict(list)
    for item in built.built:
        of_type[item.category].append(item)
    for name, members in of_type.items():
        rng = np.random.default_rng(seed_of("queue", name, seed))
        for i in rng.permutation(len(members))[:sampled]:
            reasons.setdefault(members[i].id, [SAMPLE])
    for item in built.built:
        if item.id not in reasons:
            continue
        if item.id in rows:
            known = rows[item.id].setdefault("reasons", [])
            known += [why for why in reasons[item.id] if why not in known and why != SAMPLE]
        else:
            rows[item.id] = {
                "id": item.id,
                "category": item.category,
                "reasons": reasons[item.id],
                "question": item.stem,
                "choices": list(item.choices),
                "answer": item.answer,
                "decision": None,
                "note": "",
            }
    with writing.file(file) as partial:
        partial.write_text("".join(line(row) for row in rows.values()), encoding="utf-8")
    return list(rows.values())


def review(
    built: Dataset,
    reviewers: Sequence[Endpoint],
    *,
    context: Callable[[Item, Person], str] | None = None,
    cache: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, dict[str, int]]:
    """Lets language models vote on each question; two votes against one put it into the queue.

    Args:
        reviewers: three in WearableQA.
        context: what a reviewer sees besides the question and its answer; nothing without.
        cache: file of answers, so that an interrupted review goes on.
        progress: called with (votes, votes in all).

    Returns:
        Of each question the votes, by kind; `none` counts replies that could not be read.
    """
    from wearjax.language import parsing
    from wearjax.language.endpoint import Client

    votes: dict[str, dict[str, int]] = {item.id: dict.fromkeys((*VOTES, "none"), 0) for item in built.items}
    total, before = len(reviewers) * len(built.items), 0
    for endpoint in reviewers:
        with Client(endpoint, cache=cache) as client:
            client.check()

            def ask(item: Item, client: Client = client) -> int | None:
                shown = "" if context is None else context(item, built.person(item.user_id))
                reply = client.chat([{"role": "user", "content": prompt(item, shown)}])
                return None if reply.error is not None else parsing.label(reply.text, VOTES)

            def step(done: int, _: int, before: int = before) -> None:
                if progress:
                    progress(before + done, total)

            for item, vote in zip(built.items, client.map(ask, built.items, progress=step), strict=True):
                votes[item.id]["none" if vote is None else VOTES[vote]] += 1
        before += len(built.items)
    faults = {
        name: [f"{count['ambiguous']} reviewers find it ambiguous, {count['leaky']} leaky"]
        for name, count in votes.items()
        if count["ambiguous"] + count["leaky"] >= LEAST_VOTES
    }
    add(built, faults)
    return votes


def prompt(item: Item, context: str = "") -> str:
    """What a reviewer is asked."""
    options = "\n".join(f"{letter}) {text}" for letter, text in zip(LETTERS, item.choices, strict=True))
    return "\n\n".join(
        part
        for part in (
            "You review a multiple-choice question about daily wearable records. Readers get a person's profile and "
            "daily values, and have to compute the answer from them. The intended answer is marked below.",
            context,
            f"Question: {item.stem}\n\n{options}\n\nIntended answer: {item.answer}",
            "Is the question fine; or ambiguous, because its words allow another option or do not say how to compute "
            "the answer; or leaky, because its words or options give the answer away without the data?\n"
            "Close with one line: Answer: fine, Answer: ambiguous, or Answer: leaky.",
        )
        if part
    )
