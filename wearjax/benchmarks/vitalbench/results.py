"""Results of a VitalBench run: tables by horizon and averaged, as published, with intervals over surgeries."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wearjax import plural
from wearjax.benchmarks import result_files
from wearjax.benchmarks.vitalbench.jobs import Outcome
from wearjax.benchmarks.vitalbench.plans import BASELINE
from wearjax.scores import vital as metrics
from wearjax.vitals import CONTEXT_MINUTES

if TYPE_CHECKING:
    import pandas as pd

AVERAGE = 0  # in place of minutes: the mean over the horizons
_HIGHER_IS_BETTER = ("R2", "CC")


@dataclass(frozen=True)
class VitalScore:
    """One metric of one model at one horizon.

    Attributes:
        minutes: horizon; 0 is the average over horizons.
        mean, std: over test surgeries; of the average, what the published tables print.
        n: surgeries with a value.
        ci_lo, ci_hi: 95 % percentile interval of the mean, surgeries resampled; of the average, the same draw of
            surgeries at every horizon. NaN without draws, and for a single surgery.
    """

    model: str
    minutes: int
    metric: str
    mean: float
    std: float
    n: int
    ci_lo: float
    ci_hi: float


@dataclass(frozen=True)
class VariableError:
    """Errors of one variable in its own unit, mean over the surgeries that have it."""

    model: str
    minutes: int
    variable: str
    mae: float
    rmse: float
    n: int


@dataclass(frozen=True, eq=False, repr=False)
class VitalResults:
    """What a run found.

    Attributes:
        track: 1, 2 or 3.
        config: everything that decides the result: switches, centres, plans, versions.
        counts: surgeries and windows used and passed over.
        scores: by model, horizon and metric, average last.
        variables: errors in original units.
        outcomes: of every job, for those who want single surgeries.
    """

    track: int
    config: dict[str, Any]
    counts: dict[str, Any]
    scores: list[VitalScore]
    variables: list[VariableError]
    outcomes: list[Outcome]

    def __repr__(self) -> str:
        models = list(dict.fromkeys(score.model for score in self.scores))
        more = ", …" if len(models) > 3 else ""
        cases = self.counts["test_cases"]
        surgeries = f"{cases} {plural.noun(cases, 'surgery', 'surgeries')}"
        return f"VitalResults(track {self.track}, {surgeries}: {', '.join(models[:3])}{more})"

    def table(self, metric: str) -> dict[str, dict[int, VitalScore]]:
        """Scores of a metric by model and horizon."""
        found: dict[str, dict[int, VitalScore]] = {}
        for score in self.scores:
            if score.metric == metric:
                found.setdefault(score.model, {})[score.minutes] = score
        return found

    def summary(self) -> str:
        """Text tables of the published metrics: mean ± deviation over surgeries, and the interval of the average."""
        n = self.counts["test_cases"]
        tested = f"{n} test {plural.noun(n, 'surgery', 'surgeries')}"
        head = f"VitalBench, track {self.track}, {self.config['title']}: {tested}"
        if self.config["switches"]["report_units"] == "scaled":
            head += ". Errors in scaled units"
        lines = [head, *notes(self.config)]
        if not self.scores:
            lines.append(
                "No surgery is longer than a horizon: nothing is scored, forecasts are in the report"
            )
        for metric in metrics.PUBLISHED:
            found = self.table(metric)
            if not found:
                continue
            columns = sorted({m for each in found.values() for m in each if m != AVERAGE})
            heading = [metric, *(f"{m} min" for m in columns), "average [95 %]"]
            rows = [heading]
            untrained = baselines(self.config)
            for model in _ranked(found, metric, untrained):
                cells = [_cell(found[model].get(minutes)) for minutes in columns]
                average = found[model].get(AVERAGE)
                rows.append([label(model, untrained), *cells, _interval(average)])
            lines += ["", *result_files.aligned(rows)]
            least = min((s.n for each in found.values() for s in each.values()), default=0)
            if least < self.counts["test_cases"]:
                lines.append(
                    f"{metric} is over {least} of {self.counts['test_cases']} surgeries where fewest have a value"
                )
        return "\n".join(lines)

    def to_dataframe(self) -> pd.DataFrame:
        """One row a score."""
        import pandas as pd

        return pd.DataFrame([dataclasses.asdict(score) for score in self.scores])

    def to_csv(self, path: str | os.PathLike) -> None:
        """Writes `to_dataframe` as CSV."""
        self.to_dataframe().to_csv(path, index=False)

    def to_json(self, path: str | os.PathLike) -> None:
        """Writes switches, counts, scores and errors by variable."""
        result_files.write_json(path, self.content())

    def content(self) -> dict[str, Any]:
        """Plain values, as `results.json` holds them."""
        return {
            "benchmark": "vitalbench",
            "track": self.track,
            "config": self.config,
            "counts": self.counts,
            "scores": [dataclasses.asdict(score) for score in self.scores],
            "variables": [dataclasses.asdict(error) for error in self.variables],
        }

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `scores.parquet`, then `results.json`, with which the run counts as finished."""
        folder = Path(folder)
        result_files.write_table(folder / "scores.parquet", result_files.score_table(self.scores, VitalScore))
        self.to_json(folder / "results.json")


