"""A training step of another library, in a process of its own: it runs as it would without us beside it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from wearjax.errors import ConfigError

_PROGRAM = """
import importlib.util, sys

def say(text):
    print(text, file=answers, flush=True)

answers, sys.stdout = sys.stdout, sys.stderr  # whatever the file prints does not get between the answers
try:
    spec = importlib.util.spec_from_file_location("rival", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "make_step"):
        raise AttributeError("has no function make_step(batch_size)")
    step = module.make_step(int(sys.argv[2]))
except Exception as error:
    say(f"{type(error).__name__}: {error}".splitlines()[0])
    sys.exit(0)
say("ready")
for line in sys.stdin:
    step()
    say("done")
"""


class RivalStep:
    """`make_step(batch_size)` of a Python file; every call runs one step in the other process and waits for it.

    The process keeps the system's settings: the memory options of the command line (`wearjax.cli.memory`) are not
    passed on. Use it with `with`, which ends the process.

    Raises:
        ConfigError: no such file, one that cannot be imported, without that function, or a step that breaks.
    """

    def __init__(self, file: Path, batch_size: int):
        if not file.is_file():
            raise ConfigError(f"{file}: no such file")
        self._file = file
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(file), str(batch_size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._expect("ready")

    def __call__(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the missing answer says so
            print("step", file=self._process.stdin, flush=True)
        self._expect("done")

    def __enter__(self) -> RivalStep:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()

    def _expect(self, wanted: str) -> None:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        if answer != wanted:
            self.close()
            raise ConfigError(f"{self._file}: {answer or 'its step ended the process'}")
