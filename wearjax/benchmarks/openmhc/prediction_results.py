"""What a prediction evaluation found, and the files of its run folder."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wearjax import plural
from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import (
    packet,
    prediction_errors,
    prediction_packet,
    prediction_records,
    prediction_scores,
    prediction_summary,
    scored_on,
)
from wearjax.benchmarks.openmhc.prediction_errors import TaskPredictions
from wearjax.benchmarks.openmhc.prediction_scores import OVERALL, SKILL, PredictionScore
from wearjax.errors import ConfigError
from wearjax.tasks import BASELINE

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class PredictionResults:
    """Scores of one or more methods, with intervals and counts of everything left out or substituted.

    Attributes:
        scores: skill, rank, fair skill and subgroup skill of every method and scope: point of the full cohort,
            bootstrap mean, 95 % interval.
        records: metric and standard error of every task and method by itself: `task`, `task_type`,
            `classifier` (the method), `metric` (`auprc`, `spearman_r`, `pearson_r`, `accuracy`, or one of them
            with `_se`), `value`, `n_test`.
        predictions: what was scored, of the tasks and participants that all methods share.
        method_names: the methods that were given, without an added baseline.
        split, seed, n_boot: as evaluated.
        n_test: participants of each task, before those without a prediction were left out.
        substituted: predictions that the baseline gave in the method's place, by method and task.
        undefined: tasks without a metric, by method.
        skipped: what was left out, by reason.
        seconds: time inside each method.
        config, versions: to repeat the evaluation.
        provenance: where the recordings come from, as far as their store says.
        scored_on: cohorts, as packets tell them; empty where they are not known.
        run_dir: where they were saved; None where they were not.
    """

    scores: tuple[PredictionScore, ...]
    records: list[dict[str, Any]]
    predictions: tuple[TaskPredictions, ...]
    method_names: tuple[str, ...]
    split: str
    seed: int
    n_boot: int
    n_test: dict[str, int]
    substituted: dict[str, dict[str, int]]
    undefined: dict[str, list[str]]
    skipped: dict[str, int]
    seconds: dict[str, float]
    config: dict[str, Any]
    versions: dict[str, str]
    provenance: dict[str, Any] = field(default_factory=dict)
    scored_on: dict[str, Any] = field(default_factory=dict)
    run_dir: Path | None = None

    def __repr__(self) -> str:
        shown, found = prediction_summary.percent, prediction_summary.comparable(self)
        skills = [
            f"{m} {shown(found.get(m, SKILL, OVERALL), interval=False)} %" for m in self.method_names[:3]
        ]
        more = ", …" if len(self.method_names) > 3 else ""
        return f"PredictionResults({self.cohort}: {', '.join(skills)}{more})"

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods that were scored, the baseline among them."""
        return self.predictions[0].methods

    @property
    def fallback_rates(self) -> dict[str, float]:
        """Share of the predictions of all tasks that the baseline gave, by method."""
        total = sum(self.n_test.values())
        return {m: sum(self.substituted.get(m, {}).values()) / total if total else 0.0 for m in self.methods}

    @property
    def overall_fallback_rate(self) -> float:
        """Share of substituted predictions of the (first) given method."""
        return self.fallback_rates[self.method_names[0]]

    @property
    def fallback_rate(self) -> dict[str, float]:
        """Share in each task of the (first) given method, of the tasks in which it is not zero."""
        return self.fallback_rate_of(self.method_names[0])

    def fallback_rate_of(self, method: str) -> dict[str, float]:
        """Share of substituted predictions of each task in which it is not zero."""
        counts = self.substituted.get(method, {})
        return {code: n / self.n_test[code] for code, n in counts.items() if n}

    @property
    def per_user_pairs(self) -> pa.Table:
        """Long table of truth and prediction, over everybody and inside each subgroup."""
        return prediction_packet.prediction_rows(self.predictions)

    @property
    def participants(self) -> tuple[str, ...]:
        """Participants of any scored task, sorted."""
        return tuple(sorted({user for found in self.predictions for user in found.users}))

    def score(self, method: str, scope: str = OVERALL, *, metric: str = SKILL) -> PredictionScore:
        """One score. Raises ConfigError when there is none."""
        found = self._found(method, metric, scope)
        if found is None:
            raise ConfigError(f"no {metric} of {method!r} for scope {scope!r}")
        return found

    def _found(self, method: str, metric: str, scope: str) -> PredictionScore | None:
        wanted = (method, metric, scope)
        return next((s for s in self.scores if (s.method, s.metric, s.scope) == wanted), None)

    def summary(self) -> str:
        """Text tables, a row a method: the overall scores, then skill and rank by domain, all with intervals.

        Skill and rank are the bootstrap means with percentile intervals, fair skill the point with a BCa
        interval, as the benchmark reports them; without draws everything is the point.
        """
        return prediction_summary.text(self)

    @property
    def cohort(self) -> str:
        """What was evaluated, in words."""
        people, tasks = len(self.participants), len(self.predictions)
        return f"{self.split}, {people} {plural.noun(people, 'participant')}, {tasks} {plural.noun(tasks, 'task')}"

    def to_dataframe(self) -> pd.DataFrame:
        """The records: task, task_type, classifier, metric, value, n_test."""
        import pandas as pd

        return pd.DataFrame(self.records, columns=list(prediction_records.COLUMNS))

    def to_csv(self, path: str | os.PathLike) -> None:
        """Writes `to_dataframe` as CSV; undefined values are empty."""
        rows = (
            ["" if isinstance(v, float) and math.isnan(v) else v for v in record.values()]
            for record in self.records
        )
        result_files.write_csv(path, prediction_records.COLUMNS, rows)

    def to_json(self, path: str | os.PathLike) -> None:
        """Writes the records; undefined values are null."""
        result_files.write_json(path, self.records)

    def to_submission(
        self,
        folder: str | os.PathLike,
        *,
        submission: packet.Submission | None = None,
        method: str | None = None,
        subtrack: str = "static",
        force: bool = False,
    ) -> Path:
        """Writes the leaderboard packet of one method; returns the path of its description.

        Args:
            submission: name, submitter and links; default names the method only.
            method: which one; default the only one given, or the only learned one of them.
            subtrack: `static` or `longitudinal`.
            force: replace what stands in the way, not an earlier packet of the method only.

        Raises:
            ConfigError: no method is chosen of several, or the folder holds something else.
        """
        method = packet.one_of(self.methods, self.method_names, method)
        about = submission or packet.Submission(name=method, submitter="", code_url="")
        rows = prediction_packet.prediction_rows(self.predictions, rename={method: packet.slug(about.name)})
        return packet.write_submission(
            folder,
            rows,
            about,
            track="prediction",
            subtrack=subtrack,
            fallback_rate=self.fallback_rates[method],
            scored_on=self.scored_on,
            force=force,
        )

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the run folder: scores, records, the table of each method, subgroups, results.

        A `config.json` that is already there, e.g. of a training, is kept; the evaluation has its settings in
        `results.json`.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        table = result_files.score_table(self.scores, PredictionScore)
        result_files.write_table(folder / "scores.parquet", table)
        self.to_csv(folder / "eval.csv")
        for method, file in prediction_packet.write_substrate(folder, self.predictions, self.methods).items():
            about = packet.Submission(name=method, submitter="", code_url="")
            rate = self.fallback_rates[method]
            shown = packet.display_sidecar(about, track="prediction", subtrack="static", fallback_rate=rate)
            shown |= {scored_on.FIELD: self.scored_on} if self.scored_on else {}
            result_files.write_json(file.with_name(f"{file.stem}.meta.json"), shown)
            result_files.write_json(file.with_name(f"{file.name}.meta.json"), self._provenance_of(method))
        result_files.write_json(folder / "_subgroups.json", self._subgroups())
        result_files.note_config(folder, self.config, self.versions)
        # Last: its presence says the rest is there.
        result_files.write_json(folder / "results.json", self._results_json())

    def _provenance_of(self, method: str) -> dict[str, Any]:
        return {
            "method": method,
            "track": "prediction",
            "baseline": BASELINE,
            "n_tasks": len(self.predictions),
            "overall_fallback_rate": self.fallback_rates[method],
        }

    def _subgroups(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for of_task in self.predictions:
            for attribute, values in of_task.subgroups.items():
                for user, value in zip(of_task.users, values, strict=True):
                    found.setdefault(user, {})[attribute] = value
        return dict(sorted(found.items()))

    def _results_json(self) -> dict[str, Any]:
        return {
            "track": "prediction",
            "baseline": BASELINE,
            "methods": list(self.methods),
            "split": self.split,
            "seed": self.seed,
            "bootstrap": self.n_boot,
            "n_participants": len(self.participants),
            "n_tasks": len(self.predictions),
            "tasks": {
                p.task.code: {"type": p.task.kind, "domain": p.task.domain, "n_test": len(p.users)}
                for p in self.predictions
            },
            "fallback": self.fallback_rates,
            "fallback_by_task": {m: self.fallback_rate_of(m) for m in self.methods},
            "substituted": {m: sum(self.substituted.get(m, {}).values()) for m in self.methods},
            "undefined": self.undefined,
            "skipped": self.skipped,
            "seconds": self.seconds,
            "config": self.config,
            "versions": self.versions,
            "import": self.provenance,
            "scored_on": self.scored_on,
            "records": self.records,
        }


def score_predictions(
    predictions: Sequence[TaskPredictions],
    *,
    method_names: Sequence[str],
    config: Mapping[str, Any],
    versions: Mapping[str, str],
    split: str = "test",
    n_boot: int = 1000,
    seed: int = 42,
    substituted: Mapping[str, Mapping[str, int]] | None = None,
    skipped: Mapping[str, int] | None = None,
    seconds: Mapping[str, float] | None = None,
    provenance: Mapping[str, Any] | None = None,
    scored_on: Mapping[str, Any] | None = None,
) -> PredictionResults:
    """Scores predictions: each method by itself, then all methods on what they share.

    Args:
        predictions: one a task; the baseline among their methods.
        method_names: the methods that the caller gave, first the one that short properties speak of.
        substituted: predictions taken from the baseline, by method and task.
        skipped: what was left out before, by reason.

    Raises:
        ConfigError: no task is left, a method of `method_names` or the baseline is not among the methods.
    """
    shared, left_out = prediction_errors.common(predictions)
    errors = prediction_errors.compute(shared, n_boot=n_boot, seed=seed)
    for name in method_names:
        errors.method_index(name)
    scores = prediction_scores.score_errors(errors)
    return PredictionResults(
        scores=tuple(scores),
        records=prediction_records.records(predictions, n_boot, seed),
        predictions=shared,
        method_names=tuple(method_names),
        split=split,
        seed=seed,
        n_boot=n_boot,
        n_test={p.task.code: len(p.users) for p in predictions},
        substituted={m: dict(counts) for m, counts in (substituted or {}).items()},
        undefined=prediction_records.undefined(errors),
        skipped={**(skipped or {}), **left_out, **prediction_records.without_value(errors)},
        seconds={m: round(s, 3) for m, s in (seconds or {}).items()},
        config=dict(config),
        versions=dict(versions),
        provenance=dict(provenance or {}),
        scored_on=dict(scored_on or {}),
    )