def baselines(config: dict[str, Any]) -> frozenset[str]:
    """Names in a run that are not trained and in no ranking; config is that of the results."""
    return frozenset(plan["kind"] for plan in config["plans"] if plan["role"] == "baseline")


def label(model: str, untrained: Collection[str]) -> str:
    """A model's name in tables for people."""
    return f"{model} (not trained)" if model in untrained else model


def notes(config: dict[str, Any]) -> list[str]:
    """What a reader must know: invented surgeries, missing values and units, what an upper bound and a baseline are."""
    found = []
    for place in (config["data"], config.get("target"), config.get("trained_on")):
        if (
            place
            and place.get("source") == "synthetic"
            and (
                note := f"The surgeries of {place['title']} are invented: no recording of a person is in them"
            )
            not in found
        ):
            found.append(note)
    found.append(_values(config["switches"]))
    if any(plan["role"] == "upper_bound" for plan in config["plans"]):
        found.append(
            "An upper bound is a MambaTS trained on the centre that the others meet in the test only; "
            "it is always beside them"
        )
    if baselines(config):
        found.append(
            f"{BASELINE} is not trained and not ranked: it repeats the last value of each variable observed in the "
            f"{CONTEXT_MINUTES} minutes before, and where there is none, the mean of what models see in its place"
        )
    return found


def _values(switches: Mapping[str, Any]) -> str:
    """What missing values are to models and errors, and the units of the errors, in a sentence."""
    if switches["imputation"] == "none":
        missing = "A missing value is a 0, which models see and errors leave out"
    else:
        counts = "count as observed" if switches["impute_targets"] else "are left out of the errors"
        missing = f"Missing values are filled in ({switches['imputation']}); filled targets {counts}"
    if switches["scaling"] == "per_case":
        scaling = (
            "each variable runs from 0 to 1 between the lowest and highest value of the surgery, zeros included (the "
            "lowest, where nothing is missing, thus counts as missing)"
        )
    else:
        scaling = "each variable runs from 0 to 1 between the lowest and highest observed training value"
    if switches["report_units"] == "scaled":
        units = "errors are shares of that range, and by variable in its own unit (mmHg, bpm, …) on the page"
    else:
        units = "errors are in the units of the variables (mmHg, bpm, …), averaged over them"
    return f"{missing}; {scaling}; {units}"


