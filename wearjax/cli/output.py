"""What every verb prints with: the console, tables, progress bars, and the argument types they share."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text
from tyro.conf import Positional

console = Console()
PathArgument = Positional[Path]
SECONDS_A_LINE = 20
Force = Annotated[bool, tyro.conf.arg(help="Replace what is already there.")]


class Lines:
    """Progress of long work for logs: where standard error is no terminal, a line now and then."""

    def __init__(self, title: str):
        self._title, self._said_s = title, time.monotonic()
        self._console = Console(stderr=True, soft_wrap=True, highlight=False)

    def __call__(self, done: int, total: int, what: str = "") -> None:
        self._say(f"{done} of {total}{' ' + what if what else ''}")

    def share(self, done: int, total: int) -> None:
        """The same where the unit says nothing to a person."""
        self._say(f"{100 * done // max(total, 1)} %")

    def _say(self, text: str) -> None:
        if self._console.is_terminal or time.monotonic() - self._said_s < SECONDS_A_LINE:
            return
        self._said_s = time.monotonic()
        self._console.print(f"{self._title}: {text}", markup=False)


class Bar:
    """A progress bar that learns its total with the first step."""

    def __init__(self, title: str):
        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(title, total=None)
        self._lines = Lines(title)

    def __enter__(self) -> Callable[[int, int], None]:
        self._progress.start()
        return self._update

    def _update(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)
        self._lines.share(done, total)  # readers count bytes, rows or days

    def __exit__(self, *_) -> None:
        self._progress.stop()


@contextmanager
def going_on(out: Path) -> Iterator[None]:
    """Says after Ctrl-C what the same command will do."""
    try:
        yield
    except KeyboardInterrupt:
        console.print(
            f"What is complete is kept in {out}: the same command goes on from there", soft_wrap=True
        )
        raise


def show(summary: str, write_page: Callable[[], Path]) -> None:
    """The last words of an evaluation: its tables, then where its page lies."""
    console.print(summary, soft_wrap=True, highlight=False)
    console.print(f"Report: {write_page().resolve()}", soft_wrap=True)


def say_devices() -> None:
    """Tells what JAX computes on, in one process of several."""
    from wearjax.train import devices

    told = devices.lines()  # first, for it has words for a platform that is absent
    for line in told if devices.is_lead() else ():
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def print_rows(title: str, rows: Sequence[dict], *, words: Sequence[str] = ()) -> None:
    """One table; the keys of the first row are its head, `words` columns of text among numbers.

    Where a terminal is too narrow for the table, each row is a line of its own. Without rows, nothing.
    """
    if not rows:
        return
    if _width_needed(rows) > console.width:
        return _print_lines(title, rows)
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(rows[0]):
        table.add_column(name, justify="left" if i == 0 or name in words else "right")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row.values()))
    console.print(table)


def _width_needed(rows: Sequence[dict]) -> int:
    """Characters of the table when every cell breaks at its spaces only."""
    columns = zip(rows[0], *(row.values() for row in rows), strict=False)
    return 1 + sum(
        3 + max(len(word) for cell in column for word in str(cell).split() or [""]) for column in columns
    )


def _print_lines(title: str, rows: Sequence[dict]) -> None:
    console.print(Text(title, style="italic"))
    for row in rows:
        first, *more = row.items()
        said = ", ".join(f"{name} {cell}" for name, cell in more if str(cell) != "")
        console.print(Text(f"{first[1]}: {said}" if said else str(first[1])))


def with_options(text: str, verb: Callable) -> str:
    """A message of the library as a person at the terminal knows it: its arguments are the verb's options.

    `include_third_party` becomes `--include-third-party`, `keep_partial=True` `--keep-partial`, and `zone='x'`,
    `zone is needed` and `apps: …` name theirs likewise.
    """
    for parameter in inspect.signature(verb).parameters.values():
        if parameter.kind is not parameter.KEYWORD_ONLY:
            continue
        name, flag = parameter.name, "--" + parameter.name.replace("_", "-")
        alone = rf"(?<![\w./\\'\"-]){name}"
        text = re.sub(rf"option '{name}'", f"option {flag}", text)
        text = re.sub(rf"{alone}=True\b(?: \({flag}\))?", flag, text)
        text = re.sub(rf"{alone}=(?=[^\s,)])", f"{flag} ", text)
        text = re.sub(rf"{alone}(?= is needed\b)", flag, text)
        if "Path" not in str(parameter.annotation):  # `days: …` may be a folder
            text = re.sub(rf"(?:(?<=^)|(?<=: )){name}(?=: )", flag, text)
        if "_" in name:
            text = re.sub(rf"{alone}(?![\w/\\'\"=-]|\.\w)", flag, text)
    return text
