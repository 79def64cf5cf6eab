"""Watches a process from outside: keeps its output in bounded memory and ends it at a limit."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from wearjax.errors import ConfigError

_TICK_S = 0.05
_DRAIN_S = 0.5  # for the last output of a run that has ended
_START_S = 60.0  # for the interpreter to start and confine itself
_STALL_S = 0.5  # a longer gap between two looks is a pause of this process, not time of the code


@dataclass(frozen=True)
class Limits:
    """What one run may use; files and folder count over all runs of a sandbox.

    Attributes:
        memory_mb: address space; more than what is resident, since libraries reserve some.
        output_chars: kept of standard output and of standard error each, half from the start and half from the end.
    """

    cpu_s: int = 20
    wall_s: float = 30.0
    memory_mb: int = 4096
    threads: int = 64
    file_mb: int = 64
    folder_mb: int = 256
    files: int = 1000
    open_files: int = 64
    output_chars: int = 8000

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise ConfigError(f"sandbox limit {name}: must be above 0, got {value}")


class Kept:
    """The start and the end of a stream, in bounded memory."""

    def __init__(self, chars: int):
        self._half = max(chars // 2, 1)
        self._head, self._tail, self._total = b"", b"", 0

    def add(self, data: bytes) -> None:
        self._total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail = (self._tail + data[room:])[-self._half :] if len(data) > room else self._tail

    @property
    def started(self) -> bool:
        return self._total > 0

    @property
    def dropped(self) -> int:
        return self._total - len(self._head) - len(self._tail)

    def text(self) -> str:
        gap = f"\n[... {self.dropped} characters left out ...]\n".encode() if self.dropped else b""
        return (self._head + gap + self._tail).decode("utf-8", "replace")


class Watched:
    """A running process: reads its output and ends it at a limit."""

    def __init__(self, process: subprocess.Popen, report: int, folder: Path, limits: Limits) -> None:
        self.stopped_by: str | None = None
        self.wall_s = 0.0  # since the code may run
        self._start_s = 0.0
        self.outputs = (Kept(limits.output_chars), Kept(limits.output_chars))
        self._told = Kept(100_000)
        self._process, self._folder, self._limits = process, folder, limits
        assert process.stdout is not None
        assert process.stderr is not None
        self._streams = {process.stdout.fileno(): self.outputs[0], process.stderr.fileno(): self.outputs[1],
                         report: self._told}  # fmt: skip

    def words(self) -> list:
        found = []
        for line in self._told.text().splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return found

    def until_end(self) -> None:
        with selectors.DefaultSelector() as selector:
            for stream in self._streams:
                selector.register(stream, selectors.EVENT_READ)
            last_look = time.monotonic()
            ended: float | None = None
            while selector.get_map():
                for key, _ in selector.select(_TICK_S):
                    data = os.read(key.fd, 65536)
                    self._streams[key.fd].add(data)
                    if not data:
                        selector.unregister(key.fd)
                now = time.monotonic()
                if ended is not None:
                    if now > ended + _DRAIN_S:
                        return  # something that escaped holds the pipes: possible under weak protection only
                elif now >= last_look + _TICK_S:
                    self.stopped_by = self._over_limit(min(now - last_look, _STALL_S))
                    last_look = now
                    if self.stopped_by or self._process.poll() is not None:
                        kill_group(self._process)
                        ended = now

    def _over_limit(self, passed_s: float) -> str | None:
        if not self._told.started:
            self._start_s += passed_s
            return "start" if self._start_s > _START_S else None
        self.wall_s += passed_s
        if self.wall_s > self._limits.wall_s:
            return "wall time"
        if _threads(self._process.pid) > self._limits.threads:
            return "threads"
        return "files" if _folder_exceeds(self._folder, self._limits) else None


def kill_group(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _threads(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("Threads:")), 0)
    except OSError:
        return 0


def _folder_exceeds(folder: Path, limits: Limits) -> bool:
    count = size = 0
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if count > limits.files or size > limits.folder_mb << 20:
                        return True
        except FileNotFoundError:  # removed between two looks
            continue
        except OSError:  # a path too long to follow
            return True
    return False
