"""A method of one's own, named on the command line as `FILE.py:Class`."""

from __future__ import annotations

import contextlib
import copyreg
import functools
import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from wearjax.errors import ConfigError
from wearjax.predict import own_code

_MARK = ".py:"


def load(text: str) -> Any:
    """The method that `FILE.py:Class` names: the class is called without arguments, another object is taken
    as it is.

    The file is executed as a module; what lies beside it can be imported meanwhile.

    Raises:
        ConfigError: another form, no such file or name, or a file or class that raises.
    """
    name, mark, attribute = text.rpartition(_MARK)
    if not mark or not attribute.isidentifier():
        raise ConfigError(f"{text!r}: expected FILE.py:Class")
    file = Path(name + ".py")
    module = _module(file)
    if not hasattr(module, attribute):
        public = [
            n for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__
        ]
        raise ConfigError(f"{file}: has no {attribute!r}; its classes: {', '.join(public) or 'none'}")
    found = getattr(module, attribute)
    if not isinstance(found, type):
        return found
    copyreg.pickle(found, functools.partial(_reduced, f"{file.resolve()}:{attribute}"))  # type: ignore[arg-type]
    try:
        return found()
    except Exception as error:
        raise ConfigError(
            f"{file}: {attribute}() cannot be made without arguments ({own_code.told(error)})"
        ) from error


def _reduced(text: str, method: Any) -> tuple[Callable, tuple, dict[str, Any]]:
    """How another process gets the method: it loads the file, too, and takes over what the method knows."""
    return load, (text,), dict(vars(method))


def _module(file: Path) -> ModuleType:
    if not file.is_file():
        raise ConfigError(f"{file}: no such file")
    # A name of its own: two files called alike stay apart.
    path = file.resolve()
    name = f"wearjax_method_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    try:
        with _importable(path.parent):
            spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line, place = " ".join(str(error).split()), own_code.line_of(error)
        raise ConfigError(
            f"{file}: {type(error).__name__} while it was loaded: {line}" + (f" ({place})" if place else "")
        ) from error
    return module


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))
