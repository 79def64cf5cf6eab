"""What an imputation evaluation found, and the files of its run folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from wearjax import plural, writing
from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import packet, score_text
from wearjax.benchmarks.openmhc.imputation_scores import FAIR_SKILL, RANK, SKILL, Score
from wearjax.benchmarks.openmhc.imputation_tasks import BASELINE, BUCKETS
from wearjax.errors import ConfigError
from wearjax.scores.errors import ErrorTable

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("method", "scenario", "split", "channel_group", "metric", "value")


@dataclass(frozen=True, eq=False, repr=False)
class ImputationResults:
    """Scores of one or more methods, with intervals and counts of everything skipped or substituted.

    Attributes:
        scores: skill, rank and fair skill of every method and scope: point, bootstrap mean, 95 % interval.
        errors: the per-participant errors behind them, unfloored.
        by_method: method, then scenario, then split to `per_channel`, `continuous`, `binary`, `n_samples`,
            `n_applicable`, `n_total`, `overall_fallback_rate`, `fallback_rate` (of each channel).
        method_names: the methods that were given, without an added baseline.
        split, seed, n_days, n_boot: as evaluated.
        n_samples: evaluated days.
        substituted: predictions that were not finite, or beyond float16, and were replaced by training statistics, by
            method.
        skipped: what was left out, by reason.
        seconds: time inside each method.
        config, versions: to repeat the evaluation.
        provenance: where the recordings come from, as far as their store says.
        gallery: example days, as `imputation_gallery` keeps them.
        notes: what a reader must know before comparing the scores.
        scored_on: days and cells, as packets tell them; empty where they are not known.
        run_dir: where they were saved; None where they were not.
    """

    scores: tuple[Score, ...]
    errors: ErrorTable
    by_method: dict[str, dict[str, dict[str, dict[str, Any]]]]
    method_names: tuple[str, ...]
    split: str
    seed: int
    n_days: int
    n_boot: int
    n_samples: int
    substituted: dict[str, int]
    skipped: dict[str, int]
    seconds: dict[str, float]
    config: dict[str, Any]
    versions: dict[str, str]
    provenance: dict[str, Any] = field(default_factory=dict)
    gallery: dict[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    scored_on: dict[str, Any] = field(default_factory=dict)
    run_dir: Path | None = None

    def __repr__(self) -> str:
        found = self._comparable()
        skills = [f"{m} {_percent(found.get(m, SKILL, 'overall'))} %" for m in self.method_names[:3]]
        more = ", …" if len(self.method_names) > 3 else ""
        return f"ImputationResults({self._cohort()}: {', '.join(skills)}{more})"

    @property
    def scenarios(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Metrics by scenario and split of the (first) given method."""
        return self.by_method[self.method_names[0]]

    @property
    def fallback_rates(self) -> dict[str, float]:
        """Largest rate over scenarios of each method."""
        return {
            method: max(
                (cell["overall_fallback_rate"] for s in found.values() for cell in s.values()), default=0.0
            )
            for method, found in self.by_method.items()
        }

    @property
    def overall_fallback_rate(self) -> float:
        """Largest rate over scenarios of the (first) given method."""
        return self.fallback_rates[self.method_names[0]]

    @property
    def per_user_errors(self) -> pa.Table:
        """Long table of the errors, over everybody and inside each subgroup."""
        return packet.imputation_rows(self.errors, split=self.split)

    @property
    def skill_scores(self) -> list[dict[str, Any]]:
        """Point skills: method, scope, skill_score, n_tasks; the baseline, 0 by definition, has no rows."""
        return [
            {"method": s.method, "scope": s.scope, "skill_score": s.point, "n_tasks": s.n_tasks}
            for s in self.scores
            if s.metric == SKILL and s.method != BASELINE
        ]

    def score(self, method: str, scope: str = "overall", *, metric: str = SKILL) -> Score:
        """One score. Raises ConfigError when there is none."""
        for found in self.scores:
            if (found.method, found.metric, found.scope) == (method, metric, scope):
                return found
        raise ConfigError(f"no {metric} of {method!r} for scope {scope!r}")

    def summary(self) -> str:
        """Two text tables, a row a method: the reported scores, and skill and rank by scenario.

        Skill and rank are the bootstrap means with percentile intervals, fair skill the point with a BCa
        interval, as the benchmark reports them; without draws everything is the point.
        """
        days = "" if self.n_days == 1 else f" in windows of {self.n_days}"
        what = f"Imputation, {self._cohort(':')}{days}"
        head = score_text.heading(what, baseline=BASELINE, n_boot=self.n_boot)
        found = self._comparable()
        tables = [self._headline(found), self._by_scenario(found)]
        shown = [*result_files.aligned(tables[0]), "", *result_files.aligned(tables[1])]
        return "\n".join([head, *shown, *self._remarks(found), *score_text.written(self.run_dir)])

    def _comparable(self) -> score_text.Comparable:
        return score_text.Comparable(self.scores, baseline=BASELINE, methods=self.errors.methods)

    def _cohort(self, mark: str = ",") -> str:
        people, days = len(self.errors.participants), self.n_samples
        shown = f"{people} {plural.noun(people, 'participant')}, {days} {plural.noun(days, 'day')}"
        return f"{self.split}{mark} {shown}"

    def _remarks(self, found: score_text.Comparable) -> list[str]:
        """What the tables cannot show."""
        lines = [
            *self.notes,
            "overall: all scenarios together; semantic: the last three; categories of channels: the first three only",
            "fallback: of the scenario with most; the share of answers that the train mean gave",
        ]
        for scenario, splits in self.scenarios.items():
            cell = splits[self.split]
            if 0 <= cell["n_applicable"] < cell["n_total"] / 4:
                lines.append(
                    f"{scenario}: {cell['n_applicable']} of {cell['n_total']} days have what it hides"
                )
        lines += [
            score_text.replaced(
                method,
                n,
                "answers were not finite, or beyond float16: the train mean stands in",
                self._shares(method),
            )
            for method, n in self.substituted.items()
            if n
        ]
        return lines + found.remarks(n_participants=len(self.errors.participants))

    def _shares(self, method: str) -> dict[str, float]:
        """Share of replaced answers in each scenario."""
        return {
            s: splits[self.split]["overall_fallback_rate"] for s, splits in self.by_method[method].items()
        }

    def _headline(self, found: score_text.Comparable) -> list[tuple[str, ...]]:
        scopes = ("overall", "semantic", *(f"cat:{b}" for b in BUCKETS))
        lines = [("method", "rank", *(s.removeprefix("cat:") for s in scopes), "fair", "fallback")]
        for method in found.best_first(self.errors.methods):
            cells = [_percent(found.get(method, SKILL, s), interval=s == "overall") for s in scopes]
            fair = _percent(found.get(method, FAIR_SKILL, "overall"), interval=True)
            rank = score_text.rank(found.get(method, RANK, "overall"))
            lines.append((found.name(method), rank, *cells, fair, f"{self.fallback_rates[method]:.2%}"))
        return lines

    def _by_scenario(self, found: score_text.Comparable) -> list[tuple[str, ...]]:
        lines = [("skill (rank)", *self.scenarios)]
        for method in found.best_first(self.errors.methods):
            cells = [
                f"{_percent(found.get(method, SKILL, s))} ({score_text.rank(found.get(method, RANK, s))})"
                for s in self.scenarios
            ]
            lines.append((found.name(method), *cells))
        return lines

    def rows(self) -> Iterator[tuple]:
        """The metrics in long form; `_meta` groups the numbers of a whole scenario."""
        for method, scenarios in self.by_method.items():
            for scenario, splits in scenarios.items():
                for split, cell in splits.items():
                    for group, metric, value in _long(cell):
                        yield method, scenario, split, group, metric, value

    def to_dataframe(self) -> pd.DataFrame:
        """The metrics in long form: method, scenario, split, channel_group, metric, value, channel_name.

        `channel_group` is the published code (`ch_5`), `channel_name` that of `wearjax.channels` (`watch_hr`).
        """
        import pandas as pd

        frame = pd.DataFrame(self.rows(), columns=list(COLUMNS))
        return frame.assign(channel_name=frame["channel_group"].map(score_text.channel))

    def to_csv(self, path: str | os.PathLike) -> None:
        """Writes the metrics in long form as CSV, channels by their published codes."""
        result_files.write_csv(path, COLUMNS, self.rows())

    def to_json(self, path: str | os.PathLike) -> None:
        """Writes `scenarios`, or `by_method` when several methods were given; undefined values are null."""
        content = self.scenarios if len(self.method_names) == 1 else self.by_method
        result_files.write_json(path, content)

    def to_submission(
        self,
        folder: str | os.PathLike,
        *,
        submission: packet.Submission | None = None,
        method: str | None = None,
        force: bool = False,
    ) -> Path:
        """Writes the leaderboard packet of one method; returns the path of its description.

        Args:
            submission: name, submitter and links; default names the method only.
            method: which one; default the only one given, or the only learned one of them.
            force: replace what stands in the way, not an earlier packet of the method only.

        Raises:
            ConfigError: no method is chosen of several, or the folder holds something else.
        """
        method = packet.one_of(self.errors.methods, self.method_names, method)
        about = submission or packet.Submission(name=method, submitter="", code_url="")
        rows = packet.imputation_rows(self.errors, split=self.split, rename={method: packet.slug(about.name)})
        return packet.write_submission(
            folder,
            rows,
            about,
            track="imputation",
            subtrack="single-day" if self.n_days == 1 else "long-context",
            fallback_rate=self.fallback_rates[method],
            scored_on=self.scored_on,
            force=force,
        )

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the run folder: scores, skills, per-participant errors, results, example days.

        A `config.json` that is already there, e.g. of the training, is kept; the evaluation has its
        settings in `results.json`.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        result_files.write_table(folder / "scores.parquet", result_files.score_table(self.scores, Score))
        result_files.write_table(folder / "per_user_errors.parquet", self.per_user_errors)
        result_files.write_skills(
            folder / "skill_scores.csv",
            self.skill_scores,
            columns=("method", "scope", "skill_score", "n_tasks"),
        )
        if self.gallery:
            with writing.file(folder / "predictions" / "gallery.npz") as partial:
                np.savez_compressed(partial, **self.gallery)  # type: ignore[arg-type]
        result_files.note_config(folder, self.config, self.versions)
        result_files.write_json(
            folder / "results.json", self._results_json()
        )  # last: its presence says the rest is there

    def _results_json(self) -> dict[str, Any]:
        counts = {name: splits[self.split] for name, splits in self.scenarios.items()}
        return {
            "track": "imputation",
            "baseline": BASELINE,
            "methods": list(self.errors.methods),
            "split": self.split,
            "n_days": self.n_days,
            "seed": self.seed,
            "bootstrap": self.n_boot,
            "n_participants": len(self.errors.participants),
            "n_samples": self.n_samples,
            "scenarios": {s: {k: cell[k] for k in ("n_applicable", "n_total")} for s, cell in counts.items()},
            "fallback": self.fallback_rates,
            "substituted": self.substituted,
            "skipped": self.skipped,
            "notes": list(self.notes),
            "seconds": self.seconds,
            "config": self.config,
            "versions": self.versions,
            "import": self.provenance,
            "scored_on": self.scored_on,
            "metrics": self.by_method,
        }


def _percent(score: Score | None, *, interval: bool = False) -> str:
    return score_text.percent(score, baseline=BASELINE, interval=interval)


def _long(cell: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for name, value in cell.items():
        if name == "per_channel":
            for channel, metrics in value.items():
                yield from ((channel, metric, number) for metric, number in metrics.items())
        elif isinstance(value, Mapping):
            numbers = ((metric, n) for metric, n in value.items() if not isinstance(n, str))
            yield from ((name, metric, number) for metric, number in numbers)
        else:
            yield "_meta", name, value
