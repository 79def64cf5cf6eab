"""Puts the questions of a data set to a model and scores what it answers."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from wearjax.benchmarks import earlier
from wearjax.benchmarks.wearableqa import analysis, asking, baselines, registry, results
from wearjax.benchmarks.wearableqa.dataset import Dataset
from wearjax.benchmarks.wearableqa.item import Item
from wearjax.benchmarks.wearableqa.results import QAResults
from wearjax.benchmarks.wearableqa.seeds import seed_of
from wearjax.errors import ConfigError
from wearjax.language import question_prompt, questions_run
from wearjax.language.endpoint import Client, Endpoint
from wearjax.language.question_prompt import Form, Mode, Removed
from wearjax.language.questions_run import Agent, Completer

Progress = Callable[[int, int], None]
ANSWERS, RESPONSES = "answers.jsonl", "responses.jsonl"
CHEAP = ("random", "majority")  # baselines that need neither records nor a fit
_BASIS = (
    "model",
    "parameters",
    "format",
    "mode",
    "removed",
    "prompts",
    "agent",
    "dataset",
)  # of every answer
_DECIDING = (*_BASIS, "types", "max_items")  # what is asked, and how


def evaluate(
    data: Dataset | str | os.PathLike,
    model: Endpoint | Completer,
    *,
    output_dir: str | os.PathLike,
    name: str | None = None,
    form: Form = "row",
    mode: Mode = "cot",
    removed: Removed = "nothing",
    types: Sequence[str] = (),
    max_items: int | None = None,
    with_baselines: Sequence[str] = CHEAP,
    agent: Agent | None = None,
    bootstrap: int = analysis.DRAWS,
    seed: int = 42,
    force: bool = False,
    progress: Progress | None = None,
) -> QAResults:
    """Accuracy of a model on the questions; interrupted, the same call goes on where it stopped; finished, it
    reads the results.

    `responses.jsonl` (and, of an endpoint, every call in `answers.jsonl`) is written while the run goes on, then
    `scores.parquet` and `results.json`. Questions that got no reply count as wrong and are asked again by the same
    call. Records are sent with their dates and without user ids.

    Args:
        data: folder of questions.
        model: an endpoint, or anything with `complete(prompt, images)`; only an endpoint can be used as an agent.
        name: of a model that is no endpoint.
        form: how the records are shown, see `question_prompt`.
        mode: how the model is asked, see `question_prompt`.
        removed: what is taken out of the records, see `question_prompt`.
        types: question types to ask; all where empty.
        max_items: ask this many only, chosen by a hash of their ids.
        with_baselines: names of `baselines`.
        agent: of the agentic modes.
        force: replace what is finished of another run (answers of the model are kept and reused).

    Raises:
        ConfigError: an unknown format, mode, type or baseline, no question left, an endpoint that cannot be called, or
            finished results of another run; the message names what differs. StoreError: the questions cannot be read.
        EndpointError: ten questions in a row got no reply.
    """
    question_prompt.check(form, mode, removed)
    found = data if isinstance(data, Dataset) else Dataset(data)
    folder = Path(output_dir)
    items = chosen(found.items, types, max_items)
    options = agent or Agent()
    config = _config(found, model, name, form, mode, removed, options, bootstrap, seed)
    config["types"], config["max_items"] = sorted(types), max_items
    if not force and (before := _finished(folder, config, with_baselines)) is not None:
        return before
    by_id = {item.id: item for item in items}
    basis = _basis(config)

    def build(item_id: str) -> question_prompt.Prompt:
        item = by_id[item_id]
        person = found.person(item.user_id)
        return asking.prompt(item, person, form=form, mode=mode, removed=removed, runs=options.runs)

    answerer = Client(model, cache=folder / ANSWERS) if isinstance(model, Endpoint) else model
    try:
        if isinstance(answerer, Client):
            answerer.check()
        responses = questions_run.ask(
            list(by_id),
            build,
            answerer,
            kept=folder / RESPONSES,
            key=lambda item_id: _key(basis, by_id[item_id]),
            agent_options=options,
            progress=progress,
        )
    finally:
        if isinstance(answerer, Client):
            answerer.close()
    answers = [
        analysis.answer(item, response.letter, failed=response.error is not None)
        for item, response in zip(items, responses, strict=True)
    ]
    done = results.of_answers(
        answers,
        config=config,
        counts=_counts(responses, answerer),
        responses=responses,
        baselines=baseline_answers(found, items, with_baselines, seed=seed),
        draws=bootstrap,
        seed=seed,
    )
    done.save(folder)
    return done


def _finished(folder: Path, config: dict[str, Any], with_baselines: Sequence[str]) -> QAResults | None:
    """The results of the same run, None where there are none or their scores are to be made in another way.

    Raises:
        ConfigError: finished results of another run or another benchmark. StoreError: results that cannot be read.
    """
    earlier.check_kind(folder, "benchmark", results.BENCHMARK)
    if not results.is_run(folder):
        return None
    before = results.read(folder)
    if not before.finished:
        return None
    earlier.refuse_other(folder, before.config, config, _DECIDING)
    same = all(before.config.get(name) == config[name] for name in ("bootstrap", "seed"))
    return before if same and set(before.baselines) == set(with_baselines) else None


def baseline_answers(
    data: Dataset, items: Sequence[Item], names: Sequence[str], *, seed: int = 0
) -> dict[str, Sequence[analysis.Answer]]:
    """What baselines answer; those that learn from other users are left out where there is only one user."""
    out: dict[str, Sequence[analysis.Answer]] = {}
    for name in names:
        if name == "majority" and len({item.user_id for item in items}) < 2:
            continue
        letters = baselines.letters(name, items, data.person, seed=seed)
        out[name] = [analysis.answer(item, letter) for item, letter in zip(items, letters, strict=True)]
    return out


def evaluate_baselines(
    data: Dataset | str | os.PathLike,
    names: Sequence[str],
    *,
    output_dir: str | os.PathLike | None = None,
    types: Sequence[str] = (),
    max_items: int | None = None,
    bootstrap: int = analysis.DRAWS,
    seed: int = 42,
    force: bool = False,
) -> QAResults:
    """Accuracy of baselines alone: the first one's as a model's, the others beside it. Raises as `evaluate`."""
    found = data if isinstance(data, Dataset) else Dataset(data)
    items = chosen(found.items, types, max_items)
    answers = baseline_answers(found, items, names, seed=seed)
    if not answers:
        raise ConfigError("baselines: none named, or only the majority, which needs two users")
    first = next(iter(answers))
    config = _of_data(found) | {
        "model": first, "format": "none", "mode": "baseline", "removed": "nothing", "bootstrap": bootstrap,
        "seed": seed, "types": sorted(types), "max_items": max_items,
    }  # fmt: skip
    if output_dir is not None and not force:
        _finished(Path(output_dir), config, ())
    done = results.of_answers(
        answers.pop(first), config=config, counts={"questions": len(items)}, baselines=answers, draws=bootstrap,
        seed=seed,
    )  # fmt: skip
    if output_dir is not None:
        done.save(output_dir)
    return done


def chosen(items: Sequence[Item], types: Sequence[str] = (), max_items: int | None = None) -> list[Item]:
    """Items of the given types, at most so many, in the order of the data set.

    Raises:
        ConfigError: an unknown type, an impossible number, or nothing is left.
    """
    unknown = [name for name in types if name not in registry.NAMES]
    if unknown:
        raise ConfigError(f"question type {unknown[0]!r}: known are {', '.join(registry.NAMES)}")
    if max_items is not None and max_items < 1:
        raise ConfigError(f"max_items: must be at least 1, got {max_items}")
    kept = [item for item in items if not types or item.category in types]
    if max_items is not None and len(kept) > max_items:
        drawn = sorted(kept, key=lambda item: seed_of("some questions", item.id))[:max_items]
        names = {item.id for item in drawn}
        kept = [item for item in kept if item.id in names]
    if not kept:
        raise ConfigError("no question is left to ask" + (f" of {', '.join(types)}" if types else ""))
    return kept


def _config(
    data: Dataset,
    model: Endpoint | Completer,
    name: str | None,
    form: str,
    mode: str,
    removed: str,
    agent: Agent,
    bootstrap: int,
    seed: int,
) -> dict[str, Any]:
    if isinstance(model, Endpoint):
        asked: dict[str, Any] = {"model": model.model, "parameters": model.parameters()}
    else:
        asked = {"model": name or getattr(model, "name", type(model).__name__), "parameters": {}}
    agentic = {}
    if mode.startswith("agentic"):
        agentic = {
            "agent": {"runs": agent.runs, "offer_tool": agent.offer_tool, "limits": vars(agent.limits)}
        }
    how = {"format": form, "mode": mode, "removed": removed, "prompts": question_prompt.VERSION}
    return asked | how | agentic | _of_data(data) | {"bootstrap": bootstrap, "seed": seed}


def _of_data(data: Dataset) -> dict[str, Any]:
    meta = data.meta
    return {
        "dataset": {
            "digest": data.digest,
            "generator": meta.get("generator"),
            "store_digest": meta.get("store_digest"),
            "request": meta.get("request"),
            "yields": meta.get("yields"),
        },
        "versions": {"wearjax": metadata.version("wearjax")},
    }


def _basis(config: dict[str, Any]) -> str:
    """What decides every answer of a run alike."""
    return json.dumps({name: config.get(name) for name in _BASIS}, sort_keys=True, default=str)


def _key(basis: str, item: Item) -> str:
    return hashlib.sha256(f"{item.id}\n{basis}".encode()).hexdigest()


def _counts(responses: Sequence[questions_run.Response], answerer: Client | Completer) -> dict[str, Any]:
    outcomes = [response.outcome for response in responses]
    counts: dict[str, Any] = {
        "questions": len(responses),
        "parsed": outcomes.count("parsed"),
        "unparsed": outcomes.count("unparsed"),
        "failed": outcomes.count("failed"),
        "cut_off": sum(response.cut_off for response in responses),
        "prompt_tokens": sum(response.prompt_tokens for response in responses),
        "completion_tokens": sum(response.completion_tokens for response in responses),
        "programs": sum(response.runs for response in responses),
        "refused_by_sandbox": sum(bool(response.attempts) for response in responses),
    }
    if isinstance(answerer, Client):
        counts["last_run"] = dataclasses.asdict(answerer.usage)
    return counts
