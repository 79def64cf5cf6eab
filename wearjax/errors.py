"""Errors a person can act on: one line that names the file, field or shape and what was expected.

Anything else that escapes is a defect of the library; the command line prints these without a traceback.
"""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What to put behind an unknown name: the nearest known one, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def one_line(error: BaseException) -> str:
    """What an error of another library says, without its line breaks; its kind where it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


SHOWN_MAX = 600


def shown(error: BaseException) -> str:
    """The message for a terminal: characters that steer one are written out, long lines lose their middle."""
    return "\n".join(_shown(line) for line in str(error).split("\n"))


def _shown(line: str) -> str:
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    half = SHOWN_MAX // 2
    return plain if len(plain) <= SHOWN_MAX else f"{plain[:half]} … {plain[-half:]}"


class WearjaxError(Exception):
    """Base of every error whose message is written for the user."""


class SourceError(WearjaxError):
    """A foreign file cannot be read as what it claims to be."""


class StoreError(WearjaxError):
    """A day store is missing, incomplete or of another format."""


class ConfigError(WearjaxError):
    """A configuration or argument has an unknown name or an impossible value."""


class CheckpointError(WearjaxError):
    """A checkpoint or bundle does not fit the model that should take it."""


class MethodError(WearjaxError):
    """A method under evaluation broke its contract (shape, type, missing call)."""
