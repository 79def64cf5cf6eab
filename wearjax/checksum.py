"""What names the content of a file."""

from __future__ import annotations

import hashlib
import os


def sha256(file: str | os.PathLike) -> str:
    """SHA-256 of the bytes of a file, in hexadecimal; they are read in parts. Raises OSError."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