def of_outcomes(
    outcomes: Sequence[Outcome],
    *,
    track: int,
    config: dict[str, Any],
    counts: dict[str, Any],
    bootstrap: int,
    seed: int,
) -> VitalResults:
    """Tables of the outcomes.

    The deviation beside an average is the mean of the horizons' deviations in track 1 and their own deviation in
    tracks 2 and 3, as the published tables have it.
    """
    scores: list[VitalScore] = []
    for name in dict.fromkeys(outcome.plan.name for outcome in outcomes):
        mine = sorted((o for o in outcomes if o.plan.name == name), key=lambda o: o.plan.minutes)
        scores += _scores(mine, track, bootstrap, seed)
    variables = [error for outcome in outcomes for error in _variables(outcome)]
    return VitalResults(track, config, counts, scores, variables, list(outcomes))


def _scores(outcomes: list[Outcome], track: int, bootstrap: int, seed: int) -> list[VitalScore]:
    found: list[VitalScore] = []
    averages: dict[str, list[metrics.Average]] = {metric: [] for metric in metrics.METRICS}
    for outcome in outcomes:
        cases = list(outcome.cases.values())
        limits = metrics.case_intervals(cases, draws=bootstrap, seed=seed) if bootstrap else {}
        for metric, average in metrics.aggregate(cases).items():
            averages[metric].append(average)
            low, high = (
                limits[metric].percentile if metric in limits and average.n > 1 else (math.nan, math.nan)
            )
            found.append(
                VitalScore(
                    outcome.plan.name,
                    outcome.plan.minutes,
                    metric,
                    average.mean,
                    average.std,
                    average.n,
                    low,
                    high,
                )
            )
    spread = "mean_of_stds" if track == 1 else "std_of_stds"
    overall = _average_intervals(outcomes, bootstrap, seed)
    for metric, each in averages.items():
        if each:
            mean, std = metrics.over_horizons(each, spread=spread)
            n = min(average.n for average in each)
            low, high = overall.get(metric, (math.nan, math.nan)) if n > 1 else (math.nan, math.nan)
            found.append(VitalScore(outcomes[0].plan.name, AVERAGE, metric, mean, std, n, low, high))
    return found


def _average_intervals(outcomes: list[Outcome], bootstrap: int, seed: int) -> dict[str, tuple[float, float]]:
    """Intervals of the mean over horizons: a surgery's value is its mean over them; only surgeries with all count."""
    shared = [name for name in outcomes[0].cases if all(name in outcome.cases for outcome in outcomes)]
    if not bootstrap or not shared:
        return {}
    cases = [
        {m: float(np.mean([o.cases[name][m] for o in outcomes])) for m in metrics.METRICS} for name in shared
    ]
    limits = metrics.case_intervals(cases, draws=bootstrap, seed=seed)
    return {metric: limits[metric].percentile for metric in metrics.METRICS}


def _variables(outcome: Outcome) -> list[VariableError]:
    found: dict[str, list[tuple[float, float]]] = {}
    for _, variable, mae, rmse in outcome.variables:
        if math.isfinite(mae):
            found.setdefault(variable, []).append((mae, rmse))
    made = []
    for variable, errors in found.items():
        mae, rmse = np.mean(errors, axis=0)
        made.append(
            VariableError(
                outcome.plan.name, outcome.plan.minutes, variable, float(mae), float(rmse), len(errors)
            )
        )
    return made


def _ranked(found: dict[str, dict[int, VitalScore]], metric: str, untrained: Collection[str]) -> list[str]:
    """Models, the best average first, then what is not trained."""
    sign = -1.0 if metric in _HIGHER_IS_BETTER else 1.0

    def key(model: str) -> tuple[bool, float]:
        score = found[model].get(AVERAGE)
        mean = math.inf if score is None or not math.isfinite(score.mean) else sign * score.mean
        return model in untrained, mean

    return sorted(found, key=key)


def _cell(score: VitalScore | None) -> str:
    return "" if score is None or not score.n else f"{score.mean:.3f} ± {score.std:.3f}"


def _interval(score: VitalScore | None) -> str:
    if score is None or not math.isfinite(score.mean):
        return ""
    text = f"{score.mean:.3f}"
    return text if math.isnan(score.ci_lo) else f"{text} [{score.ci_lo:.3f}, {score.ci_hi:.3f}]"
