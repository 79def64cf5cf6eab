"""Verbs that put questions about daily records to a model: write the prompts, ask and score, compare runs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from wearjax.cli.output import Bar, Force, PathArgument, console, only_page_missing
from wearjax.errors import ConfigError
from wearjax.language.answers import EndpointError
from wearjax.language.question_prompt import Form, Mode, Removed

Baseline = Literal["random", "majority", "options_only", "solver"]


def render(
    data: PathArgument,
    *,
    out: Path,
    format: Form = "row",
    mode: Mode = "cot",
    remove: Removed = "nothing",
    force: Force = False,
) -> None:
    """Write the prompts of WearableQA questions, to send them elsewhere.

    Args:
        data: folder of questions that `wearjax qa build` made.
        out: folder for prompts.jsonl and its images.
        format: layout of the daily metrics.
        mode: with reasoning, the letter alone, or for an agent with Python.
        remove: days before the window, all daily metrics, or all data.
    """
    from wearjax.benchmarks.wearableqa import asking
    from wearjax.benchmarks.wearableqa.dataset import Dataset

    found = Dataset(data)
    with Bar("Writing prompts") as progress:
        file = asking.render(
            found, out, form=format, mode=mode, removed=remove, overwrite=force, progress=progress
        )
    console.print(f"{len(found.items):,} prompts: {file.resolve()}", soft_wrap=True)


def evaluate(
    data: PathArgument,
    *,
    out: Path,
    llm_url: str | None = None,
    llm_model: str | None = None,
    llm_key_env: str | None = None,
    llm_concurrency: int = 4,
    llm_max_tokens: int = 8192,
    llm_timeout: float = 300.0,
    llm_retries: int = 5,
    offer_tool: bool = False,
    format: Form = "row",
    mode: Mode = "cot",
    remove: Removed = "nothing",
    types: tuple[str, ...] = (),
    max_items: int | None = None,
    baselines: tuple[Baseline, ...] = ("random", "majority"),
    bootstrap: int = 1000,
    seed: int = 42,
    force: Force = False,
) -> None:
    """Ask a language model WearableQA questions and score its answers.

    Interrupted, the same command goes on where it stopped.

    Args:
        data: folder of questions that `wearjax qa build` made.
        out: run folder for answers, scores and the report.
        llm_url: OpenAI-compatible endpoint, up to and without /chat/completions; records are sent there, with dates
            and profile, without user ids.
        llm_model: name of the model there.
        llm_key_env: environment variable that holds the endpoint's key.
        llm_concurrency: questions at once.
        llm_max_tokens: longest answer.
        llm_timeout: longest silence in seconds.
        llm_retries: further tries of a call.
        offer_tool: agentic modes: announce Python as a tool to the endpoint.
        format: layout of the daily metrics.
        mode: with reasoning, the letter alone, or as an agent with Python on one file or on several views.
        remove: days before the window, all daily metrics, or all data, to see whether they were needed.
        types: question types (default: all).
        max_items: ask so many only.
        baselines: answers without a language model beside it; solver needs no model and should be right always.
        bootstrap: resamples of the users for intervals of differences.
        seed: of the resamples and of random letters.
    """
    from wearjax.benchmarks.wearableqa import evaluate as qa
    from wearjax.benchmarks.wearableqa import results
    from wearjax.language.endpoint import Endpoint
    from wearjax.language.questions_run import Agent
    from wearjax.report import qa_page

    if not llm_url or not llm_model:
        raise ConfigError("qa evaluate: needs --llm-url (http://HOST:PORT/v1) and --llm-model")
    if results.is_run(out) and results.read(out).finished and only_page_missing(out, force=force):
        console.print(f"Report: {qa_page.write(out).resolve()}", soft_wrap=True)
        return
    endpoint = Endpoint(
        llm_url, llm_model, api_key_env=llm_key_env, max_tokens=llm_max_tokens, timeout_s=llm_timeout,
        retries=llm_retries, concurrency=llm_concurrency,
    )  # fmt: skip
    try:
        with Bar("Asking") as progress:
            found = qa.evaluate(
                data, endpoint, output_dir=out, form=format, mode=mode, removed=remove, types=types,
                max_items=max_items, with_baselines=baselines, agent=Agent(offer_tool=offer_tool), bootstrap=bootstrap,
                seed=seed, force=force, progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        console.print(f"Answers are kept in {out}: the same command asks only the rest", soft_wrap=True)
        raise
    if found.overall.failed == found.overall.n:
        raise EndpointError(f"{llm_url}: no question got a reply, the first for: {found.first_failure}")
    console.print(found.summary(), soft_wrap=True, highlight=False)
    console.print(f"Report: {qa_page.write(out).resolve()}", soft_wrap=True)


def compare(runs: Positional[tuple[Path, ...]], *, out: Path, force: Force = False) -> None:
    """Compare WearableQA runs: formats, reasoning against the letter alone, and what removed data cost.

    Args:
        runs: folders of finished runs on one data set.
        out: folder for comparison.json and the report.
    """
    from wearjax.benchmarks import result_files
    from wearjax.benchmarks.wearableqa import comparison, results
    from wearjax.report import qa_page

    file = out / "comparison.json"
    if file.exists() and not force:
        raise ConfigError(f"{file} exists; pass --force to replace it")
    found = comparison.compare([results.read(run) for run in runs])
    out.mkdir(parents=True, exist_ok=True)
    result_files.write_json(file, found.content())
    console.print(found.summary(), soft_wrap=True, highlight=False)
    console.print(f"Report: {qa_page.write(runs, out).resolve()}", soft_wrap=True)
