"""Asks many multiple-choice questions, several at once, and keeps each answer as soon as it is there."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from wearjax.errors import ConfigError
from wearjax.language import agent, concurrency, parsing
from wearjax.language.answer_cache import AnswerCache
from wearjax.language.endpoint import Client, EndpointError
from wearjax.language.question_prompt import Prompt
from wearjax.language.sandbox import Limits, Sandbox

GIVE_UP_AFTER = 10
LETTERS = "ABCDEFGHIJ"


class Completer(Protocol):
    """Anything that answers a prompt. It raises EndpointError where it has no answer."""

    def complete(self, prompt: str, images: Sequence[bytes] | None = None) -> str: ...


@dataclass(frozen=True)
class Response:
    """What was answered to one question.

    Attributes:
        text: the last reply, as it came.
        error: why there is none, in one line.
        prompt: digest of what was sent.
        cut_off: the reply ended at the longest length allowed.
        turns: of an agent, all its replies in order; `runs` programs were run, `attempts` is what the sandbox refused.
        prompt_tokens, completion_tokens: as the endpoint states them; 0 where it does not, and of an agent.
    """

    id: str
    text: str = ""
    error: str | None = None
    prompt: str = ""
    letters: str = LETTERS
    cut_off: bool = False
    turns: tuple[str, ...] = ()
    runs: int = 0
    attempts: tuple[str, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def letter(self) -> str | None:
        """The option that the reply names; None where it names none, or there is no reply."""
        return None if self.error is not None else parsing.letter(self.text, self.letters)

    @property
    def outcome(self) -> Literal["parsed", "unparsed", "failed"]:
        if self.error is not None:
            return "failed"
        return "unparsed" if self.letter is None else "parsed"

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "turns": list(self.turns), "attempts": list(self.attempts)}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Response:
        """Raises TypeError or KeyError where it is none."""
        return cls(**{**stored, "turns": tuple(stored["turns"]), "attempts": tuple(stored["attempts"])})


@dataclass(frozen=True)
class Agent:
    """How a model may use Python.

    Attributes:
        runs: programs a question.
        offer_tool: announce the tool to the endpoint; leave off where it takes no `tools`.
        strict: refuse a machine that cannot confine code.
    """

    runs: int = agent.MAX_RUNS
    offer_tool: bool = False
    limits: Limits = dataclasses.field(default_factory=Limits)
    strict: bool = True

    def __post_init__(self) -> None:
        if self.runs < 1:
            raise ConfigError(f"agent runs: must be at least 1, got {self.runs}")


def ask(
    names: Sequence[str],
    build: Callable[[str], Prompt],
    answerer: Client | Completer,
    *,
    kept: AnswerCache | str | os.PathLike | None = None,
    key: Callable[[str], str] = str,
    agent_options: Agent | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Response]:
    """The response to each question, in the order of the names.

    Args:
        build: the prompt of a question; called in one thread at a time, and not for answers that are kept.
        answerer: a client asks as many questions at once as its endpoint allows, anything else one.
        kept: file of responses; a run that was ended goes on where it stopped. Failures are not kept.
        key: under which name a response is kept; it must tell all that decides the answer.
        progress: called with (questions done, all).

    Raises:
        EndpointError: ten questions in a row failed; what was answered before is kept.
        ConfigError: files for an agent, but an answerer that is no client, or a machine that cannot confine code.
    """
    asking = _Asking(build, answerer, kept, key, agent_options or Agent())
    if isinstance(answerer, Client):
        return answerer.map(asking.about, names, progress=progress)
    return concurrency.run_all(asking.about, names, workers=1, progress=progress)


class _Asking:
    def __init__(
        self,
        build: Callable[[str], Prompt],
        answerer: Client | Completer,
        kept: AnswerCache | str | os.PathLike | None,
        key: Callable[[str], str],
        agent_options: Agent,
    ):
        self._build, self._answerer, self._key, self._agent = build, answerer, key, agent_options
        self._kept = kept if kept is None or isinstance(kept, AnswerCache) else AnswerCache(kept)
        self._building, self._counting = threading.Lock(), threading.Lock()
        self._failed_in_a_row = 0

    def about(self, name: str) -> Response:
        known = None if self._kept is None else self._kept.get(self._key(name))
        if known is not None:
            try:
                return Response.from_json(known)
            except (TypeError, KeyError):
                pass  # of another version: asked again
        with self._building:
            prompt = self._build(name)
        response = self._agentic(name, prompt) if prompt.files else self._single(name, prompt)
        self._note(response.error)
        if self._kept is not None and response.error is None:
            self._kept.put(self._key(name), response.to_json())
        return response

    def _single(self, name: str, prompt: Prompt) -> Response:
        asked = Response(name, prompt=prompt.digest, letters=prompt.letters)
        if not isinstance(self._answerer, Client):
            try:
                text = self._answerer.complete(prompt.text, list(prompt.images) or None)
            except EndpointError as error:
                return dataclasses.replace(asked, error=str(error))
            return dataclasses.replace(asked, text=text)
        reply = self._answerer.chat(prompt.messages())
        return dataclasses.replace(
            asked,
            text=reply.text,
            error=reply.error,
            cut_off=reply.finish_reason == "length",
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
        )

    def _agentic(self, name: str, prompt: Prompt) -> Response:
        if not isinstance(self._answerer, Client):
            raise ConfigError("agentic modes hold a conversation: they need an endpoint")
        options = self._agent
        with Sandbox(files=prompt.files, limits=options.limits, strict=options.strict) as sandbox:
            done = agent.converse(
                self._answerer,
                prompt.messages(),
                sandbox,
                max_runs=options.runs,
                offer_tool=options.offer_tool,
            )
        said = [m.get("content") or "" for m in done.conversation if m["role"] == "assistant"]
        refused = dict.fromkeys(attempt for run in done.runs for attempt in run.attempts)
        return Response(
            id=name,
            text=done.text,
            error=done.error,
            prompt=prompt.digest,
            letters=prompt.letters,
            turns=tuple(said),
            runs=len(done.runs),
            attempts=tuple(refused),
        )

    def _note(self, error: str | None) -> None:
        """Ends a run whose endpoint never answers, rather than failing once a question."""
        with self._counting:
            self._failed_in_a_row = 0 if error is None else self._failed_in_a_row + 1
            if self._failed_in_a_row >= GIVE_UP_AFTER:
                raise EndpointError(f"{GIVE_UP_AFTER} questions in a row failed, the last with: {error}")
