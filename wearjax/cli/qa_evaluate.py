"""Verbs that put questions about daily records to a model: write the prompts, ask and score, compare runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from wearjax import plural
from wearjax.cli import options
from wearjax.cli.output import Bar, Force, PathArgument, console, going_on, show
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
    n = len(found.items)
    console.print(f"{n:,} {plural.noun(n, 'prompt')}: {file.resolve()}", soft_wrap=True)


def evaluate(
    data: PathArgument,
    *,
    out: Path,
    llm_url: str | None = None,
    llm_model: str | None = None,
    llm_key_env: options.KeyVariable = None,
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
    baselines: tuple[Baseline, ...] | None = None,
    bootstrap: int = 1000,
    seed: int = 42,
    force: Force = False,
) -> None:
    """Ask a language model WearableQA questions and score its answers; or, without an endpoint, score --baselines.

    Interrupted, the same command goes on where it stopped; finished, it shows the scores again.
    Without a language model: wearjax qa evaluate QUESTIONS --out RUN --baselines solver random majority

    Args:
        data: folder of questions that `wearjax qa build` made.
        out: run folder for answers, scores and the report.
        llm_url: OpenAI-compatible endpoint, up to and without /chat/completions; records are sent there, with dates
            and profile, without user ids.
        llm_model: name of the model there.
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
        baselines: answers without a language model, beside it (default: random majority) or, without an endpoint,
            alone, the first as if it were the model; solver computes them and should be right always.
        bootstrap: resamples of the users for intervals of differences.
        seed: of the resamples and of random letters.
    """
    from wearjax.benchmarks.wearableqa import evaluate as qa
    from wearjax.language.endpoint import Endpoint
    from wearjax.language.questions_run import Agent
    from wearjax.report import qa_page

    asked: dict[str, Any] = {
        "output_dir": out, "types": types, "max_items": max_items, "bootstrap": bootstrap, "seed": seed, "force": force,
    }  # fmt: skip
    if not llm_url or not llm_model:
        if llm_url or llm_model or baselines is None:
            raise ConfigError(
                "qa evaluate: needs --llm-url (http://HOST:PORT/v1) and --llm-model, or --baselines alone"
            )
        # None named behind the option: those that stand beside an endpoint.
        return show(
            qa.evaluate_baselines(data, baselines or qa.CHEAP, **asked).summary(), lambda: qa_page.write(out)
        )
    endpoint = Endpoint(
        llm_url, llm_model, api_key_env=llm_key_env, max_tokens=llm_max_tokens, timeout_s=llm_timeout,
        retries=llm_retries, concurrency=llm_concurrency,
    )  # fmt: skip
    with going_on(out), Bar("Asking") as progress:
        found = qa.evaluate(
            data, endpoint, form=format, mode=mode, removed=remove,
            with_baselines=qa.CHEAP if baselines is None else baselines, agent=Agent(offer_tool=offer_tool),
            progress=progress, **asked,
        )  # fmt: skip
    if found.overall.failed == found.overall.n:
        raise EndpointError(f"{llm_url}: no question got a reply, the first for: {found.first_failure}")
    return show(found.summary(), lambda: qa_page.write(out))


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
    found = comparison.compare([results.read(run) for run in runs])
    if file.exists() and not force and not result_files.holds(file, found.content()):
        raise ConfigError(f"{file} compares other runs, or other results of them; pass --force to replace it")
    out.mkdir(parents=True, exist_ok=True)
    result_files.write_json(file, found.content())
    show(found.summary(), lambda: qa_page.write(runs, out, overwrite=force))
