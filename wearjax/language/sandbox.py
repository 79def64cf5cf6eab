"""Runs Python written by a language model in a confined process of its own.

On Linux (x86_64, aarch64) with landlock, the kernel enforces, whatever the code does:

- network: no socket but a pair within the process (seccomp); where the machine allows namespaces, no network
  device either, as a second wall;
- files: written and removed in the sandbox's own folder only, read there, in the Python installation and in the
  system's libraries only (landlock); no change of modes, owners, times or attributes anywhere (seccomp).
  Existence, size and date of other files stay visible through `stat`; their content does not;
- processes: none can be started, signalled or inspected (seccomp, no capabilities), so a fork bomb ends at its
  first fork, and nothing outlives the run; threads are counted from outside;
- processor time, address space, size of a file, open files: resource limits;
- wall time, number of files, size of the folder, number of threads: watched from outside every 50 ms and ended
  by killing the process group. Between two looks these may be exceeded by what one process does in that time.

It does not protect against faults of the kernel itself, nor against exhausting shared memory bandwidth or disk
throughput. Where landlock or seccomp is missing (macOS, old kernels, some containers) a strict sandbox refuses to
run; with `strict=False` what is left are the resource limits and checks inside Python, which hold against
mistakes and not against intent. `Outcome.protection` says which is in force.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wearjax.errors import ConfigError
from wearjax.language import process_watch
from wearjax.language.process_watch import Limits, Watched

_CONFINE = Path(__file__).with_name("confine.py")
_SYSTEM = (
    "/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/usr/share/zoneinfo", "/usr/share/fonts",
    "/etc/ld.so.cache", "/etc/localtime", "/etc/fonts", "/dev/urandom", "/dev/zero", "/sys/devices/system/cpu",
    "/proc/cpuinfo", "/proc/meminfo",
)  # fmt: skip
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Protection:
    """What holds the code: by the kernel, or by checks inside Python only."""

    network: str
    files: str
    processes: str

    @property
    def by_kernel(self) -> bool:
        return "Python" not in self.network + self.files + self.processes


@dataclass(frozen=True)
class Outcome:
    """What a run printed, and how it ended.

    Attributes:
        exit_code: of the process; negative is the signal that ended it.
        stopped_by: the limit that ended the run: `wall time`, `processor time`, `memory`, `threads`, `files`;
            None where the code ended by itself (also with an exception).
        attempts: what was tried and refused, in order, each once: `network`, `process`, `write outside`. Code
            that goes around Python (ctypes) is refused by the kernel all the same but not listed.
        dropped_chars: output beyond the limit, not kept.
    """

    stdout: str
    stderr: str
    exit_code: int
    stopped_by: str | None
    attempts: tuple[str, ...]
    dropped_chars: int
    wall_s: float
    protection: Protection

    def text(self) -> str:
        """What a model is shown: output, errors and the reason of an early end; no times, no paths."""
        parts = [self.stdout.rstrip(), self.stderr.rstrip()]
        if self.stopped_by:
            parts.append(f"[stopped: over the limit of {self.stopped_by}]")
        elif self.exit_code < 0:
            parts.append(f"[ended by {signal.Signals(-self.exit_code).name}]")
        return "\n".join(part for part in parts if part) or "[no output]"


class Sandbox:
    """A folder and the runs in it. Files persist between runs, variables do not. Use as a context manager.

    Args:
        files: placed in the folder at the start, by plain name.
        readable: further paths that the code may read.
        strict: refuse to run where the kernel does not confine files, network and processes.
        python: interpreter; its installed packages are what the code can import.

    Raises:
        ConfigError: no POSIX system, a file name with a path, or (at a run) a strict sandbox that the machine
            cannot give.
    """

    def __init__(
        self,
        *,
        files: Mapping[str, str | bytes] | None = None,
        limits: Limits | None = None,
        readable: Sequence[str | os.PathLike] = (),
        strict: bool = True,
        python: str = sys.executable,
    ):
        if os.name != "posix":
            raise ConfigError("the sandbox needs a POSIX system (Linux for confinement by the kernel)")
        self.limits = limits or Limits()
        self._strict = strict
        self._python = python
        self._namespaces = True
        self._readable = [*_SYSTEM, sys.base_prefix, sys.prefix, *(str(Path(p).resolve()) for p in readable)]
        for name in files or {}:
            if Path(name).name != name:
                raise ConfigError(f"sandbox file {name!r}: expected a plain file name")
        self.folder = Path(tempfile.mkdtemp(prefix="wearjax-sandbox-")).resolve()
        for name, content in (files or {}).items():
            (self.folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Removes the folder."""
        try:
            shutil.rmtree(self.folder)
        except FileNotFoundError:
            pass
        except (RecursionError, OSError):  # a chain of folders deeper than Python recurses
            subprocess.run(["rm", "-rf", "--", self.folder], check=False, capture_output=True)

    def run(self, source: str) -> Outcome:
        """Runs the code to its end or to the first limit; never raises for what the code does."""
        outcome = self._run(source)
        if outcome is None:  # namespaces that cannot be entered fully: once more without
            self._namespaces = False
            outcome = self._run(source)
        if outcome is None:
            raise ConfigError("the sandbox did not start; is the Python interpreter usable?")
        if self._strict and not outcome.protection.by_kernel:
            weak = outcome.protection
            raise ConfigError(
                f"this machine cannot confine code (files: {weak.files}; processes: {weak.processes}); "
                "strict=False runs it with weak protection"
            )
        return outcome

    def _run(self, source: str) -> Outcome | None:
        limits = self.limits
        order = {
            "source": source,
            "folder": str(self.folder),
            "readable": self._readable,
            "namespaces": self._namespaces,
            "strict": self._strict,
            "limits": {
                "cpu_s": limits.cpu_s, "memory_bytes": limits.memory_mb << 20, "file_bytes": limits.file_mb << 20,
                "open_files": limits.open_files,
            },
        }  # fmt: skip
        report_read, report_write = os.pipe()
        try:
            process = subprocess.Popen(
                [self._python, "-P", "-s", "-B", str(_CONFINE), str(report_write)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                env=self._environment(), pass_fds=(report_write,), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            os.close(report_read)
            raise ConfigError(f"sandbox: cannot start {self._python} ({error})") from None
        finally:
            os.close(report_write)
        try:
            # In the background of the child's start: it reads all before it confines itself.
            with contextlib.suppress(BrokenPipeError):
                assert process.stdin is not None
                process.stdin.write(json.dumps(order).encode())
                process.stdin.close()
            watched = Watched(process, report_read, self.folder, limits)
            watched.until_end()
        finally:
            process_watch.kill_group(process)
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            os.close(report_read)
        return self._outcome(watched, process.returncode)

    def _environment(self) -> dict[str, str]:
        folder = str(self.folder)
        return {
            "PATH": "", "HOME": folder, "TMPDIR": folder, "MPLCONFIGDIR": folder, "MPLBACKEND": "Agg",
            "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", **dict.fromkeys(_ONE_THREAD, "1"),
        }  # fmt: skip

    def _outcome(self, watched: Watched, exit_code: int) -> Outcome | None:
        words = watched.words()
        if not words or not isinstance(words[0], dict):
            return None
        in_force, told = words[0], [word for word in words[1:] if isinstance(word, str)]
        stopped_by = watched.stopped_by
        if stopped_by is None and exit_code == -signal.SIGXCPU:
            stopped_by = "processor time"
        if stopped_by is None and exit_code == -signal.SIGKILL and watched.wall_s >= self.limits.cpu_s:
            stopped_by = "processor time"  # the code had caught the first signal
        if stopped_by is None and "memory" in told and exit_code:
            stopped_by = "memory"
        attempts = [w for w in dict.fromkeys(told) if w in ("network", "process", "write outside")]
        stdout, stderr = (kept.text().replace(str(self.folder), ".") for kept in watched.outputs)
        dropped = sum(kept.dropped for kept in watched.outputs)
        return Outcome(
            stdout,
            stderr,
            exit_code,
            stopped_by,
            tuple(attempts),
            dropped,
            watched.wall_s,
            _protection(in_force),
        )


def _protection(in_force: dict) -> Protection:
    calls = "seccomp" if in_force["calls"] else "checks inside Python"
    walls = ["network namespace"] * in_force["namespaces"] + ["seccomp"] * in_force["calls"]
    return Protection(
        network=" + ".join(walls) or calls,
        files="landlock" if in_force["files"] else "checks inside Python",
        processes=calls,
    )
