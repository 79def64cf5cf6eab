"""What a failed checkpoint repeats is kept out of the terminal; what others have to say is not."""

from __future__ import annotations

import asyncio
import logging
import sys
from types import SimpleNamespace

import pytest

from wearjax.train import checkpoint_noise


def raised(error, module=__name__):
    try:
        exec("raise error", {"__name__": module, "error": error})
    except Exception as caught:
        return caught


def late():
    loop = asyncio.new_event_loop()
    loop.close()
    try:
        loop.call_soon_threadsafe(print)
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (raised(ValueError("x"), "orbax.checkpoint._src.futures.future"), False),
        (ValueError('OUT_OF_RANGE: Error writing "a/0" in OCDBT database at local file "/x"'), False),
        (raised(ValueError("x")), True),
        (None, True),
    ],
)
@pytest.mark.parametrize("name", ["absl", "asyncio"])
def test_log_lines(caplog, name, error, told):
    checkpoint_noise.keep_out()
    with caplog.at_level(logging.ERROR):
        logging.getLogger(name).error("said", exc_info=error)
    assert bool(caplog.records) == told


def test_callbacks_that_come_too_late(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    checkpoint_noise.keep_out.__wrapped__()
    other = raised(RuntimeError("Event loop is closed"))
    for error in (late(), other):
        sys.unraisablehook(SimpleNamespace(exc_value=error))
    assert [each.exc_value for each in told] == [other]
