"""The language-model probes of one evaluation: made together, and what they were answered kept beside the results."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wearjax import json_text, writing
from wearjax.errors import ConfigError, StoreError
from wearjax.language import llm_probe
from wearjax.language.answer_cache import AnswerCache
from wearjax.language.endpoint import Endpoint
from wearjax.language.llm_probe import LLMProbe

ANSWERS, COUNTS = "answers.jsonl", "llm.json"
METHODS: dict[str, str] = {f"llm_{mode}": mode for mode in llm_probe.MODES}
FORMAT = 1


class ProbeRun:
    """Probes that share an endpoint and a file of answers. As a context manager it closes them and writes the counts.

    `llm.json` has for each probe its settings, the outcomes of every (task, split) as `LLMProbe.counts` tells them,
    the calls and tokens, and every failed call. A run that goes on where another stopped adds to the file: calls,
    tokens and failures are summed, a task that is asked again replaces its outcomes.

    Args:
        methods: which of `METHODS`.
        endpoint: where the model answers.
        out: run folder; nothing is written into it before the model was asked.
        answers: folder of the answers; default is `out`.
        fresh: start the counts anew.
        progress: called with (participants done, all) in a task.
        options: of `LLMProbe`.

    Attributes:
        probes: by method.

    Raises:
        ConfigError: an unknown method, httpx is not installed, or the key's environment variable is not set.
        StoreError: answers or counts that are there cannot be read.
    """

    def __init__(
        self,
        methods: Sequence[str],
        endpoint: Endpoint,
        *,
        out: str | os.PathLike,
        answers: str | os.PathLike | None = None,
        fresh: bool = False,
        progress: Callable[[int, int], None] | None = None,
        **options: Any,
    ):
        for name in methods:
            if name not in METHODS:
                raise ConfigError(f"method {name!r} asks no language model; {', '.join(METHODS)} do")
        self.path = Path(out) / COUNTS
        self._before = {} if fresh else _read(self.path)
        cache = AnswerCache(Path(out if answers is None else answers) / ANSWERS)
        self.probes = {
            name: LLMProbe(
                METHODS[name],  # type: ignore[arg-type]
                endpoint,
                cache=cache,
                name=name,
                progress=progress,
                **options,
            )
            for name in dict.fromkeys(methods)
        }
        for probe in self.probes.values():
            probe.client.check()

    def __enter__(self) -> ProbeRun:
        return self

    def __exit__(self, *_) -> None:
        for probe in self.probes.values():
            probe.close()
        if any(_asked(probe) for probe in self.probes.values()):
            self.save()

    def counts(self) -> dict[str, dict[str, Any]]:
        """What `llm.json` says of each probe, those of earlier runs that are no longer asked included."""
        now = {name: _counts(probe) for name, probe in self.probes.items()}
        return {**self._before, **{name: _added(self._before.get(name), new) for name, new in now.items()}}

    def save(self) -> None:
        """Writes `llm.json`; it appears whole or not at all. Raises StoreError when it cannot."""
        text = json.dumps({"format": FORMAT, "probes": self.counts()}, indent=1, default=str)
        with writing.file(self.path) as partial:
            partial.write_text(text + "\n")

    def lines(self) -> tuple[str, ...]:
        """One line a probe for people."""
        counts = self.counts()
        return tuple(_line(name, counts[name]) for name in self.probes)


def _asked(probe: LLMProbe) -> bool:
    usage = probe.client.usage
    return bool(probe.answers or usage.answers or usage.cached or usage.failed)


def _counts(probe: LLMProbe) -> dict[str, Any]:
    outcomes: dict[str, dict[str, dict[str, int]]] = {}
    for (task, split), found in probe.counts().items():
        outcomes.setdefault(task, {})[split] = found
    return {
        "settings": probe.settings,
        "outcomes": outcomes,
        "usage": dataclasses.asdict(probe.client.usage),
        "failures": [dataclasses.asdict(failure) for failure in probe.client.failures],
    }


def _added(before: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    if before is None:
        return dict(new)
    outcomes = {task: dict(splits) for task, splits in before["outcomes"].items()}
    for task, splits in new["outcomes"].items():
        outcomes.setdefault(task, {}).update(splits)
    usage = {name: count + before["usage"].get(name, 0) for name, count in new["usage"].items()}
    failures = [*before["failures"], *new["failures"]]
    return {"settings": new["settings"], "outcomes": outcomes, "usage": usage, "failures": failures}


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        content = json_text.loads(path.read_text())
        version, probes = content["format"], dict(content["probes"])
        for counts in probes.values():
            dict(counts["outcomes"]), dict(counts["usage"]), list(counts["failures"])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: no counts of language models can be read from it ({error!r})") from None
    if version != FORMAT:
        raise StoreError(f"{path}: counts of format {version}, this version reads {FORMAT}")
    return probes


def _line(name: str, counts: Mapping[str, Any]) -> str:
    total: Counter[str] = Counter()
    for splits in counts["outcomes"].values():
        for found in splits.values():
            total.update(found)
    usage = counts["usage"]
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(total.items(), key=lambda p: -p[1]))
    return (
        f"{name}: {told or 'nobody asked'}; {usage['answers']:,} answers of the model, {usage['cached']:,} known, "
        f"{usage['failed']:,} failed calls; {usage['prompt_tokens']:,} tokens in, "
        f"{usage['completion_tokens']:,} out"
    )
