"""A model that may run Python before it answers: a bounded conversation around one sandbox."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wearjax import json_text
from wearjax.language import messages, parsing
from wearjax.language.endpoint import Client, Reply
from wearjax.language.messages import Message, ToolCall
from wearjax.language.sandbox import Outcome, Sandbox

MAX_RUNS = 12
TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "python",
        "description": "Runs a Python program in a fresh process; files of the working folder persist.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "the program; print what you want to see"}},
            "required": ["code"],
        },
    },
}  # fmt: skip
INSTRUCTION = """\
You may run Python (numpy, pandas and scipy if installed; no network, no other processes) on the files of the \
working folder. Write the program in one block that starts with ```python and ends with ```, and nothing after \
it; the output comes back to you. Each program runs in a fresh process: variables do not persist, files do. You \
have {runs} runs. When you are done, reply without a program."""
_BLOCK = re.compile(r"^```[ \t]*(?:python|py)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE | re.IGNORECASE)
_REMIND = "There is neither a complete ```python block nor a final line that starts with `Answer:`. Go on."
_NO_MORE = "You have no run left. Reply now with the final line that starts with `Answer:`."


@dataclass(frozen=True)
class Transcript:
    """A finished conversation.

    Attributes:
        text: the model's last reply.
        ended: `answer`, `no answer` (still none when runs and reminders were used up) or `error`.
        error: of the endpoint, else None.
        runs: what the sandbox did, in order.
        conversation: every message, the last reply included.
        cached: every reply came from the answer cache.
    """

    text: str
    ended: Literal["answer", "no answer", "error"]
    error: str | None
    runs: tuple[Outcome, ...]
    conversation: tuple[Message, ...]
    cached: bool


def converse(
    client: Client,
    conversation: Sequence[Message],
    sandbox: Sandbox,
    *,
    max_runs: int = MAX_RUNS,
    offer_tool: bool = False,
) -> Transcript:
    """Lets the model run programs until it answers.

    A program comes as a fenced block or as a call of the tool `python`. A reply that holds a program is not an
    answer, whatever else it says: its `Answer:` line was written before the output was seen. At most
    `max_runs` programs run; then the model is asked once for its answer. One reply with neither program nor
    answer is met with a reminder.

    Args:
        conversation: system and user messages, the user's with `INSTRUCTION`.
        offer_tool: announce the tool to the endpoint; leave off where it takes no `tools`.
    """
    talk, all_cached = list(conversation), True
    runs: list[Outcome] = []
    reminded = asked_to_end = False
    tries = 0  # of programs and calls, run or not: calls that cannot run must end too
    while True:
        reply = client.chat(talk, tools=[TOOL] if offer_tool else None)
        all_cached &= reply.cached
        if reply.error is not None:
            return Transcript(reply.text, "error", reply.error, tuple(runs), tuple(talk), all_cached)
        talk.append(messages.assistant(reply.text, reply.tool_calls))
        programs = _BLOCK.findall(reply.text)
        if not asked_to_end and (reply.tool_calls or programs):
            talk += _run(sandbox, reply, "\n".join(programs), runs, max_runs)
            tries += 1
            if max(tries, len(runs)) >= max_runs:
                asked_to_end = True
                talk.append(messages.user(_NO_MORE))
            continue
        if parsing.has_marker(reply.text):
            return Transcript(reply.text, "answer", None, tuple(runs), tuple(talk), all_cached)
        if asked_to_end or reminded:
            return Transcript(reply.text, "no answer", None, tuple(runs), tuple(talk), all_cached)
        reminded = True
        talk.append(messages.user(_REMIND))


def _run(sandbox: Sandbox, reply: Reply, program: str, runs: list[Outcome], max_runs: int) -> list[Message]:
    """Runs what the reply asks for and returns the messages that tell the outcome."""
    if not reply.tool_calls:
        runs.append(sandbox.run(program))
        return [messages.user(f"Output:\n{runs[-1].text()}")]
    told = []
    for call in reply.tool_calls:  # each must be answered, also those beyond the bound
        code, wrong = _code(call)
        if wrong or len(runs) >= max_runs:
            told.append(messages.tool(call, wrong or "not run: no run left"))
            continue
        runs.append(sandbox.run(code))
        told.append(messages.tool(call, runs[-1].text()))
    return told


def _code(call: ToolCall) -> tuple[str, str]:
    """The program of a call, or what is wrong with the call."""
    if call.name != "python":
        return "", f"there is no tool {call.name!r}, only 'python'"
    try:
        code = json_text.loads(call.arguments)["code"]
    except (ValueError, KeyError, TypeError):
        return "", 'the arguments must be JSON: {"code": "..."}'
    return (code, "") if isinstance(code, str) else ("", "code must be a string")
