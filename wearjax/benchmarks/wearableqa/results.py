"""Results of WearableQA: of one run, and of several runs side by side."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wearjax import json_text, plural
from wearjax.benchmarks import result_files
from wearjax.benchmarks.wearableqa import analysis
from wearjax.benchmarks.wearableqa.analysis import Accuracy, Answer, DefinitionalGap, Positions
from wearjax.errors import StoreError
from wearjax.language.questions_run import Response

if TYPE_CHECKING:
    import pandas as pd

BENCHMARK = "wearableqa"
FILE, TABLE = "results.json", "scores.parquet"
_ANSWER = tuple(field.name for field in dataclasses.fields(Answer))


@dataclass(frozen=True, eq=False, repr=False)
class QAResults:
    """What one run found.

    Attributes:
        config: everything that decides the result: model and its parameters, format, mode, what was removed, digest of
            the questions, generator, gate yields, versions.
        counts: questions, replies, and calls of the endpoint.
        answers: of every question, in the order of the data set.
        responses: as they came, in the same order; empty for a baseline.
        accuracies: overall and by kind of question.
        positions: how the letters are spread.
        gap: of definitional and empirical pairs; None where there are not both.
        baselines: accuracies of answers without a language model, by name.
    """

    config: dict[str, Any]
    counts: dict[str, Any]
    answers: list[Answer]
    responses: list[Response]
    accuracies: list[Accuracy]
    positions: Positions
    gap: DefinitionalGap | None
    baselines: dict[str, list[Accuracy]]

    def __repr__(self) -> str:
        return f"QAResults({self.title}: {percent(self.overall.accuracy)} of {self.overall.n:,})"

    @property
    def overall(self) -> Accuracy:
        return self.accuracies[0]

    @property
    def finished(self) -> bool:
        """Whether every question got a reply."""
        return self.overall.failed == 0

    @property
    def first_failure(self) -> str:
        """Why the first question without a reply got none; empty where all got one."""
        return next((response.error for response in self.responses if response.error), "")

    @property
    def title(self) -> str:
        """Model, format, mode, and what was removed, in short."""
        removed = self.config["removed"]
        parts = [self.config["model"], self.config["format"], self.config["mode"]]
        return " · ".join([*parts, *([] if removed == "nothing" else [f"without {removed}"])])

    def of(self, axis: str) -> list[Accuracy]:
        """Accuracies by `type`, `group`, `signal`, `grounding` or `scope`."""
        return [a for a in self.accuracies if a.axis == axis]

    def summary(self) -> str:
        """The tables as text."""
        total = self.overall
        lines = [
            f"WearableQA, {self.title}: {percent(total.accuracy)} of {total.n:,} {plural.noun(total.n, 'question')} "
            f"[{percent(total.low)}, {percent(total.high)}]; {total.unparsed:,} "
            f"{plural.noun(total.unparsed, 'reply', 'replies')} named no option"
        ]
        if not self.finished:
            lines.append(
                f"{_unanswered(total)}; the same command asks again. The first got none for: {self.first_failure}"
            )
        rows = [["questions of", "number", "right", "95 % interval", "no option named"]]
        rows += [_row(f"{a.axis}: {a.value}", a) for a in self.accuracies[1:]]
        rows += [_row(f"baseline: {name}", found[0]) for name, found in self.baselines.items()]
        lines += ["", *result_files.aligned(rows)]
        if self.positions.n:
            spread = self.positions
            lines.append(
                f"\nLetters: {spread.largest} in {percent(spread.largest_share)} of the replies, entropy "
                f"{spread.entropy_bits:.2f} bits, {spread.against_gold}"
            )
        if self.gap is not None:
            lines.append(
                f"Definitional minus empirical pairs, |ρ| from {analysis.STRONG}: {points(self.gap.difference)}; "
                f"matched on |ρ| {points(self.gap.matched)} [{points(self.gap.low)}, {points(self.gap.high)}]"
            )
        return "\n".join(lines)

    def to_dataframe(self) -> pd.DataFrame:
        """One row a kind of question, those of the baselines behind."""
        import pandas as pd

        return pd.DataFrame([dataclasses.asdict(score) for score in self.scores()])

    def to_csv(self, path: str | os.PathLike) -> None:
        """Writes `to_dataframe` as CSV."""
        self.to_dataframe().to_csv(path, index=False)

    def to_json(self, path: str | os.PathLike) -> None:
        """Writes config, counts, scores, and every response as it came."""
        result_files.write_json(path, self.content())

    def scores(self) -> list[QAScore]:
        """All accuracies under the name of who answered."""
        rows = [QAScore(self.config["model"], **dataclasses.asdict(a)) for a in self.accuracies]
        return rows + [
            QAScore(n, **dataclasses.asdict(a)) for n, each in self.baselines.items() for a in each
        ]

    def content(self) -> dict[str, Any]:
        """Plain values, as `results.json` holds them."""
        return {
            "benchmark": BENCHMARK,
            "config": self.config,
            "counts": self.counts,
            "accuracies": [dataclasses.asdict(a) for a in self.accuracies],
            "positions": dataclasses.asdict(self.positions),
            "gap": None if self.gap is None else dataclasses.asdict(self.gap),
            "baselines": {n: [dataclasses.asdict(a) for a in each] for n, each in self.baselines.items()},
            "answers": [dataclasses.asdict(a) for a in self.answers],
            "responses": [r.to_json() for r in self.responses],
        }

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `scores.parquet`, then `results.json`."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            result_files.write_table(folder / TABLE, result_files.score_table(self.scores(), QAScore))
            self.to_json(folder / FILE)
        except OSError as error:
            raise StoreError(f"{folder}: results cannot be written ({error})") from None


@dataclass(frozen=True)
class QAScore:
    """An accuracy of a model or baseline; fields as of `analysis.Accuracy`."""

    method: str
    axis: str
    value: str
    n: int
    right: int
    accuracy: float
    low: float
    high: float
    unparsed: int
    failed: int


def of_answers(
    answers: Sequence[Answer],
    *,
    config: dict[str, Any],
    counts: dict[str, Any],
    responses: Sequence[Response] = (),
    baselines: dict[str, Sequence[Answer]] | None = None,
    draws: int = analysis.DRAWS,
    seed: int = 42,
) -> QAResults:
    """All tables of the answers."""
    return QAResults(
        config=config,
        counts=counts,
        answers=list(answers),
        responses=list(responses),
        accuracies=analysis.accuracies(answers),
        positions=analysis.positions(answers),
        gap=analysis.definitional_gap(answers, draws=draws, seed=seed),
        baselines={name: analysis.accuracies(found) for name, found in (baselines or {}).items()},
    )


def is_run(folder: str | os.PathLike) -> bool:
    """Whether a folder holds the results of a WearableQA run."""
    try:
        return (
            json_text.loads((Path(folder) / FILE).read_text(encoding="utf-8")).get("benchmark") == BENCHMARK
        )
    except (OSError, ValueError, AttributeError):
        return False


def read(folder: str | os.PathLike) -> QAResults:
    """A finished run; its tables are made anew from the answers. Raises StoreError where it cannot be read."""
    file = Path(folder) / FILE
    try:
        stored = json_text.loads(file.read_text(encoding="utf-8"))
        if stored["benchmark"] != BENCHMARK:
            raise StoreError(f"{file}: results of {stored['benchmark']!r}, expected {BENCHMARK}")
        answers = [Answer(**{name: row[name] for name in _ANSWER}) for row in stored["answers"]]
        baselines = {n: [Accuracy(**row) for row in each] for n, each in stored["baselines"].items()}
        config = stored["config"]
        found = of_answers(
            answers,
            config=config,
            counts=stored["counts"],
            responses=[Response.from_json(row) for row in stored["responses"]],
            draws=config["bootstrap"],
            seed=config["seed"],
        )
        return dataclasses.replace(found, baselines=baselines)
    except FileNotFoundError:
        raise StoreError(f"{folder}: no results of WearableQA there (no {FILE})") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{file}: not readable as results of WearableQA ({error!r})") from None


def percent(value: float) -> str:
    """`72.9 %`, or a dash where undefined."""
    return "–" if value is None or value != value else f"{100 * value:.1f} %"


def points(value: float) -> str:
    """A difference of shares in percentage points, signed."""
    return "–" if value is None or value != value else f"{100 * value:+.1f} points"


def _unanswered(a: Accuracy) -> str:
    """How many questions got no reply."""
    asked, count = plural.noun(a.failed, "question"), plural.noun(a.failed, "counts", "count")
    return f"{a.failed:,} {asked} got no reply and {count} as wrong"


def _row(name: str, a: Accuracy) -> list[str]:
    return [
        name,
        f"{a.n:,}",
        percent(a.accuracy),
        f"[{percent(a.low)}, {percent(a.high)}]",
        f"{a.unparsed:,}",
    ]
