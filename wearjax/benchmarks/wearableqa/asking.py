"""What a question of the data set shows: from item and record to a prompt, and prompts as files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wearjax import writing
from wearjax.benchmarks.wearableqa import windows
from wearjax.benchmarks.wearableqa.candidate import Person
from wearjax.benchmarks.wearableqa.dataset import Dataset
from wearjax.benchmarks.wearableqa.item import Item, line
from wearjax.errors import ConfigError, StoreError
from wearjax.language import question_prompt, record_text
from wearjax.language.question_prompt import Form, Mode, Prompt, Question, Removed

PROMPTS, IMAGES = "prompts.jsonl", "images"


def question(item: Item, person: Person) -> Question:
    """All that the item lets its prompt show of the person."""
    hidden = item.hidden
    table = None
    if not hidden.series:
        table = record_text.table(
            person.record,
            item.end,
            window=item.window_size,
            history=0 if hidden.history else windows.HISTORY,
            hidden=hidden.metrics,
            hidden_in_window=hidden.window_metrics,
        )
    return Question(
        stem=item.stem,
        choices=item.choices,
        table=table,
        demographics=person.record.demographics,
        blood={} if hidden.blood else person.blood(item.end),
        cohort={} if hidden.cohort else person.cohort.percentiles,
        window=item.window_size,
    )


def prompt(
    item: Item,
    person: Person,
    *,
    form: Form = "row",
    mode: Mode = "cot",
    removed: Removed = "nothing",
    runs: int = 12,
) -> Prompt:
    """What is sent about an item.

    Args:
        removed: what is taken out beside what the item hides, to see whether it was needed.
        runs: programs that an agent may run.
    """
    shown = question_prompt.without(question(item, person), removed)
    return question_prompt.build(shown, form=form, mode=mode, runs=runs)


def render(
    data: Dataset,
    out: str | os.PathLike,
    *,
    form: Form = "row",
    mode: Mode = "cot",
    removed: Removed = "nothing",
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Writes `prompts.jsonl`, a line a question, and the figures in `images/`; returns the file.

    A line has the fields of the public records (id, question, choices, answer, category, reasoning_group, signal,
    grounding, representation), the prompt, and the names of its images and files. The file appears when it is whole.

    Raises:
        ConfigError: an unknown format or mode.
        StoreError: prompts are already there.
    """
    question_prompt.check(form, mode, removed)
    folder = Path(out)
    file = folder / PROMPTS
    if file.exists() and not overwrite:
        raise StoreError(f"{file} exists; pass --force (overwrite=True) to replace it")
    items = data.items  # read before anything is written
    with writing.file(file) as partial, partial.open("w", encoding="utf-8") as lines:
        for done, item in enumerate(items, 1):
            made = prompt(item, data.person(item.user_id), form=form, mode=mode, removed=removed)
            lines.write(line(_row(item, made, folder, form, mode, removed)))
            if progress:
                progress(done, len(items))
    return file


def _row(item: Item, made: Prompt, folder: Path, form: str, mode: str, removed: str) -> dict[str, Any]:
    names = []
    for i, image in enumerate(made.images):
        name = f"{IMAGES}/{item.id}-{i}.png"
        if Path(item.id).name != item.id:
            raise ConfigError(f"item {item.id!r}: its id cannot name a file")
        (folder / IMAGES).mkdir(exist_ok=True)
        (folder / name).write_bytes(image)
        names.append(name)
    return {
        "id": item.id,
        "question": item.stem,
        "choices": list(item.choices),
        "answer": item.answer,
        "category": item.category,
        "reasoning_group": item.reasoning_group,
        "signal": item.signal,
        "grounding": item.grounding,
        "representation": form,
        "mode": mode,
        "removed": removed,
        "prompt": made.text,
        "images": names,
        "files": dict(made.files),
    }
