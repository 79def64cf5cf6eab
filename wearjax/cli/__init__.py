"""The command line: one verb per intent. It parses, calls a room, prints; nothing is computed here."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import tyro
from rich.console import Console
from rich.table import Table

from wearjax import errors
from wearjax.cli import (
    configurations,
    data,
    evaluate,
    finetune,
    forecasting,
    memory,
    prediction,
    qa,
    qa_evaluate,
    train,
    vital_tracks,
    vitalbench,
)
from wearjax.cli.output import console, with_options
from wearjax.errors import ConfigError, WearjaxError, did_you_mean

VERBS: dict[tuple[str, ...], Callable] = {
    ("demo",): evaluate.demo,
    ("data", "synth"): data.synth,
    ("data", "import"): data.import_,
    ("data", "inspect"): data.inspect,
    ("data", "check"): data.check,
    ("pretrain",): train.pretrain,
    ("search",): train.search,
    ("pypots",): train.pypots,
    ("finetune", "chronos2"): finetune.chronos2,
    ("convert", "torch"): train.convert_torch,
    ("convert", "flax"): train.convert_flax,
    ("convert", "stablehlo"): train.convert_stablehlo,
    ("card",): train.card,
    ("evaluate", "imputation"): evaluate.imputation_track,
    ("evaluate", "forecasting"): forecasting.forecasting_track,
    ("evaluate", "prediction"): prediction.prediction_track,
    ("evaluate", "retrieval"): evaluate.retrieval,
    ("impute",): evaluate.impute,
    ("vitalbench", "prepare"): vitalbench.prepare,
    ("vitalbench", "train"): vital_tracks.train,
    ("vitalbench", "evaluate"): vital_tracks.evaluate,
    ("vitalbench", "ablate"): vital_tracks.ablate,
    ("qa", "build"): qa.build,
    ("qa", "audit"): qa.audit,
    ("qa", "render"): qa_evaluate.render,
    ("qa", "evaluate"): qa_evaluate.evaluate,
    ("qa", "compare"): qa_evaluate.compare,
    ("bench",): evaluate.bench,
    ("packet",): evaluate.packet,
    ("report",): evaluate.report,
}

OPEN_ENDED = (
    ("pretrain",),
    ("search",),
    ("pypots",),
)  # these also take fields of the configuration, --section.field value

TRAINING = {("demo",), ("pretrain",), ("search",), ("bench",)}  # these keep the memory that they free


def _help(prefix: tuple[str, ...] = ()) -> None:
    table = Table(box=None, show_header=False)
    for words, command in VERBS.items():
        if words[: len(prefix)] == prefix:
            table.add_row("wearjax " + " ".join(words), (command.__doc__ or "").split("\n")[0])
    console.print(table)
    console.print("Each verb explains itself with --help.")


def _verb(args: list[str]) -> tuple[tuple[str, ...], list[str]] | None:
    for length in (2, 1):
        if tuple(args[:length]) in VERBS:
            return tuple(args[:length]), args[length:]
    return None


def _refuse_repeated(args: list[str]) -> None:
    """Raises ConfigError for an option that is given twice: the parser would keep the last one and say nothing."""
    flags = [arg.partition("=")[0].replace("_", "-") for arg in args if arg.startswith("--")]
    for flag in dict.fromkeys(flags):
        if flags.count(flag) > 1:
            raise ConfigError(f"{flag} is given twice; several values go behind one: {flag} A B")


def _run(args: list[str]) -> None:
    found = _verb(args)
    if found is None:
        words = tuple(a for a in args if not a.startswith("-"))
        if words and not any(verb[0] == words[0] for verb in VERBS):
            hint = did_you_mean(words[0], dict.fromkeys(verb[0] for verb in VERBS))
            raise ConfigError(f"unknown verb {words[0]!r}{hint} (wearjax --help lists the verbs)")
        return _help(words[:1])
    verb, rest = found
    _refuse_repeated(rest)
    command, prog = VERBS[verb], "wearjax " + " ".join(verb)
    if verb in TRAINING:
        memory.keep_freed()
    if verb in OPEN_ENDED:
        if configurations.asked(rest):
            return _explain(verb, rest)
        start, overrides = tyro.cli(command, prog=prog, args=rest, return_unknown_args=True)
        return start(overrides)
    return tyro.cli(command, prog=prog, args=rest)


def _explain(verb: tuple[str, ...], rest: list[str]) -> None:
    """Help of a verb that takes fields of a configuration."""
    parts = configurations.explained(" ".join(verb), rest)
    with contextlib.suppress(SystemExit):
        tyro.cli(VERBS[verb], prog="wearjax " + " ".join(verb), args=["--help"])
    for part in parts:
        console.print(part, highlight=False, soft_wrap=isinstance(part, str))


_FIELD = re.compile(r"(?:seed|(?:data|model|optimizer|loop|training)\.\w+):")


def _said(message: str, verb: tuple[str, ...]) -> str:
    """A message of the library in the words of a verb: its options, and fields of its configuration."""
    said = with_options(message, VERBS[verb])
    return f"--{said}" if verb in OPEN_ENDED and _FIELD.match(said) else said


# What the machine refuses, wherever a verb was: no room, not allowed, not readable.
_OF_THE_DISK = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ELOOP,
    errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EMFILE, errno.ENOMEM,
}  # fmt: skip

_BROKEN_PIPE = 141  # the status of a program that SIGPIPE ended


def _fail(line: str) -> NoReturn:
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"error: {line}", markup=False)
    raise SystemExit(1) from None


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of `wearjax`. Errors meant for people are one line and exit status 1; Ctrl-C exits with 130."""
    given = list(sys.argv[1:] if args is None else args)
    try:
        _run(given)
    except WearjaxError as error:
        verb = _verb(given)
        said = _said(str(error), verb[0]) if verb else str(error)
        _fail(errors.shown(WearjaxError(said)))
    except BrokenPipeError:  # whoever read the output left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(_BROKEN_PIPE) from None
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        where = f"{error.filename}: " if error.filename else ""
        _fail(errors.shown(OSError(f"{where}{error.strerror or error}")))
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
