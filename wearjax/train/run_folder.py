"""The run folder before and after training: its configuration, and whether a new command belongs to it."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import json
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wearjax import json_text, writing
from wearjax.errors import ConfigError

# How a run is computed, not what: these may change when it resumes.
_FREE = (
    "data.workers",
    "data.read_ahead",
    "loop.devices",
    "loop.model_devices",
    "loop.strategy",
    "loop.sharding",
    "loop.keep_checkpoints",
    "loop.writers",
)
# Facts about a run that stand beside its configuration in config.json.
_FACTS = ("versions", "normalization", "run")
_VERSIONED = ("wearjax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy")


def open_run(out: Path, config: dict[str, Any], *, force: bool) -> dict[str, Any] | None:
    """The recorded configuration and facts of an existing run, None for a new one.

    Raises:
        ConfigError: the folder is not a run, or holds a run of another configuration; `force` removes the
        latter.
    """
    if not out.exists() or not any(out.iterdir()):
        return None
    file = out / "config.json"
    if not file.is_file():
        raise ConfigError(f"{out}: folder is not empty and holds no training run; choose another")
    if force:
        with hold(out):
            shutil.rmtree(out)
        return None
    try:
        recorded = json_text.loads(file.read_text())
        if not isinstance(recorded, dict):
            raise ValueError("not an object")
    except (ValueError, OSError) as error:
        raise ConfigError(f"{file}: not readable ({error}); pass --force to start over") from None
    difference = first_difference({k: v for k, v in recorded.items() if k not in _FACTS}, config)
    if difference is not None:
        name, before, now = difference
        raise ConfigError(
            f"{out}: holds a run with {name} {before!r}, now {now!r}; pass --force to start over, "
            "or choose another folder"
        )
    return recorded


def settings(config: dict[str, Any]) -> dict[str, Any]:
    """What of a configuration decides the result beside the model: no paths, no way of computing."""
    left_out = (*_FREE, "data.path", "loop.init_from")
    return {"seed": config["seed"]} | {
        section: {
            name: value for name, value in config[section].items() if f"{section}.{name}" not in left_out
        }
        for section in ("data", "optimizer", "loop")
    }


def first_difference(
    before: dict[str, Any], now: dict[str, Any], prefix: str = ""
) -> tuple[str, Any, Any] | None:
    """Dotted name and both values of the first field that differs and matters."""
    for name in [*now, *(n for n in before if n not in now)]:
        dotted, a, b = prefix + name, before.get(name), now.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            inner = first_difference(a, b, f"{dotted}.")
            if inner is not None:
                return inner
        elif a != b and dotted not in _FREE:
            return dotted, a, b
    return None


@contextlib.contextmanager
def hold(out: Path) -> Iterator[None]:
    """Keeps a second process from training in the same folder; a killed process lets go.

    Raises:
        ConfigError: another process holds it.
    """
    with open(out / "config.json", "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{out}: another process is training in this folder") from None
        except OSError:
            pass  # a file system without locks
        yield


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that decide the numbers."""
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def write_config(
    out: Path, config: dict[str, Any], *, normalization: dict[str, Any], run: dict[str, Any]
) -> None:
    """Writes config.json: the configuration with the facts of the run beside it."""
    content = {**config, "versions": versions(), "normalization": normalization, "run": run}
    with writing.file(out / "config.json", error=ConfigError) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n")
