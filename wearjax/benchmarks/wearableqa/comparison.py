"""Several runs side by side: formats, reasoning against the letter alone, and what removing data costs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wearjax.benchmarks import result_files
from wearjax.benchmarks.wearableqa import analysis, results
from wearjax.benchmarks.wearableqa.analysis import Accuracy, Paired
from wearjax.benchmarks.wearableqa.results import QAResults, percent, points
from wearjax.errors import ConfigError


@dataclass(frozen=True)
class Difference:
    """Two runs of a model on the same questions.

    Attributes:
        first, second: titles of the runs; the rows are second minus first.
        rows: over all questions, then by signal, group and scope.
    """

    first: str
    second: str
    rows: tuple[Paired, ...]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs on one data set.

    Attributes:
        runs: title and overall accuracy of each, as given.
        formats: of each model and mode with nothing removed, the accuracy by format.
        reasoning: direct against with reasoning, of runs that differ in nothing else.
        removals: all data against less, of runs that differ in nothing else; by scope in the rows.
    """

    runs: list[tuple[str, Accuracy]]
    formats: dict[str, dict[str, Accuracy]]
    reasoning: list[Difference]
    removals: list[Difference]

    def summary(self) -> str:
        """The tables as text."""
        rows = [["run", "questions", "right", "95 % interval"]]
        rows += [
            [title, f"{a.n:,}", percent(a.accuracy), f"[{percent(a.low)}, {percent(a.high)}]"]
            for title, a in self.runs
        ]
        lines = result_files.aligned(rows)
        for heading, (first, second), found in self.differences():
            rows = [["questions of", "number", first, second, "difference", "95 % interval", "p (McNemar)"]]
            rows += [_row(each, row) for each in found for row in each.rows]
            lines += [
                "",
                f"{heading}: share of right answers to the same questions",
                *result_files.aligned(rows),
            ]
        return "\n".join(lines)

    def differences(self) -> list[tuple[str, tuple[str, str], list[Difference]]]:
        """The differences that there are: heading, what the first and the second run are, and the pairs of runs."""
        found = [
            ("Reasoning against the letter alone", ("letter alone", "with reasoning"), self.reasoning),
            ("Less data against all", ("all data", "less data"), self.removals),
        ]
        return [each for each in found if each[2]]

    def content(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "benchmark": f"{results.BENCHMARK} comparison",
            "runs": [{"title": title, **dataclasses.asdict(a)} for title, a in self.runs],
            "formats": {
                name: {form: dataclasses.asdict(a) for form, a in each.items()}
                for name, each in self.formats.items()
            },
            "reasoning": [dataclasses.asdict(each) for each in self.reasoning],
            "removals": [dataclasses.asdict(each) for each in self.removals],
        }


def compare(runs: Sequence[QAResults], *, draws: int = analysis.DRAWS, seed: int = 42) -> Comparison:
    """What runs on the same questions say together.

    Raises:
        ConfigError: none was given, or they were made on different data sets.
    """
    if not runs:
        raise ConfigError("nothing to compare: give the folders of finished runs")
    digests = {run.config["dataset"]["digest"] for run in runs}
    if len(digests) > 1:
        raise ConfigError(f"the runs were made on {len(digests)} different data sets; compare those of one")
    formats: dict[str, dict[str, Accuracy]] = {}
    for run in runs:
        if run.config["removed"] == "nothing" and run.config["mode"] in ("cot", "direct"):
            name = f"{run.config['model']} · {run.config['mode']}"
            formats.setdefault(name, {})[run.config["format"]] = run.overall
    reasoning, removals = [], []
    for first in runs:
        for second in runs:
            differs = _differing(first, second)
            if differs == {"mode"} and (first.config["mode"], second.config["mode"]) == ("direct", "cot"):
                reasoning.append(_difference(first, second, draws, seed))
            if differs == {"removed"} and first.config["removed"] == "nothing":
                removals.append(_difference(first, second, draws, seed))
    return Comparison(
        runs=[(run.title, run.overall) for run in runs],
        formats={name: each for name, each in formats.items() if len(each) > 1},
        reasoning=reasoning,
        removals=removals,
    )


def _differing(first: QAResults, second: QAResults) -> set[str]:
    """Which of the settings that decide an answer two runs do not share."""
    names = ("model", "parameters", "format", "mode", "removed", "prompts", "agent")
    return {name for name in names if first.config.get(name) != second.config.get(name)}


def _difference(first: QAResults, second: QAResults, draws: int, seed: int) -> Difference:
    rows = analysis.paired(first.answers, second.answers, draws=draws, seed=seed)
    return Difference(first.title, second.title, tuple(rows))


def _row(each: Difference, row: Paired) -> list[str]:
    interval = "" if math.isnan(row.low) else f"[{points(row.low)}, {points(row.high)}]"
    name = f"all: {each.second} − {each.first}" if row.axis == "all" else f"  {row.axis}: {row.value}"
    return [
        name, f"{row.n:,}", percent(row.first), percent(row.second), points(row.difference), interval, f"{row.p:.3g}",
    ]  # fmt: skip
