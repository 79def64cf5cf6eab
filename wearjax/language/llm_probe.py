"""Language models as zero-shot predictors: one week of a participant, one question, one answer line.

The three configurations of the OpenMHC paper: a table of statistics, a figure, or Python on the week's hours.
What the paper leaves open is ours and said where it is chosen: the week (`week.fullest_week`), the statistics
(`statistics_text.describe`), the words (`task_prompts`, `probe_prompts`), the reading (`parsing`).
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Float32, Float64

from wearjax.errors import ConfigError, MethodError
from wearjax.language import (
    agent,
    parsing,
    probe_prompts,
    statistics_text,
    task_prompts,
    week,
    week_image,
)
from wearjax.language.answer_cache import AnswerCache
from wearjax.language.endpoint import Client, Endpoint, EndpointError
from wearjax.language.messages import Message
from wearjax.language.sandbox import Limits, Outcome, Sandbox
from wearjax.language.task_prompts import TaskDescription
from wearjax.language.week import Week
from wearjax.predict.protocols import DataSpec, EvalContext

Mode = Literal["statistics", "vision", "agentic"]
BinaryAnswer = Literal["index", "probability"]
MODES: tuple[str, ...] = get_args(Mode)
GIVE_UP_AFTER = 10
_IMAGE_BYTES = 256 << 20  # figures are kept for the next task while they fit


@dataclass(frozen=True)
class ProbeAnswer:
    """What became of one participant.

    Attributes:
        outcome: `parsed`; `clipped` (a number outside the range of the training labels, moved to its end);
            `unparsed`; `failed` (the endpoint gave no answer); `no data` (no measured hour, not asked).
        value: the prediction; NaN for the last three.
        text: the model's last reply.
        undated: days could not be matched with dates and were taken as consecutive; not in this library's harness,
            whose data tell their dates.
        runs: of the sandbox.
    """

    participant: str
    outcome: Literal["parsed", "clipped", "unparsed", "failed", "no data"]
    value: float = float("nan")
    text: str = ""
    error: str | None = None
    undated: bool = False
    cached: bool = False
    runs: tuple[Outcome, ...] = field(default=(), repr=False)


class LLMProbe:
    """Predicts labels by asking a language model about one week of each participant.

    Zero-shot: `fit` only records the range of a number's labels, which the prompt states. Participant ids and
    dates are never sent. Ordinal answers are levels; binary ones 0 or 1, or with `binary_answer="probability"`
    the stated probability of class 1. No readable answer is NaN, and is counted.

    Args:
        mode: `statistics` (a table), `vision` (a figure) or `agentic` (Python on the hours, sandboxed).
        endpoint: where the model answers, or a client in use elsewhere too.
        cache: file of answers; a run that was ended goes on where it stopped. Only with an `Endpoint`.
        descriptions: tasks in words, by code, beside or instead of the known ones.
        max_runs, offer_tool: of the agentic mode, see `agent.converse`.
        limits, strict: of the sandbox; a strict one refuses a machine that cannot confine code.
        progress: called with (participants done, all) in a task.

    Attributes:
        answers: by (task, split), one `ProbeAnswer` a participant, in the order of the data.
        client: holds counts of calls and tokens (`usage`) and every failed call (`failures`).

    Raises:
        ConfigError: an unknown mode or way of answering, or a cache beside a client.
    """

    data_spec = DataSpec("hourly", "day")

    def __init__(
        self,
        mode: Mode,
        endpoint: Endpoint | Client,
        *,
        cache: AnswerCache | str | os.PathLike | None = None,
        descriptions: Mapping[str, TaskDescription] | None = None,
        binary_answer: BinaryAnswer = "index",
        max_runs: int = agent.MAX_RUNS,
        offer_tool: bool = False,
        limits: Limits | None = None,
        strict: bool = True,
        progress: Callable[[int, int], None] | None = None,
        name: str | None = None,
    ):
        if mode not in MODES:
            raise ConfigError(f"mode {mode!r} is unknown; expected one of {', '.join(MODES)}")
        if binary_answer not in get_args(BinaryAnswer):
            raise ConfigError(f"binary_answer {binary_answer!r}: expected 'index' or 'probability'")
        if isinstance(endpoint, Client) and cache is not None:
            raise ConfigError("give the cache to the client, or an Endpoint instead of a Client")
        if max_runs < 1:
            raise ConfigError(f"max_runs: must be at least 1, got {max_runs}")
        self.mode = mode
        self.client = endpoint if isinstance(endpoint, Client) else Client(endpoint, cache=cache)
        self.name = name or f"{self.client.endpoint.model} ({mode})"
        self.answers: dict[tuple[str, str], tuple[ProbeAnswer, ...]] = {}
        self._descriptions = dict(descriptions or {})
        self._binary_answer = binary_answer
        self._max_runs, self._offer_tool = max_runs, offer_tool
        self._limits, self._strict, self._progress = limits or Limits(), strict, progress
        self._context: EvalContext | None = None
        self._ranges: dict[str, tuple[float, float]] = {}
        self._images: dict[bytes, bytes] = {}
        self._reading = threading.Lock()

    @property
    def settings(self) -> dict:
        """What changes the predictions."""
        endpoint = self.client.endpoint
        return {
            "mode": self.mode, "model": endpoint.model, **endpoint.parameters(),
            "binary_answer": self._binary_answer, "max_runs": self._max_runs, "offer_tool": self._offer_tool,
            "limits": vars(self._limits), "prompts": probe_prompts.VERSION,
        }  # fmt: skip

    def set_context(self, context: EvalContext) -> None:
        self._context = context

    def fit(self, data: Sequence, labels: Float64[np.ndarray, "n"], task_type: str) -> None:
        """Records the range of the labels; the data are not read."""
        finite = np.asarray(labels, np.float64)[np.isfinite(labels)]
        if len(finite):
            self._ranges[self._known_context().task] = (float(finite.min()), float(finite.max()))

    def predict(self, data: Sequence[Float32[np.ndarray, "day 24 38"]]) -> Float64[np.ndarray, "n"]:
        """Asks about every participant, several at once.

        Raises:
            MethodError: no context, or another number of participants in it.
            ConfigError: the task has no description, or the machine cannot confine code.
            EndpointError: the first ten calls all failed; what was answered before is in the cache.
        """
        context = self._known_context()
        if len(data) != len(context.user_ids):
            raise MethodError(f"{len(data)} participants in the data, {len(context.user_ids)} in the context")
        described = self._descriptions.get(context.task) or task_prompts.description(context.task)
        dates = getattr(data, "dates", context.dates)  # of the days that are there, not of all eligible ones
        asking = _Asking(self, context, described, self._ranges.get(context.task), dates)
        answers = self.client.map(
            lambda place: asking.about(place, self._read(data, place)),
            range(len(data)),
            progress=self._progress,
        )
        self.answers[context.task, context.split] = tuple(answers)
        return np.array([answer.value for answer in answers], np.float64)

    def counts(self) -> dict[tuple[str, str], dict[str, int]]:
        """How many participants of each (task, split) had which outcome, and how many were `undated`."""
        return {
            key: dict(Counter(a.outcome for a in answers) + Counter(undated=sum(a.undated for a in answers)))
            for key, answers in self.answers.items()
        }

    def close(self) -> None:
        self.client.close()

    def _known_context(self) -> EvalContext:
        if self._context is None:
            raise MethodError(f"{self.name}: set_context must be called first; it tells the task")
        return self._context

    def _read(self, data: Sequence, place: int) -> Float[np.ndarray, "day 24 38"]:
        with self._reading:  # days are read and kept by one thread at a time
            return data[place]

    def _conversation(self, shown: Week, question: str) -> list[Message]:
        if self.mode == "statistics":
            return probe_prompts.with_statistics(statistics_text.describe(shown), question)
        if self.mode == "vision":
            return probe_prompts.with_figure(self._figure(shown), question)
        return probe_prompts.with_python(question, self._max_runs)

    def _figure(self, shown: Week) -> bytes:
        key = shown.values.tobytes()
        figure = self._images.get(key)
        if figure is None:
            figure = week_image.render(shown)
            if sum(map(len, self._images.values())) < _IMAGE_BYTES:
                self._images[key] = figure
        return figure

    def _ask(self, shown: Week, question: str) -> tuple[str, str | None, bool, tuple[Outcome, ...]]:
        """Last reply, error, whether cached, and runs."""
        conversation = self._conversation(shown, question)
        if self.mode != "agentic":
            reply = self.client.chat(conversation)
            return reply.text, reply.error, reply.cached, ()
        files = {probe_prompts.FILE: statistics_text.csv(shown)}
        with Sandbox(files=files, limits=self._limits, strict=self._strict) as sandbox:
            done = agent.converse(
                self.client, conversation, sandbox, max_runs=self._max_runs, offer_tool=self._offer_tool
            )
        return done.text, done.error, done.cached, done.runs


class _Asking:
    """One task put to one cohort."""

    def __init__(
        self,
        probe: LLMProbe,
        context: EvalContext,
        described: TaskDescription,
        label_range: tuple[float, float] | None,
        dates: Sequence[Sequence[str]],
    ):
        self._probe, self._context, self._described, self._range = probe, context, described, label_range
        self._dates = dates
        self._probability = len(described.labels) == 2 and probe._binary_answer == "probability"
        self._question = probe_prompts.question(
            described, label_range=label_range, as_probability=self._probability
        )
        self._lock = threading.Lock()
        self._failed_in_a_row = 0

    def about(self, place: int, days: Float[np.ndarray, "day 24 38"]) -> ProbeAnswer:
        participant, dates = self._context.user_ids[place], self._dates[place]
        undated = len(dates) != len(days)
        shown = week.fullest_week(days, None if undated else dates)
        if shown is None:
            return ProbeAnswer(participant, "no data", undated=undated and len(days) > 0)
        text, error, cached, runs = self._probe._ask(shown, self._question)
        self._note(error)
        if error is not None:
            return ProbeAnswer(participant, "failed", error=error, undated=undated, runs=runs)
        value = self._value(text)
        if value is None:
            return ProbeAnswer(participant, "unparsed", text=text, undated=undated, cached=cached, runs=runs)
        kept = value
        if not self._described.labels and self._range is not None:
            kept = min(max(value, self._range[0]), self._range[1])
        outcome: Literal["parsed", "clipped"] = "parsed" if kept == value else "clipped"
        return ProbeAnswer(participant, outcome, kept, text, undated=undated, cached=cached, runs=runs)

    def _value(self, text: str) -> float | None:
        if self._probability:
            return parsing.probability(text)
        if self._described.labels:
            return parsing.label(text, self._described.labels)
        return parsing.number(text, percent_as_fraction=self._described.is_fraction)

    def _note(self, error: str | None) -> None:
        """Ends a run whose endpoint never answers, rather than failing once a participant."""
        with self._lock:
            self._failed_in_a_row = 0 if error is None else self._failed_in_a_row + 1
            if self._failed_in_a_row >= GIVE_UP_AFTER:
                raise EndpointError(
                    f"{self._probe.name}: {GIVE_UP_AFTER} calls in a row failed, the last with: {error}"
                )
