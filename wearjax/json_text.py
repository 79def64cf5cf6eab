"""Reads JSON that may be damaged or hostile: all that is wrong with a text is a ValueError."""

from __future__ import annotations

import json
import math
from typing import Any

_LIMIT = 2**64


def loads(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises ValueError: not JSON, brackets nested too deeply to follow, or a number that arrays would choke on later: a
    whole one beyond 64 bits, another beyond float64, or an infinite one (NaN stands for a missing one).
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


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits[:20]} is too large a number")
    return value


_DECODER = json.JSONDecoder(parse_int=_whole, parse_float=_finite, parse_constant=_finite)
