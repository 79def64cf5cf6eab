"""Every random choice has its own seed, so that one question can be made again without the others."""

from __future__ import annotations

import hashlib
import json

VERSION = "2"  # of the generator; another version draws other numbers


def seed_of(*parts: str | int, version: str = VERSION) -> int:
    """64 bits of a hash: of the generator's version, and by custom user, type, end date and purpose."""
    text = json.dumps([version, *parts], separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
