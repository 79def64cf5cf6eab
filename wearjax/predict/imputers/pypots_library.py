"""PyPOTS as a guest: imported without banner, logs or folders, and run without touching the user's random numbers.

PyPOTS and PyTorch come with the extra `pypots`. Importing PyPOTS prints a banner and makes a folder in the user's home;
`load` does neither.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wearjax import engine
from wearjax.errors import MethodError

_LOGGERS = ("PyPOTS running log", "TSDB running log", "BenchPOTS running log")


def load() -> tuple[Any, Any]:
    """`pypots.imputation` and `torch`, imported without banner, logs or folder. Raises MethodError."""
    try:
        torch = importlib.import_module("torch")
        if "pypots" not in sys.modules:
            with _silenced(), quiet():
                with _spared_home():
                    importlib.import_module("tsdb")  # the part of PyPOTS that writes into the home
                importlib.import_module("pypots")
        return importlib.import_module("pypots.imputation"), torch
    except ImportError as error:
        raise MethodError(
            f"PyPOTS is needed for this imputer ({error}); install it with: pip install 'wearjax[pypots]'"
        ) from None


@contextlib.contextmanager
def seeded(*seed: int, device: str) -> Iterator[None]:
    """PyTorch's random numbers inside follow from the seed; outside they go on as if nothing had happened."""
    torch = importlib.import_module("torch")
    place = torch.device(device)
    used = (
        [] if place.type == "cpu" else [torch.cuda.current_device() if place.index is None else place.index]
    )
    with torch.random.fork_rng(devices=used):
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        yield


@contextlib.contextmanager
def kept_numpy_state() -> Iterator[None]:
    # FEDformer shuffles its frequencies with NumPy's global generator, which belongs to the user.
    state = np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """PyPOTS warns of choices that are made here on purpose, e.g. that it is given no path to save to."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Discards what is printed; log handlers made meanwhile are given the real stream afterwards."""
    sink = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # PyPOTS asks its output for an encoding
    with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
        yield
    for logger in [logging.root, *logging.root.manager.loggerDict.values()]:
        for handler in getattr(logger, "handlers", []):
            if isinstance(handler, logging.StreamHandler) and handler.stream is sink:
                handler.setStream(sys.stderr)


@contextlib.contextmanager
def _spared_home() -> Iterator[None]:
    """A home that is thrown away, unless the user's has the folder already. Only `tsdb` is imported inside."""
    names = ("HOME", "USERPROFILE")
    if "tsdb" in sys.modules or (Path.home() / ".pypots" / "config.ini").exists():
        yield
        return
    with (
        tempfile.TemporaryDirectory(prefix="wearjax-pypots-") as folder,
        engine.environment(dict.fromkeys(names, folder)),
    ):
        yield


def check_device(torch: Any, device: str) -> None:
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        raise MethodError(f"device: expected cpu, cuda or cuda:N, got {device!r}") from None
    if kind not in ("cpu", "cuda"):
        raise MethodError(f"device: expected cpu, cuda or cuda:N, got {device!r}")
    if kind == "cuda" and not torch.cuda.is_available():
        raise MethodError(f"device: {device} asked for, but PyTorch sees no CUDA device; use cpu")
