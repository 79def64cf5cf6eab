# ruff: noqa: E501  made data is read better in one line than in ten
"""Reads damaged inputs with every reader and tells how each ended.

    python tests/reliability/fuzz.py --count 30 --seed 1 [--only NAME …] [--one NAME NUMBER]

An input may be read (what it lacks is counted), or refused by one line of a `WearjaxError` that names a file of the
input, with nothing left at the output. All else is a bug: another exception, a line that names nothing, something left
behind, more than `LIMIT_S` seconds, more than `MEMORY` bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))

import spoil
from readers import BY_NAME, READERS, Reader

from wearjax import errors
from wearjax.errors import WearjaxError

LIMIT_S = 30
MEMORY = 12 << 30
LINE_MAX = 700


@dataclass(frozen=True)
class Outcome:
    """How the reading of one damaged input ended: `read`, `refused` or `bug`."""

    kind: str
    damage: str
    told: str


class Hung(Exception):
    pass


class Inputs:
    """Readable inputs, made once each, and copied for each attack."""

    def __init__(self, folder: Path):
        self._folder = folder

    def copy(self, reader: Reader, target: Path) -> Path:
        made = self._folder / reader.name.replace(" ", "-")
        if not made.exists():
            made.mkdir(parents=True)
            reader.make(made)
        shutil.copytree(made, target, symlinks=True)
        return reader.input(target)


def attack(reader: Reader, number: int, seed: int, inputs: Inputs, folder: Path) -> Outcome:
    """Damages a fresh input and reads it."""
    rng = random.Random(f"{reader.name}/{seed}/{number}")
    path = inputs.copy(reader, folder / "in")
    damage = "; ".join(
        spoil.spoil(path, rng) for _ in range(2 if path.is_dir() and rng.random() < 0.15 else 1)
    )
    return judge(reader, path, folder, damage)


def judge(reader: Reader, path: Path, folder: Path, damage: str) -> Outcome:
    """Reads an input and judges the end."""
    out = folder / "made" / "out"
    out.parent.mkdir()
    try:
        with _limits():
            reader.read(path, out)
    except WearjaxError as error:
        return _judge_refusal(error, path, out, damage)
    except BaseException as error:  # everything else is what is looked for
        if isinstance(error, KeyboardInterrupt):
            raise
        where = traceback.extract_tb(error.__traceback__)
        own = [f for f in where if "/wearjax/" in f.filename] or list(where)
        line = f"{type(error).__name__}: {str(error)[:150]!r} at {Path(own[-1].filename).name}:{own[-1].lineno} {own[-1].name}"
        return Outcome("bug", damage, line)
    left = [p.name for p in out.parent.iterdir() if p.name.startswith(".")]
    return Outcome("bug", damage, f"left behind {left}") if left else Outcome("read", damage, "")


def _judge_refusal(error: WearjaxError, path: Path, out: Path, damage: str) -> Outcome:
    told = errors.shown(error)  # as the command line prints it
    left = sorted(p.name for p in out.parent.iterdir())
    if left:
        return Outcome("bug", damage, f"refused, but left {left}: {told[:100]}")
    if len(told.splitlines()) != 1 or len(told) > LINE_MAX:
        return Outcome("bug", damage, f"not one line: {told[:200]!r}")
    names = (
        {str(path), path.name, *(p.name for p in path.rglob("*"))}
        if path.is_dir()
        else {str(path), path.name}
    )
    if not any(name in told for name in names) and str(out) not in told:
        return Outcome("bug", damage, f"names no file: {told[:200]!r}")
    return Outcome("refused", damage, told)


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Stops a hang; warnings of NumPy within the library are errors, as they are in the tests."""

    def ring(*_) -> None:
        raise Hung(f"more than {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", category=RuntimeWarning, module="wearjax")
            warnings.filterwarnings("ignore", category=SyntaxWarning)
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def campaign(
    readers: list[Reader],
    count: int,
    seed: int,
    *,
    folder: Path,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, list[Outcome]]:
    """`count` attacks on each reader."""
    inputs, found = Inputs(folder / "inputs"), {}
    for reader in readers:
        found[reader.name] = []
        for number in range(count):
            place = folder / f"{zlib.crc32(reader.name.encode()):08x}-{number}"
            outcome = attack(reader, number, seed, inputs, place)
            found[reader.name].append(outcome)
            if outcome.kind == "bug":
                say(f"{reader.name} {number}: {outcome.damage}: {outcome.told}")
            shutil.rmtree(place, ignore_errors=True)
    return found


def table(found: dict[str, list[Outcome]]) -> str:
    """Reader by outcome."""
    lines = [f"{'reader':24}{'inputs':>8}{'read':>8}{'refused':>9}{'bugs':>6}"]
    total: Counter[str] = Counter()
    for name, outcomes in found.items():
        counts = Counter(o.kind for o in outcomes)
        total += counts
        lines.append(f"{name:24}{len(outcomes):8}{counts['read']:8}{counts['refused']:9}{counts['bug']:6}")
    lines.append(f"{'all':24}{total.total():8}{total['read']:8}{total['refused']:9}{total['bug']:6}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=30, help="inputs a reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[reader.name for reader in READERS])
    parser.add_argument(
        "--one", nargs=2, metavar=("NAME", "NUMBER"), help="one input again, kept, with its traceback"
    )
    parser.add_argument("--messages", action="store_true", help="print the line of every refusal")
    given = parser.parse_args()
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if given.one:
        folder = Path(tempfile.mkdtemp(prefix="wearjax-fuzz-"))
        reader = BY_NAME[given.one[0]]
        rng = random.Random(f"{reader.name}/{given.seed}/{int(given.one[1])}")
        path = Inputs(folder / "inputs").copy(reader, folder / "in")
        print(
            path,
            "; ".join(
                spoil.spoil(path, rng) for _ in range(2 if path.is_dir() and rng.random() < 0.15 else 1)
            ),
        )
        reader.read(path, folder / "out")
        return
    with tempfile.TemporaryDirectory(prefix="wearjax-fuzz-") as folder:
        found = campaign(
            [BY_NAME[name] for name in given.only], given.count, given.seed,
            folder=Path(folder), say=lambda line: print(line, flush=True),
        )  # fmt: skip
    if given.messages:
        for name, outcomes in found.items():
            for o in outcomes:
                print(f"{name}: {o.kind}: {o.damage} -> {o.told}")
    print(table(found))
    if any(o.kind == "bug" for outcomes in found.values() for o in outcomes):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
