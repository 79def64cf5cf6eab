"""What every verb prints with: the console, tables, progress bars, and the argument types they share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
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
        if self._console.is_terminal or time.monotonic() - self._said_s < SECONDS_A_LINE:
            return
        self._said_s = time.monotonic()
        self._console.print(f"{self._title}: {done} of {total}{' ' + what if what else ''}", markup=False)


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
        self._lines(done, total)

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


def print_rows(title: str, rows: Sequence[dict]) -> None:
    """One table; the keys of the first row are its head."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(rows[0] if rows else ()):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*(str(cell) for cell in row.values()))
    console.print(table)
