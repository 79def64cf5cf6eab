"""Arguments that the evaluations of all tracks take: methods by name, the split, numbers with a least value."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from wearjax import __version__
from wearjax.errors import ConfigError, MethodError
from wearjax.predict import protocols

SPLITS = {"test": "test", "validation": "validation", "val": "validation"}


def methods_by_name(method: Any, name: str | None, *, call: str) -> dict[str, Any]:
    """What the caller gave, one method or a dict of them.

    Args:
        name: of a single method; default is what it calls itself.
        call: what each must have, as people read it, e.g. `predict(data)`.

    Raises:
        ConfigError: a name beside a dict. MethodError: a method without the call.
    """
    if isinstance(method, Mapping):
        if name is not None:
            raise ConfigError("method_name: only for a single method; the dict already names them")
        methods = {str(key): value for key, value in method.items()}
    else:
        methods = {name or protocols.method_name(method): method}
    for key, value in methods.items():
        if not callable(getattr(value, call.partition("(")[0], None)):
            raise MethodError(f"{key}: has no {call} method")
    return methods


def distinct(methods: Iterable[Any]) -> dict[str, Any]:
    """Methods by name, for an evaluation.

    Args:
        methods: methods, which name themselves, or pairs of a name and a method.

    Raises:
        ConfigError: two of one name.
    """
    found: dict[str, Any] = {}
    for item in methods:
        name, method = item if isinstance(item, tuple) else (protocols.method_name(item), item)
        if name in found:
            raise ConfigError(f"two methods are called {name!r}; give one of them another name")
        found[name] = method
    return found


def split_of(split: str) -> str:
    """The split by its one name. Raises ConfigError."""
    if split not in SPLITS:
        raise ConfigError(f"split {split!r}: expected test or validation")
    return SPLITS[split]


def check_least(**values: tuple[int | None, int]) -> None:
    """Raises ConfigError for the first value that is less than the least one behind it."""
    for name, (value, smallest) in values.items():
        if value is not None and value < smallest:
            raise ConfigError(f"{name}: expected at least {smallest}, got {value}")


def versions() -> dict[str, str]:
    """What an evaluation was made with."""
    return {"wearjax": __version__, "numpy": np.__version__, "python": platform.python_version()}
