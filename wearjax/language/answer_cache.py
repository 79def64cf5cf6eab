"""Answers of language models on disk, so that a resumed run never pays twice for the same question.

One JSON line an answer, appended and flushed to the disk under a lock before the answer is used. A process killed
in the middle of a line leaves a line without an end: it is skipped and counted, and the next answer starts on a
line of its own. Several threads and processes may share a file.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any

from wearjax import json_text
from wearjax.errors import StoreError

FORMAT = 1


def digest(model: str, messages: list[dict[str, Any]], parameters: dict[str, Any]) -> str:
    """SHA-256 of what decides an answer: model, messages (images included) and parameters; not the address."""
    content = {"model": model, "messages": messages, "parameters": parameters}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class AnswerCache:
    """Answers by digest, kept in one file of JSON lines; made with its folder at the first answer.

    Attributes:
        damaged: lines that could not be read (half-written ones).

    Raises:
        StoreError: the path is a folder, cannot be read, or holds lines of another format.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.damaged = 0
        self._answers: dict[str, dict[str, Any]] = {}
        self._read_to = 0
        self._lock = threading.Lock()
        if self.path.is_dir():
            raise StoreError(f"{self.path}: is a folder, expected a file of answers")
        self._read_new()

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> dict[str, Any] | None:
        """The stored answer, or None. Looks at what other processes have added meanwhile."""
        with self._lock:
            if key not in self._answers:
                self._read_new()
            return self._answers.get(key)

    def put(self, key: str, answer: dict[str, Any]) -> None:
        """Stores an answer; it is on the disk when this returns. The first answer of a key is the one read."""
        line = json.dumps({"format": FORMAT, "key": key, "answer": answer}, ensure_ascii=False) + "\n"
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                _lock_file(handle)
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":
                    line = "\n" + line
                _write_all(handle, line.encode())
                os.fsync(handle)
            except OSError as error:
                raise StoreError(f"{self.path}: cannot keep an answer ({error})") from None
            finally:
                os.close(handle)
            self._answers.setdefault(key, answer)

    def _read_new(self) -> None:
        try:
            with open(self.path, "rb") as file:
                file.seek(self._read_to)
                block = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be read ({error})") from None
        whole, end, _ = block.rpartition(b"\n")  # a line still without its end is left for the next look
        self._read_to += len(whole) + len(end)
        for line in whole.split(b"\n"):
            if line.strip():
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            entry = json_text.loads(line)
            version, key, answer = entry["format"], entry["key"], entry["answer"]
            if not isinstance(key, str) or not isinstance(answer, dict):
                raise TypeError("key and answer")
        except (ValueError, KeyError, TypeError):
            self.damaged += 1
            return
        if version != FORMAT:
            raise StoreError(f"{self.path}: answers of format {version}, this version reads {FORMAT}")
        self._answers.setdefault(key, answer)


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _lock_file(handle: int) -> None:
    """Held until the file is closed. Where the system has no such locks, processes must not share the file."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(handle, fcntl.LOCK_EX)
