"""What an endpoint sends back: chat completions, statuses and the pauses that it asks for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from wearjax.errors import WearjaxError
from wearjax.language.messages import ToolCall


class EndpointError(WearjaxError):
    """An endpoint gave no usable answer, after all retries."""


class Retry(Exception):
    """A call failed in a way that another try may mend; `wait_s` is the pause that the endpoint asks for."""

    def __init__(self, reason: str, wait_s: float = 0.0):
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass(frozen=True)
class Reply:
    """An answer, or the reason why there is none.

    Attributes:
        text: empty when the model wrote none, called a tool, or failed.
        error: one line, None when the endpoint answered.
        cached: read from the answer cache.
        raw: the endpoint's JSON.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    error: str | None = None
    cached: bool = False
    attempts: int = 0
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)


def completion(response: Any) -> dict[str, Any]:
    """The JSON of a response that holds a chat completion. Raises Retry when it does not."""
    try:
        raw = response.json()
    except (ValueError, RecursionError):
        raise Retry(f"the answer is not JSON: {_one_line(response.text)!r}") from None
    try:
        read(raw)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError):
        raise Retry(f"the answer is no chat completion: {_one_line(response.text)!r}") from None
    return raw


def read(raw: Mapping[str, Any]) -> Reply:
    """The reply in a chat completion. Raises KeyError, TypeError and their like when there is none."""
    choice = raw["choices"][0]
    message, usage = choice["message"], raw.get("usage") or {}
    content = message.get("content")
    if isinstance(content, list):  # some endpoints answer in parts
        content = "".join(part.get("text") or "" for part in content)
    if content is not None and not isinstance(content, str):
        raise TypeError(f"content is {type(content).__name__}")
    calls = tuple(
        ToolCall(str(c.get("id")), c["function"]["name"], str(c["function"].get("arguments") or ""))
        for c in message.get("tool_calls") or ()
    )
    return Reply(
        content or "",
        calls,
        choice.get("finish_reason"),
        prompt_tokens=int(usage.get("prompt_tokens") or 0),
        completion_tokens=int(usage.get("completion_tokens") or 0),
        raw=raw,
    )


def message(response: Any) -> str:
    """The explanation of a response that is no success, in one line."""
    try:
        return _one_line(str(response.json()["error"]["message"]))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return _one_line(response.text) or "no explanation"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def retry_after_s(value: str | None) -> float:
    """Seconds of a Retry-After header: a number or a date; 0 where there is none or it cannot be read."""
    if not value:
        return 0.0
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return 0.0
