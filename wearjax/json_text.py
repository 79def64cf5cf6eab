"""Reads JSON that may be damaged or hostile: all that is wrong with a text is a ValueError."""

from __future__ import annotations

import json
from typing import Any

_LIMIT = 2**64


def loads(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises ValueError: not JSON, brackets nested too deeply to follow, or a whole number beyond 64 bits, which arrays
    and floats would choke on later.
    """
    if isinstance(text, bytes | bytearray):
        text = text.decode(json.detect_encoding(text))
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None


def _whole(digits: str) -> int:
    value = int(digits)
    if not -_LIMIT < value < _LIMIT:
        raise ValueError(f"{digits[:20]}… is too large a number")
    return value


_DECODER = json.JSONDecoder(parse_int=_whole)
