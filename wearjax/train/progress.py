"""What a person sees of a run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from wearjax.train.metrics import Scalars


class Display:
    """Shows steps and log lines; use as a context manager."""

    def __init__(self, console: Console, *, start: int, steps: int, name: str = "days"):
        self._console, self._steps, self._name = console, steps, name
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                TextColumn("{task.fields[loss]}"), console=console, transient=True,
            )  # fmt: skip
            self._task: Any = self._bar.add_task("training", total=steps, completed=start, loss="")

    def __enter__(self) -> Display:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        if self._bar:
            self._bar.stop()

    def step(self, step: int, scalars: Scalars) -> None:
        if self._bar:
            self._bar.update(self._task, completed=step, loss=f"loss {scalars['loss']:.4f}")

    def line(self, step: int, split: str, scalars: Scalars) -> None:
        """One log line."""
        say(self._console, f"step {step}/{self._steps}  {_describe(split, scalars, self._name)}")


def _describe(split: str, scalars: Scalars, name: str) -> str:
    if split == "validation":
        return f"validation loss {scalars['loss']:.4f} ({scalars['examples']} {name})"
    parts = [f"loss {scalars['loss']:.4f}", f"learning rate {scalars['learning_rate']:.2e}"]
    parts.append(f"gradient {scalars['grad_norm']:.3g}")
    if "days_per_second" in scalars:
        parts.append(f"{scalars['days_per_second']:.1f} days/s")
        parts.append(f"waiting for data {100 * scalars['data_wait_fraction']:.0f} %")
    return "  ".join(parts)


def say(console: Console, text: str) -> None:
    """A plain line: no markup, no wrapping, no colours for numbers."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
