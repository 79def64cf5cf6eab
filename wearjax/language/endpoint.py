"""Client of any OpenAI-compatible chat endpoint: retries, answer cache, counts, several calls at once.

Nothing is ever called but the address that the user gives. The key is read from the environment at the moment of
a call and is written nowhere. httpx is imported at the first call.
"""

from __future__ import annotations

import dataclasses
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from wearjax.errors import ConfigError
from wearjax.language import answer_cache, answers, concurrency, messages
from wearjax.language.answer_cache import AnswerCache
from wearjax.language.answers import EndpointError, Reply, Retry
from wearjax.language.messages import Message

Item = TypeVar("Item")
Result = TypeVar("Result")
RETRIED = frozenset({408, 429, 500, 502, 503, 504, 529})  # of the 4xx only "timeout" and "too many"


@dataclass(frozen=True)
class Endpoint:
    """Where a model answers, and how it is asked.

    Attributes:
        base_url: up to and without `/chat/completions`, e.g. `http://localhost:8000/v1`.
        model: name that the endpoint knows.
        api_key_env: environment variable that holds the key; None sends none.
        temperature, max_tokens, seed: sent when not None; `extra` is added to the request as it is.
        max_tokens_field: some endpoints want `max_completion_tokens`.
        timeout_s: longest silence while connecting or waiting for the answer.
        retries: further tries after the first, on 408, 429, 500, 502, 503, 504, 529, on a timeout or broken
            connection, and on an answer that is not a chat completion. Other statuses end the call at once.
        backoff_s, backoff_max_s: the pause before retry k is `min(backoff_max_s, backoff_s * 2**k)`, times a
            random factor in [0.5, 1] that depends on `jitter_seed`, the question and k only.
        longest_wait_s: a `Retry-After` is honoured up to this; a longer one ends the call with an error.
        concurrency: calls at once.

    Raises:
        ConfigError: an impossible value, named.
    """

    base_url: str
    model: str
    api_key_env: str | None = None
    temperature: float | None = 0.0
    max_tokens: int | None = 2048
    seed: int | None = 0
    extra: Mapping[str, Any] = field(default_factory=dict)
    max_tokens_field: str = "max_tokens"
    timeout_s: float = 120.0
    retries: int = 5
    backoff_s: float = 1.0
    backoff_max_s: float = 60.0
    longest_wait_s: float = 600.0
    concurrency: int = 4
    jitter_seed: int = 0

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise ConfigError(f"endpoint base_url: expected http:// or https://, got {self.base_url!r}")
        if not self.model:
            raise ConfigError("endpoint model: expected a name")
        for name in ("timeout_s", "backoff_s", "backoff_max_s", "longest_wait_s", "concurrency"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"endpoint {name}: must be above 0, got {getattr(self, name)}")
        if self.retries < 0:
            raise ConfigError(f"endpoint retries: must be at least 0, got {self.retries}")
        fixed = {"model", "messages", "stream"} & set(self.extra)
        if fixed:
            raise ConfigError(f"endpoint extra: may not hold {', '.join(sorted(fixed))}")

    def parameters(self) -> dict[str, Any]:
        """What is sent beside model and messages; part of the cache key."""
        named = {
            "temperature": self.temperature,
            self.max_tokens_field: self.max_tokens,
            "seed": self.seed,
        }
        return {key: value for key, value in named.items() if value is not None} | dict(self.extra)


@dataclass
class Usage:
    """Counts of a client; tokens are those of fresh answers, as the endpoint states them."""

    answers: int = 0
    cached: int = 0
    failed: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True)
class Failure:
    """A call without an answer: digest of the question, last reason, tries."""

    key: str
    error: str
    attempts: int


