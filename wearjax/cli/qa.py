"""Verbs that make questions about daily records, and audit them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.progress import Progress
from tyro.conf import Positional

from wearjax import plural
from wearjax.cli.output import Bar, Force, Lines, PathArgument, console
from wearjax.errors import ConfigError, WearjaxError

if TYPE_CHECKING:
    from wearjax.benchmarks.wearableqa.dataset import Dataset


def build(
    path: Positional[Path | None] = None,
    *,
    out: Path,
    synthetic: int | None = None,
    days: int | None = None,
    seed: int = 0,
    items: int = 4084,
    types: tuple[str, ...] = (),
    units: Annotated[tuple[str, ...], tyro.conf.arg(metavar="METRIC=UNIT")] = (),
    unbalanced: bool = False,
    jobs: int | None = None,
    force: Force = False,
) -> None:
    """Make WearableQA questions out of daily records, and audit them.

    Interrupted, the same command goes on where it stopped. Exits with 1 when an audit fails.

    Args:
        path: store of daily records, wide table (a file, or a folder with daily.csv), LifeSnaps table, or day store.
        out: the folder to write.
        synthetic: invent this many people instead.
        days: days of each invented person (default: 500), or the latest of each person to use (default: all).
        seed: same seed, same bytes.
        items: questions wanted in all, were there enough.
        types: question types (default: all sixteen).
        units: of a wide table's columns, e.g. sleep_duration=min.
        unbalanced: keep questions whose options are right too often or too seldom.
        jobs: processes (default: one a core).
    """
    from wearjax.benchmarks.wearableqa import build as builds
    from wearjax.benchmarks.wearableqa import origin
    from wearjax.benchmarks.wearableqa.dataset import AUDIT

    if (path is None) == (synthetic is None):
        raise ConfigError("expected either a path or --synthetic N")
    if path is not None:
        source = origin.at(path, days=days, units=_units(units))
    elif units:
        raise ConfigError("--units: only with a path")
    else:
        source = origin.synthetic(synthetic or 0, days=500 if days is None else days, seed=seed)
    options = builds.Options(types=types, items=items, seed=seed, balanced=not unbalanced)
    unaudited = None if force or (out / AUDIT).exists() else builds.finished(source, out, options)
    with _Bars() as bars:
        try:
            made = unaudited or builds.build(
                source, out, options, jobs=jobs, force=force, reading=bars.reading, progress=bars.judging
            )
        except KeyboardInterrupt:
            console.print(
                f"What is complete is kept in {out}: the same command goes on from there", soft_wrap=True
            )
            raise
    _print_build(made)
    audit(out)


def audit(
    path: PathArgument,
    *,
    seed: int = 0,
    reviewer_url: str | None = None,
    reviewer_model: tuple[str, ...] = (),
    reviewer_key_env: str | None = None,
) -> None:
    """Look for shortcuts, answers that cannot be made again, and forbidden wording in questions; exits 1 on any.

    Args:
        path: folder of questions.
        seed: of the sample that people are asked to look at.
        reviewer_url: OpenAI-compatible endpoint of language models that review each question.
        reviewer_model: names of the reviewers there, three for a majority of two.
        reviewer_key_env: environment variable that holds the endpoint's key.
    """
    from wearjax.benchmarks.wearableqa import audit_queue, audits
    from wearjax.benchmarks.wearableqa.dataset import QUEUE, REVIEWS, Dataset

    if bool(reviewer_url) != bool(reviewer_model):
        raise ConfigError("--reviewer-url and --reviewer-model belong together")
    made = Dataset(path)
    with Bar("Auditing") as progress:
        found = audits.run(made, seed=seed, progress=progress)
    console.print(audits.to_text(found), soft_wrap=True, highlight=False, markup=False)
    if reviewer_url:
        from wearjax.language.endpoint import Endpoint

        reviewers = [Endpoint(reviewer_url, model, api_key_env=reviewer_key_env) for model in reviewer_model]
        with Bar("Reviewing") as progress:
            votes = audit_queue.review(made, reviewers, cache=path / REVIEWS, progress=progress)
        against = sum(v["ambiguous"] + v["leaky"] >= audit_queue.LEAST_VOTES for v in votes.values())
        unread = sum(v["none"] for v in votes.values())
        console.print(
            f"Reviewers: {against} of {len(votes)} {plural.noun(len(votes), 'question')} for people to look at; "
            f"{unread} {plural.noun(unread, 'vote')} not readable"
        )
    console.print(f"For people to look at: {path / QUEUE}", soft_wrap=True)
    bad = audits.failed(found)
    if bad:
        first = bad[0]
        judged = sum(finding.passed is not None for finding in found)
        raise WearjaxError(
            f"{path}: {len(bad)} of {judged} audits failed, the first: {first.audit} ({first.type}). The questions are "
            "complete; what failed can be guessed without the record, or is too few to judge"
        )


class _Bars:
    """People read, then people judged."""

    def __init__(self) -> None:
        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._tasks = {"Reading": self._progress.add_task("Reading", total=None)}
        self._lines = {"Reading": Lines("Reading"), "Judging": Lines("Judging")}

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_) -> None:
        self._progress.stop()

    def reading(self, done: int, total: int) -> None:
        self._update("Reading", done, total)

    def judging(self, done: int, total: int) -> None:
        self._update("Judging", done, total)

    def _update(self, what: str, done: int, total: int) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total)
        self._progress.update(self._tasks[what], completed=done, total=total or None)
        self._lines[what](done, total)


def _print_build(made: Dataset) -> None:
    from wearjax.benchmarks.wearableqa import build as builds

    meta = made.meta
    people, items = plural.noun(meta["people"], "person", "people"), plural.noun(meta["items"], "question")
    console.print(f"{meta['asked']} of {meta['people']} {people} asked about, {meta['items']} {items}")
    console.print(builds.yields_of(made).to_text(), soft_wrap=True, highlight=False)
    console.print(builds.assembly_text(made), soft_wrap=True, highlight=False, markup=False)
    if meta["lacking"]:
        console.print(f"Nobody of the records has: {', '.join(meta['lacking'])}", soft_wrap=True)
    for name, why in meta["absent"].items():
        console.print(f"No {name}: {why}", soft_wrap=True, highlight=False)
    open_ = meta["unreviewed"]
    if open_["markers"]:
        console.print(f"Not reviewed by a clinician: limits of {', '.join(open_['markers'])}", soft_wrap=True)
    if open_["relations"]:
        console.print(
            f"Not verified in the literature: {', '.join(open_['relations'])}; "
            f"questions that rest on them: {open_['items_on_unverified_relations']}",
            soft_wrap=True,
        )


def _units(given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        metric, equals, unit = text.partition("=")
        if not equals:
            raise ConfigError(f"--units {text}: expected METRIC=UNIT")
        found[metric] = unit
    return found
