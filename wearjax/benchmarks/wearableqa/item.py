"""The finished question: what a reader is shown, what is kept from the prompt, and how its answer is computed.

The names of the fields are those of WearableQA's public records as far as those are known; a question's context is not
stored but rendered from the records beside it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wearjax import json_text
from wearjax.benchmarks.wearableqa import registry, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Coupling, Hidden, Key, Option
from wearjax.benchmarks.wearableqa.graph import Graph
from wearjax.errors import ConfigError, StoreError

LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True, eq=False)
class Item:
    """One question with ten options.

    Attributes:
        id: source, user and end date, with a number behind it where several share them.
        stem: the question. Of health questions it says that this is no medical advice.
        choices: ten texts, A to J.
        keys: what each choice claims.
        answer: letter of the gold.
        category: the type.
        scope: `history` where days before the window are needed.
        metrics: what it is about; `hidden` what the prompt leaves out.
        tag: whether the metrics are tied by definition; `rho` how strong the relation is.
        relation: the literature relation it rests on, and whether somebody has verified it (None: it rests on none).
        seed: of its options' order.
    """

    id: str
    stem: str
    choices: tuple[str, ...]
    keys: tuple[Key, ...]
    answer: str
    category: str
    reasoning_group: Literal["data", "health"]
    signal: Literal["single", "cross"]
    grounding: Literal["population", "literature"]
    scope: Literal["window", "history"]
    user_id: str
    end_date: dt.date
    metrics: tuple[str, ...]
    hidden: Hidden
    graph: Graph
    coupling: Coupling | None = None
    tag: Literal["definitional", "empirical", ""] = ""
    rho: float | None = None
    relation: str | None = None
    relation_verified: bool | None = None
    tolerance: float = 0.0
    seed: int = 0
    window_size: int = windows.WINDOW
    representation: str = "row"

    def __post_init__(self):
        if len(self.choices) != len(LETTERS) or len(self.keys) != len(LETTERS) or self.answer not in LETTERS:
            raise ConfigError(f"item {self.id}: expected {len(LETTERS)} choices, one of them the answer")

    @property
    def end(self) -> int:
        """Days since 1970-01-01."""
        return (self.end_date - windows.EPOCH).days

    @property
    def gold(self) -> int:
        """Place of the answer among the choices."""
        return LETTERS.index(self.answer)

    @property
    def options(self) -> tuple[Option, ...]:
        return tuple(Option(text, key) for text, key in zip(self.choices, self.keys, strict=True))

    def candidate(self) -> Candidate:
        """As its type proposed it, for the type's checker."""
        options = self.options
        return Candidate(
            type=self.category,
            user=self.user_id,
            end=self.end,
            metrics=self.metrics,
            stem=self.stem,
            graph=self.graph,
            gold=options[self.gold],
            distractors=tuple(option for i, option in enumerate(options) if i != self.gold),
            coupling=self.coupling,
            tolerance=self.tolerance,
            hidden=self.hidden,
            relation=self.relation,
            tag=self.tag,
            rho=self.rho,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` is the inverse."""
        return {
            "id": self.id,
            "question": self.stem,
            "choices": list(self.choices),
            "answer": self.answer,
            "category": self.category,
            "reasoning_group": self.reasoning_group,
            "signal": self.signal,
            "grounding": self.grounding,
            "representation": self.representation,
            "scope": self.scope,
            "user_id": self.user_id,
            "end_date": self.end_date.isoformat(),
            "window_size": self.window_size,
            "metrics": list(self.metrics),
            "hidden": hidden_to_json(self.hidden),
            "shows_cohort": not self.hidden.cohort,
            "gold_key": list(self.keys[self.gold]),
            "option_keys": [list(key) for key in self.keys],
            "graph": self.graph.to_json(),
            "graph_digest": self.graph.digest(),
            "coupling": None if self.coupling is None else list(self.coupling),
            "tag": self.tag,
            "rho": self.rho,
            "relation": self.relation,
            "relation_verified": self.relation_verified,
            "tolerance": self.tolerance,
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Item:
        """Raises ConfigError where it is no item, or its graph is not the one it was made with."""
        try:
            _check_kinds(stored)
            registry.TYPES.get(stored["category"])  # its module brings the primitives of its graph
            graph = Graph.from_json(stored["graph"])
            if graph.digest() != stored["graph_digest"]:
                raise ConfigError(f"item {stored['id']}: its graph has another digest than the one stored")
            return cls(
                id=stored["id"],
                stem=stored["question"],
                choices=tuple(stored["choices"]),
                keys=tuple(_key(key) for key in stored["option_keys"]),
                answer=stored["answer"],
                end_date=dt.date.fromisoformat(stored["end_date"]),
                metrics=tuple(stored["metrics"]),
                hidden=hidden_from_json(stored["hidden"]),
                graph=graph,
                coupling=coupling_from_json(stored["coupling"]),
                **{name: stored[name] for name in _PLAIN},
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            raise ConfigError(f"item: not readable ({type(error).__name__}: {error})") from None


_PLAIN = (
    "category", "reasoning_group", "signal", "grounding", "scope", "user_id", "tag", "rho", "relation",
    "relation_verified", "tolerance", "seed", "window_size", "representation",
)  # fmt: skip


_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        ("id", "question", "answer", "category", "reasoning_group", "signal", "grounding", "scope", "user_id", "tag",
         "representation"), (str,)),
    "relation": (str, type(None)),
    "relation_verified": (bool, type(None)),
    "rho": (int, float, type(None)),
    "tolerance": (int, float),
    "seed": (int,),
    "window_size": (int,),
}  # fmt: skip


def _check_kinds(stored: Mapping[str, Any]) -> None:
    for name, kinds in _KINDS.items():
        if type(stored[name]) not in kinds:
            raise TypeError(f"{name} is {stored[name]!r:.40}")
    for name in ("choices", "metrics"):
        if not all(isinstance(text, str) for text in stored[name]):
            raise TypeError(f"{name} are not texts")


def hidden_to_json(hidden: Hidden) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(hidden).items()
    }


def hidden_from_json(stored: Mapping[str, Any]) -> Hidden:
    """Raises TypeError where it is something else."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
    }
    hidden = Hidden(**values)
    metrics, flags = ((hidden.metrics, hidden.window_metrics), dataclasses.astuple(hidden)[2:])
    if not all(isinstance(each, tuple) and all(isinstance(m, str) for m in each) for each in metrics):
        raise TypeError("hidden metrics are not texts")
    if not all(isinstance(flag, bool) for flag in flags):
        raise TypeError("a hidden section is neither true nor false")
    return hidden


def coupling_from_json(stored: Any) -> Coupling | None:
    return None if stored is None else (stored[0], stored[1], int(stored[2]))


def _key(stored: Iterable[float]) -> Key:
    return tuple(float(number) for number in stored)


def line(content: Mapping[str, Any]) -> str:
    """One line of a file of JSON lines, the same bytes for the same content."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n"


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines. Raises StoreError naming the first line that is none."""
    try:
        with file.open(encoding="utf-8") as lines:
            for number, text in enumerate(lines, 1):
                try:
                    found = json_text.loads(text)
                except ValueError:
                    raise StoreError(f"{file}: line {number} is not JSON") from None
                if not isinstance(found, dict):
                    raise StoreError(f"{file}: line {number} is not an object")
                yield found
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{file}: not readable ({error})") from None
