"""What a forecasting evaluation found, and the files of its run folder."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from wearjax import plural, writing
from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import (
    forecasting_packet,
    forecasting_scores,
    forecasting_summary,
    packet,
    score_text,
)
from wearjax.benchmarks.openmhc.forecasting_metrics import BINARY_METRICS, CONTINUOUS_METRICS, UserMetrics
from wearjax.benchmarks.openmhc.forecasting_scores import (
    BASELINE,
    OVERALL,
    SCOPES,
    SKILL,
    ForecastScore,
    ScoredMetrics,
)
from wearjax.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("method", "channel", "metric", "value")
USER_ERRORS = "per_user_errors.parquet"
SUBGROUPS = "_subgroups.json"
GALLERY = Path("predictions") / "forecasts.npz"


@dataclass(eq=False, repr=False)
class ForecastingResults:
    """Scores of one or more forecasters, with intervals and counts of everything skipped or substituted.

    Attributes:
        scores: skill, rank and fair skill of every method and scope: point, bootstrap mean, 95 % intervals.
        metrics: the metrics of every participant behind them, and cells that seasonal naive filled in.
        subgroups: attribute to each participant's subgroup; empty without demographics.
        method_names: the methods that were given, without an added baseline.
        split, horizon (hours), seed, n_boot: as evaluated.
        skipped: what was left out, by reason.
        seconds: time inside each method.
        counts: what methods counted themselves, e.g. series that could not be fitted.
        config, versions: to repeat the evaluation.
        provenance: where the recordings come from, as far as their store says.
        scored_on: windows, as packets tell them; empty where they are not known.
        gallery: a few windows with their forecasts, as `forecasting_gallery` keeps them.
        run_dir: where they were saved; None before.
        at: the scores by method, metric and scope.
    """

    scores: tuple[ForecastScore, ...]
    metrics: UserMetrics
    subgroups: dict[str, tuple[str, ...]]
    method_names: tuple[str, ...]
    split: str
    horizon: int
    seed: int
    n_boot: int
    skipped: dict[str, int]
    seconds: dict[str, float]
    counts: dict[str, dict[str, int]]
    config: dict[str, Any]
    versions: dict[str, str]
    provenance: dict[str, Any] = field(default_factory=dict)
    scored_on: dict[str, Any] = field(default_factory=dict)
    gallery: dict[str, np.ndarray] = field(default_factory=dict)
    run_dir: Path | None = None
    at: dict[tuple[str, str, str], ForecastScore] = field(init=False)

    def __post_init__(self):
        self.at = {(s.method, s.metric, s.scope): s for s in self.scores}

    def __repr__(self) -> str:
        shown = forecasting_summary.percent
        found = forecasting_summary.comparable(self)
        skills = [f"{m} {shown(found.get(m, SKILL, OVERALL))} %" for m in self.method_names[:3]]
        more = ", …" if len(self.method_names) > 3 else ""
        return f"ForecastingResults({self.cohort}: {', '.join(skills)}{more})"

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods that were scored, the baseline among them."""
        return self.metrics.methods

    @property
    def participants(self) -> tuple[str, ...]:
        return self.metrics.participants

    @property
    def n_samples(self) -> int:
        """Evaluated windows."""
        return int(self.metrics.windows.sum())

    @property
    def per_channel(self) -> dict[str, dict[str, float]]:
        """Mean over windows of each window's mean, by `ch_<i>` and metric, of the (first) given method."""
        return self.metrics.by_window[self.method_names[0]]

    @property
    def fallback_rates(self) -> dict[str, float]:
        """Share of cells of all channels that seasonal naive filled in, by method."""
        return {m: self.metrics.fallback_rate(m) for m in self.methods}

    @property
    def overall_fallback_rate(self) -> float:
        """Share of substituted cells of the (first) given method."""
        return self.fallback_rates[self.method_names[0]]

    @property
    def fallback_rate(self) -> dict[str, float]:
        """Share in each channel, `ch_<i>`, of the (first) given method, where there was any."""
        return self.metrics.fallback_rates(self.method_names[0])

    @property
    def per_user_errors(self) -> pa.Table:
        """Long table of the scored metric of every method, channel and participant."""
        return forecasting_packet.forecasting_rows(self.metrics)

    @property
    def skill_scores(self) -> list[dict[str, Any]]:
        """Point skills, a row a method: `model`, then `overall_score`, `<category>_score`, `channel_<i>_score`."""
        present = [s for s in SCOPES if any((m, SKILL, s) in self.at for m in self.methods)]
        return [
            {
                "model": m,
                **{f"{s}_score": _point(self.at.get((m, SKILL, s))) for s in present},
            }
            for m in self.methods
        ]

    def score(self, method: str, scope: str = OVERALL, *, metric: str = SKILL) -> ForecastScore:
        """One score. Raises ConfigError when there is none."""
        found = self.at.get((method, metric, scope))
        if found is None:
            raise ConfigError(f"no {metric} of {method!r} for scope {scope!r}")
        return found

    def summary(self) -> str:
        """Two text tables: the reported scores, a row a method, and the skill of every channel.

        Skill and rank are the bootstrap means with percentile intervals, fair skill the point with a BCa
        interval, as the benchmark reports them; without draws everything is the point.
        """
        return forecasting_summary.text(self)

    @property
    def cohort(self) -> str:
        """What was evaluated, in words."""
        people, windows = len(self.participants), self.n_samples
        return (
            f"{self.split}, {people} {plural.noun(people, 'participant')}, "
            f"{windows} {plural.noun(windows, 'window')} of {self.horizon} hours"
        )

    def rows(self) -> Iterator[tuple[str, str, str, float]]:
        """The metrics in long form."""
        for method, by_channel in self.metrics.by_window.items():
            for channel, values in by_channel.items():
                yield from ((method, channel, metric, value) for metric, value in values.items())

    def to_dataframe(self) -> pd.DataFrame:
        """The metrics in long form: method, channel (`ch_5`), metric, value, channel_name (`watch_hr`)."""
        import pandas as pd

        frame = pd.DataFrame(self.rows(), columns=list(COLUMNS))
        return frame.assign(channel_name=frame["channel"].map(score_text.channel))

    def to_csv(self, path: str | os.PathLike) -> None:
        """Writes the metrics in long form as CSV, channels by their published codes."""
        result_files.write_csv(path, COLUMNS, self.rows())

    def to_json(self, path: str | os.PathLike) -> None:
        """Writes metrics by channel, fallback rates and skills; by method when several were given."""
        by_method = {m: self._method_json(m) for m in self.method_names}
        result_files.write_json(path, by_method[self.method_names[0]] if len(by_method) == 1 else by_method)

    def _method_json(self, method: str) -> dict[str, Any]:
        return {
            "run_dir": self.run_dir,
            "n_samples": self.n_samples,
            "overall_fallback_rate": self.metrics.fallback_rate(method),
            "fallback_rate": self.metrics.fallback_rates(method),
            "skill_scores": next(row for row in self.skill_scores if row["model"] == method),
            "per_channel": self.metrics.by_window[method],
        }

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
        method = packet.one_of(self.methods, self.method_names, method)
        about = submission or packet.Submission(name=method, submitter="", code_url="")
        return packet.write_submission(
            folder,
            forecasting_packet.forecasting_rows(self.metrics, rename={method: packet.slug(about.name)}),
            about,
            track="forecasting",
            subtrack=forecasting_packet.SUBTRACK,
            fallback_rate=self.fallback_rates[method],
            scored_on=self.scored_on,
            force=force,
        )

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the run folder: scores, metrics of every participant, subgroups, example windows, results.

        A `config.json` that is already there, e.g. of a training, is kept; the evaluation has its settings in
        `results.json`.
        """
        folder = self.run_dir = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        result_files.write_table(
            folder / "scores.parquet", result_files.score_table(self.scores, ForecastScore)
        )
        result_files.write_table(folder / USER_ERRORS, self.per_user_errors)
        result_files.write_json(folder / f"{USER_ERRORS}.meta.json", self._provenance())
        everything = forecasting_packet.forecasting_rows(
            self.metrics, names=(*CONTINUOUS_METRICS, *BINARY_METRICS)
        )
        result_files.write_table(folder / "per_user_metrics.parquet", everything)
        skills = self.skill_scores
        result_files.write_skills(folder / "skill_scores.csv", skills, columns=tuple(skills[0]))
        if self.subgroups:
            of_person = zip(*self.subgroups.values(), strict=True)
            known = {
                p: dict(zip(self.subgroups, own, strict=True))
                for p, own in zip(self.participants, of_person, strict=True)
            }
            result_files.write_json(folder / SUBGROUPS, known)
        if self.gallery:
            with writing.file(folder / GALLERY) as partial:
                np.savez_compressed(partial, **self.gallery)  # type: ignore[arg-type]
        result_files.note_config(folder, self.config, self.versions)
        # Last: its presence says the rest is there.
        result_files.write_json(folder / "results.json", self._results_json())

    def _provenance(self) -> dict[str, Any]:
        return {
            "method": list(self.methods),
            "within_user_aggregation": "micro",
            "aggregation_unit": "user",
            "metrics": sorted(set(self.per_user_errors["metric"].to_pylist())),
            "baseline": BASELINE,
            "overall_fallback_rate": self.fallback_rates,
        }

    def _results_json(self) -> dict[str, Any]:
        m = self.metrics
        return {
            "track": "forecasting",
            "baseline": BASELINE,
            "methods": list(self.methods),
            "split": self.split,
            "horizon": self.horizon,
            "seed": self.seed,
            "bootstrap": self.n_boot,
            "n_participants": len(self.participants),
            "n_samples": self.n_samples,
            "fallback": self.fallback_rates,
            "fallback_by_channel": {name: m.fallback_rates(name) for name in self.methods},
            "substituted": {name: int(m.substituted[i].sum()) for i, name in enumerate(self.methods)},
            "skipped": self.skipped,
            "seconds": self.seconds,
            "counts": self.counts,
            "config": self.config,
            "versions": self.versions,
            "import": self.provenance,
            "scored_on": self.scored_on,
            "metrics": m.by_window,
        }


def score_forecasts(
    metrics: UserMetrics,
    *,
    method_names: Sequence[str],
    config: Mapping[str, Any],
    versions: Mapping[str, str],
    horizon: int,
    split: str = "test",
    n_boot: int = 1000,
    seed: int = 42,
    demographics: Mapping[str, Mapping[str, Any]] | None = None,
    skipped: Mapping[str, int] | None = None,
    seconds: Mapping[str, float] | None = None,
    counts: Mapping[str, Mapping[str, int]] | None = None,
    provenance: Mapping[str, Any] | None = None,
    scored_on: Mapping[str, Any] | None = None,
    gallery: Mapping[str, np.ndarray] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ForecastingResults:
    """Scores the metrics of all methods together.

    Participants without a scored value have no row in the benchmark's tables and take no part in its draws.

    Args:
        method_names: the methods that the caller gave, first the one that short properties speak of.
        demographics: `birth_year` and `sex` by participant, for fair skill.
        progress: called with finished and all blocks of the bootstrap.

    Raises:
        ConfigError: a method of `method_names`, or the baseline, is not among the methods, or nobody has a value.
    """
    subgroups = forecasting_scores.subgroups(demographics or {}, metrics.participants)
    scored, without = _scored(metrics, subgroups)
    for name in method_names:
        scored.method_index(name)
    scores = forecasting_scores.score(scored, n_boot=n_boot, seed=seed, progress=progress)
    return ForecastingResults(
        scores=tuple(scores),
        metrics=metrics,
        subgroups=subgroups,
        method_names=tuple(method_names),
        split=split,
        horizon=horizon,
        seed=seed,
        n_boot=n_boot,
        skipped={**(skipped or {}), **({"participants without a scored value": without} if without else {})},
        seconds=dict(seconds or {}),
        counts={m: dict(found) for m, found in (counts or {}).items()},
        config=dict(config),
        versions=dict(versions),
        provenance=dict(provenance or {}),
        scored_on=dict(scored_on or {}),
        gallery=dict(gallery or {}),
    )


def _scored(metrics: UserMetrics, subgroups: Mapping[str, Sequence[str]]) -> tuple[ScoredMetrics, int]:
    """What is scored, and how many participants have nothing of it."""
    has = np.isfinite(metrics.scored).any(axis=(0, 1))
    if not has.any():
        raise ConfigError("forecasting: no window has a value to be scored by")
    people = tuple(itertools.compress(metrics.participants, has))
    groups = {name: tuple(itertools.compress(labels, has)) for name, labels in subgroups.items()}
    return ScoredMetrics(metrics.methods, people, metrics.scored[..., has], groups), int((~has).sum())


def _point(score: ForecastScore | None) -> float:
    return math.nan if score is None else score.point
