"""The record of a run: metrics are fetched one step late, averaged over log intervals, and written out."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from wearjax import json_text, writing
from wearjax.errors import ConfigError, WearjaxError

Scalars = dict[str, Any]
# Of these the last value of an interval is worth more than the mean.
_NOT_AVERAGED = ("learning_rate",)


class Writer(Protocol):
    """Where scalars of a step go."""

    def write(self, step: int, split: str, scalars: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class JsonlWriter:
    """One JSON object a line, flushed at once, so that a killed run loses nothing that was logged."""

    def __init__(self, file: Path):
        self._file = file
        self._stream = open(file, "a", encoding="utf-8")  # noqa: SIM115  closed by close()

    def write(self, step: int, split: str, scalars: Mapping[str, Any]) -> None:
        with writing.told(self._file, error=WearjaxError):
            self._stream.write(json.dumps({"step": step, "split": split, **scalars}) + "\n")
            self._stream.flush()

    def close(self) -> None:
        self._stream.close()


class TensorBoardWriter:
    """Event files in `tensorboard/` of the run folder (extra `tensorboard`)."""

    def __init__(self, folder: Path):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise ConfigError(
                "loop.writers: tensorboard needs tensorboardX; install it with: pip install 'wearjax[tensorboard]'"
            ) from None
        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def write(self, step: int, split: str, scalars: Mapping[str, Any]) -> None:
        for name, value in scalars.items():
            self._writer.add_scalar(f"{split}/{name}", value, step)

    def close(self) -> None:
        self._writer.close()


class WandbWriter:
    """A Weights & Biases run named after the run folder (extra `wandb`)."""

    def __init__(self, folder: Path):
        try:
            import wandb
        except ImportError:
            raise ConfigError(
                "loop.writers: wandb needs wandb; install it with: pip install 'wearjax[wandb]'"
            ) from None
        self._run = wandb.init(
            project="wearjax", name=folder.name, dir=str(folder), id=folder.name, resume="allow"
        )

    def write(self, step: int, split: str, scalars: Mapping[str, Any]) -> None:
        self._run.log({f"{split}/{name}": value for name, value in scalars.items()}, step=step)

    def close(self) -> None:
        self._run.finish()


_OPTIONAL: dict[str, Callable[[Path], Writer]] = {"tensorboard": TensorBoardWriter, "wandb": WandbWriter}


def open_writers(names: Sequence[str], run_dir: Path) -> list[Writer]:
    """The JSONL writer and those asked for. Raises ConfigError for an unknown name or a missing extra."""
    for name in names:
        if name not in _OPTIONAL:
            raise ConfigError(f"loop.writers: no writer {name!r}; there are {', '.join(_OPTIONAL)}")
    return [*(_OPTIONAL[name](run_dir) for name in names), JsonlWriter(run_dir / "metrics.jsonl")]


def read_jsonl(file: Path) -> Iterator[Scalars]:
    """Lines of a metrics file; a last line cut short by a kill is left out. Raises WearjaxError on a damaged one."""
    if not file.exists():
        return
    for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], start=1):
        try:
            row = json_text.loads(line)
            row["step"], row["split"]
        except (ValueError, KeyError, TypeError):
            raise WearjaxError(
                f"{file}: line {number} is damaged; repair or remove it, or pass --force to start over"
            ) from None
        yield row


def cut_back(file: Path, step: int) -> None:
    """Drops what was logged after `step`, since those steps will run again."""
    kept = [row for row in read_jsonl(file) if row["step"] <= step]
    with writing.file(file) as partial:
        partial.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")


class Clock:
    """Where the time of an interval goes: steps, waiting for data, everything else left out."""

    def __init__(self, *, seconds_before: float = 0.0):
        self._origin = time.perf_counter() - seconds_before
        self.restart()

    def restart(self) -> None:
        """Begins a new interval."""
        self._start, self._waited, self._paused, self._steps = time.perf_counter(), 0.0, 0.0, 0

    @property
    def seconds(self) -> float:
        """Since the run began, over all its sessions."""
        return time.perf_counter() - self._origin

    def count_step(self) -> None:
        self._steps += 1

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time spent inside counts as waiting for data."""
        start = time.perf_counter()
        yield
        self._waited += time.perf_counter() - start

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Time spent inside, e.g. in validation, does not count into days per second."""
        start = time.perf_counter()
        yield
        self._paused += time.perf_counter() - start

    def rates(self, days_per_step: int) -> Scalars:
        """Days per second and the share of the time spent waiting for data; empty before the second step."""
        elapsed = time.perf_counter() - self._start - self._paused
        if not self._steps or elapsed <= 0:
            return {}
        return {
            "days_per_second": self._steps * days_per_step / elapsed,
            "data_wait_fraction": min(1.0, self._waited / elapsed),
        }


class Ledger:
    """Takes the metrics of every step as device arrays, fetches them one step late and logs interval means.

    Fetching step n only after step n + 1 was dispatched keeps the device busy, and still lets a loss that is
    not finite stop the run one step later.

    Args:
        run_dir: gets `nonfinite_step_<n>.json` when the loss or the gradient stops being finite.
        interval: sums carried over from a checkpoint within a log interval, see `progress`.
        on_log: called with (step, scalars) of every log line.
    """

    def __init__(
        self,
        writers: Sequence[Writer],
        *,
        run_dir: Path,
        log_every: int,
        last_step: int,
        days_per_step: int,
        clock: Clock,
        interval: Scalars | None = None,
        on_step: Callable[[int, Scalars], None] = lambda step, scalars: None,
        on_log: Callable[[int, str, Scalars], None] = lambda step, split, scalars: None,
    ):
        self._writers, self._run_dir, self._clock = writers, run_dir, clock
        self._log_every, self._last_step, self._days_per_step = log_every, last_step, days_per_step
        self._on_step, self._on_log = on_step, on_log
        self._pending: tuple[int, np.ndarray, dict[str, jax.Array]] | None = None
        interval = interval or {"count": 0, "sums": {}}
        self._count, self._sums = interval["count"], dict(interval["sums"])

    def record(self, step: int, indices: np.ndarray, metrics: dict[str, jax.Array]) -> None:
        """Notes a dispatched step, and settles the one before."""
        before, self._pending = self._pending, (step, indices, metrics)
        if before is not None:
            self._settle(*before)

    def flush(self) -> None:
        """Settles the last step: waits for the device."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self._settle(*pending)

    def progress(self) -> Scalars:
        """What a checkpoint keeps, so that a resumed interval has the same mean.

        A copy: checkpoints are written in the background, while the sums go on.
        """
        return {"interval": {"count": self._count, "sums": dict(self._sums)}, "seconds": self._clock.seconds}

    def write(self, step: int, split: str, scalars: Scalars) -> None:
        """One line to every writer."""
        for writer in self._writers:
            writer.write(step, split, scalars)
        self._on_log(step, split, scalars)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()

    def _settle(self, step: int, indices: np.ndarray, metrics: dict[str, jax.Array]) -> None:
        values = {name: float(value) for name, value in jax.device_get(metrics).items()}
        if not (math.isfinite(values["loss"]) and math.isfinite(values["grad_norm"])):
            self._stop(step, indices, values)
        self._count += 1
        for name, value in values.items():
            keep = 0.0 if name in _NOT_AVERAGED else self._sums.get(name, 0.0)
            self._sums[name] = keep + value
        self._on_step(step, values)
        if step % self._log_every == 0 or step == self._last_step:
            self._log(step)

    def _log(self, step: int) -> None:
        means = {n: v if n in _NOT_AVERAGED else v / self._count for n, v in self._sums.items()}
        timing = {**self._clock.rates(self._days_per_step), "seconds": self._clock.seconds}
        self._count, self._sums = 0, {}
        self._clock.restart()
        self.write(step, "train", means | timing)

    def _stop(self, step: int, indices: np.ndarray, values: Scalars) -> None:
        file = self._run_dir / f"nonfinite_step_{step}.json"
        rows = [int(i) for i in indices]
        file.write_text(
            json.dumps({"step": step, "metrics": {n: repr(v) for n, v in values.items()}, "index": rows})
        )
        shown = ", ".join(map(str, rows[:8])) + (", …" if len(rows) > 8 else "")
        raise WearjaxError(
            f"step {step}: loss is {values['loss']}, gradient norm {values['grad_norm']}; the batch held "
            f"examples {shown} (all in {file}). The last checkpoint is from before; lower "
            "optimizer.learning_rate or set optimizer.clip_norm"
        )
