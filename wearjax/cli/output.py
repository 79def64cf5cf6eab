"""What every verb prints with: the console, tables, progress bars, and the argument types they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tyro.conf import Positional

console = Console()
PathArgument = Positional[Path]
Force = Annotated[bool, tyro.conf.arg(help="Replace what is already there.")]


class Bar:
    """A progress bar that learns its total with the first step."""

    def __init__(self, title: str):
        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(title, total=None)

    def __enter__(self) -> Callable[[int, int], None]:
        self._progress.start()
        return lambda done, total: self._progress.update(self._task, completed=done, total=total)

    def __exit__(self, *_) -> None:
        self._progress.stop()


def print_rows(title: str, rows: Sequence[dict]) -> None:
    """One table; the keys of the first row are its head."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(rows[0] if rows else ()):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*(str(cell) for cell in row.values()))
    console.print(table)
