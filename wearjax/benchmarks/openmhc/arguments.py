"""Arguments that the evaluations of all tracks take: methods by name, the split, numbers with a least value."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from wearjax import __version__
from wearjax.days.open import open_days
from wearjax.errors import ConfigError, MethodError
from wearjax.predict import protocols

SPLITS = {"test": "test", "validation": "validation", "val": "validation"}


def methods_by_name(
    method: Any, name: str | None, *, call: str, made: Callable[[Any], Any] = lambda method: method
) -> dict[str, Any]:
    """What the caller gave, one method or a dict of them.

    Args:
        name: of a single method; default is what it calls itself.
        call: what each must have, as people read it, e.g. `predict(data)`.
        made: what of one that lacks the call is evaluated instead, see `of_trained`.

    Raises:
        ConfigError: a name beside a dict. MethodError: a method without the call.
    """
    if isinstance(method, Mapping):
        if name is not None:
            raise ConfigError("method_name: only for a single method; the dict already names them")
        methods = {str(key): value for key, value in method.items()}
    else:
        methods = {name or protocols.method_name(method): method}
    wanted = call.partition("(")[0]
    for key, value in methods.items():
        if isinstance(value, str | os.PathLike):
            raise MethodError(
                f"{value}: is a path, expected a method; wearjax.load_pretrained(path) gives one"
            )
        if isinstance(value, type):
            raise MethodError(f"{key}: is a class, expected an object of it: {value.__name__}(…)")
        methods[key] = value if callable(getattr(value, wanted, None)) else made(value)
        if not callable(getattr(methods[key], wanted, None)):
            raise MethodError(f"{key}: has no {call} method")
    return methods


def of_trained(data_dir: str | os.PathLike, maker: str) -> Callable[[Any], Any]:
    """Makes a track's method of a trained model that was given in its place, by its call `maker(days)`."""

    def made(model: Any) -> Any:
        make = getattr(model, maker, None)
        return make(open_days(data_dir)) if callable(make) else model

    return made


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


def check_seeds(**seeds: int) -> None:
    """Raises ConfigError for the first seed that NumPy's generators do not take."""
    for name, seed in seeds.items():
        if not 0 <= seed < 2**32:
            raise ConfigError(f"{name}: must be in [0, 2^32), got {seed}")


def check_baseline(methods: Mapping[str, Any], name: str, kinds: type | tuple[type, ...]) -> None:
    """Raises ConfigError where something else than the built-in baseline goes by its name."""
    if name in methods and not isinstance(methods[name], kinds):
        raise ConfigError(f"method name {name!r}: taken by the baseline; choose another")


def of_ones_own(methods: Mapping[str, Any]) -> list[str]:
    """Names of the methods that are not of this library."""
    return [
        name for name, method in methods.items() if type(method).__module__.partition(".")[0] != "wearjax"
    ]


def versions() -> dict[str, str]:
    """What an evaluation was made with."""
    return {"wearjax": __version__, "numpy": np.__version__, "python": platform.python_version()}