class Client:
    """Asks an endpoint. Safe to share between threads; use as a context manager or call `close`.

    Args:
        cache: file of answers or an opened cache; None asks anew each time. Failures are not kept in it.

    Attributes:
        usage: counts so far.
        failures: every call that ended without an answer.
    """

    def __init__(self, endpoint: Endpoint, *, cache: AnswerCache | str | os.PathLike | None = None):
        self.endpoint = endpoint
        self.cache = cache if cache is None or isinstance(cache, AnswerCache) else AnswerCache(cache)
        self.usage = Usage()
        self.failures: list[Failure] = []
        self._http: Any = None
        self._lock = threading.Lock()
        self._same: dict[str, threading.Lock] = {}
        self._resume_at = 0.0  # no request of any thread before this, after a Retry-After
        self._stop = threading.Event()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def check(self) -> None:
        """Raises ConfigError where no call can succeed: httpx not installed, or the key's variable not set."""
        _httpx()
        self._key()

    def complete(self, prompt: str, images: Sequence[bytes] | None = None) -> str:
        """The answer's text to one prompt with PNG images. Raises EndpointError when there is none."""
        reply = self.chat([messages.user(prompt, images)])
        if reply.error is not None:
            raise EndpointError(f"{self.endpoint.model} at {self.endpoint.base_url}: {reply.error}")
        return reply.text

    def chat(self, conversation: Sequence[Message], *, tools: Sequence[Mapping] | None = None) -> Reply:
        """The next turn of a conversation. A failure of the endpoint is in the reply and in `failures`.

        Raises:
            ConfigError: httpx is not installed, or the key's environment variable is not set.
        """
        parameters = self.endpoint.parameters()
        if tools:
            parameters["tools"] = list(tools)
        key = answer_cache.digest(self.endpoint.model, list(conversation), parameters)
        with self._lock:
            same = self._same.setdefault(key, threading.Lock())
        with same:  # two threads with one question: the second reads the first one's answer
            try:
                return self._cached(key) or self._ask(key, conversation, parameters)
            finally:
                self._same.pop(key, None)

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Result]:
        """`function` of every item, as many at once as the endpoint allows; see `concurrency.run_all`.

        For functions that call this client. Ctrl-C cuts the pauses before retries short.
        """
        self._stop.clear()
        return concurrency.run_all(
            function, items, workers=self.endpoint.concurrency, progress=progress, stop=self._stop
        )

    def _cached(self, key: str) -> Reply | None:
        known = self.cache.get(key) if self.cache is not None else None
        if known is None:
            return None
        with self._lock:
            self.usage.cached += 1
        return dataclasses.replace(answers.read(known), cached=True)

    def _ask(self, key: str, conversation: Sequence[Message], parameters: dict[str, Any]) -> Reply:
        body = {"model": self.endpoint.model, "messages": list(conversation), **parameters}
        jitter = random.Random(f"{self.endpoint.jitter_seed}:{key}")
        attempt = 0
        while True:
            attempt += 1
            try:
                raw = self._post(body)
                reply = dataclasses.replace(answers.read(raw), attempts=attempt)
                break
            except Retry as again:
                pause = min(self.endpoint.backoff_max_s, self.endpoint.backoff_s * 2 ** (attempt - 1))
                reason = str(again)
                if attempt > self.endpoint.retries:
                    return self._failed(key, reason, attempt)
                if again.wait_s > self.endpoint.longest_wait_s:
                    return self._failed(key, f"{reason}; asks to wait {again.wait_s:.0f} s", attempt)
                with self._lock:
                    self.usage.retries += 1
                    self._resume_at = max(self._resume_at, time.monotonic() + again.wait_s)
                if self._stop.wait(max(pause * jitter.uniform(0.5, 1.0), again.wait_s)):
                    return self._failed(key, f"{reason}; interrupted before the next try", attempt)
            except EndpointError as error:
                return self._failed(key, str(error), attempt)
        if self.cache is not None:
            self.cache.put(key, raw)
        with self._lock:
            self.usage.answers += 1
            self.usage.prompt_tokens += reply.prompt_tokens
            self.usage.completion_tokens += reply.completion_tokens
        return reply

    def _failed(self, key: str, error: str, attempts: int) -> Reply:
        with self._lock:
            self.usage.failed += 1
            self.failures.append(Failure(key, error, attempts))
        return Reply(error=error, attempts=attempts)

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        """One request. Raises Retry when another may help, EndpointError when not."""
        httpx = _httpx()
        key, headers = self._key(), {}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        with self._lock:
            if self._http is None:
                self._http = httpx.Client(timeout=self.endpoint.timeout_s)
            http, pause = self._http, self._resume_at - time.monotonic()
        if pause > 0 and self._stop.wait(pause):
            raise EndpointError("interrupted while the endpoint asked for a pause")
        url = self.endpoint.base_url.rstrip("/") + "/chat/completions"
        try:
            response = http.post(url, json=body, headers=headers)
        except httpx.TimeoutException:
            raise Retry(f"no answer within {self.endpoint.timeout_s:g} s") from None
        except httpx.TransportError as error:
            raise Retry(f"connection failed ({type(error).__name__}: {error})") from None
        except httpx.InvalidURL as error:
            raise EndpointError(f"{url} is not an address ({error})") from None
        if response.status_code == 200:
            return answers.completion(response)
        reason = f"status {response.status_code}: {answers.message(response)}"
        if key:
            reason = reason.replace(key, "***")  # some endpoints repeat the key that they refuse
        if response.status_code in RETRIED:
            raise Retry(reason, answers.retry_after_s(response.headers.get("Retry-After")))
        raise EndpointError(reason)

    def _key(self) -> str | None:
        name = self.endpoint.api_key_env
        if name is None:
            return None
        key = os.environ.get(name, "").strip()
        if not key:
            raise ConfigError(f"environment variable {name} is not set; it should hold the endpoint's key")
        return key


def _httpx():
    try:
        import httpx
    except ImportError:
        raise ConfigError("language models need httpx; install it with: pip install 'wearjax[llm]'") from None
    return httpx
