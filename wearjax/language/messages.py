"""Messages in the form of OpenAI-compatible chat completions."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]


@dataclass(frozen=True)
class ToolCall:
    """A model's request to run a tool; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(text: str, images: Sequence[bytes] | None = None) -> Message:
    """A user's turn; PNG images come before the text, as data URLs."""
    if not images:
        return {"role": "user", "content": text}
    return {"role": "user", "content": [*map(image, images), {"type": "text", "text": text}]}


def image(png: bytes) -> dict[str, Any]:
    url = "data:image/png;base64," + base64.b64encode(png).decode()
    return {"type": "image_url", "image_url": {"url": url}}


def assistant(text: str, tool_calls: Sequence[ToolCall] = ()) -> Message:
    """A model's turn, to be sent back as part of the conversation."""
    message: Message = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in tool_calls
        ]
    return message


def tool(call: ToolCall, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call.id, "content": text}
