"""Golden cases of the whole forecasting scoring: histories and raw predictions to fallback, metrics, skill, draws."""

from __future__ import annotations

import datetime as dt

import harness
import numpy as np

from wearjax.benchmarks.openmhc import forecasting_scores
from wearjax.benchmarks.openmhc.forecasting_cases import Windows
from wearjax.benchmarks.openmhc.forecasting_metrics import BINARY_METRICS, CONTINUOUS_METRICS, UserMetrics
from wearjax.benchmarks.openmhc.forecasting_run import Run
from wearjax.benchmarks.openmhc.forecasting_scale import SeasonalScale
from wearjax.benchmarks.openmhc.forecasting_scores import ScoredMetrics
from wearjax.channels import CHANNELS, HOURS_PER_DAY, N_CHANNELS
from wearjax.predict.forecasters.seasonal_naive import SeasonalNaive
from wearjax.scores import bootstrap

SUMMARY = ("mean", "se", "ci_lo", "ci_hi", "n_boot", "point", "bca_lo", "bca_hi")
OWN_SUMMARY = ("mean", "se", "percentile_lo", "percentile_hi", "n_boot", "point", "bca_lo", "bca_hi")


def by_channel(spec: dict[str, list], n: int, fill: float) -> np.ndarray:
    """`(19, n)` of the channels that a case lists."""
    values = np.full((N_CHANNELS, n), fill, np.float32)
    for channel, row in spec.items():
        values[int(channel)] = harness.numbers(row, np.float32)
    return values


class Cases:
    """The windows of a case, as an evaluation passes over them."""

    def __init__(self, case: dict):
        self.horizon = case["horizon"]
        self.participants = tuple(case["users"])
        self._days = {p: np.array(case["forecast_origins"][p]) // HOURS_PER_DAY for p in self.participants}
        self._values = {
            p: by_channel(case["histories"][p], case["n_hours"], np.nan) for p in self.participants
        }
        self.n_windows = sum(map(len, self._days.values()))

    def n_windows_of(self, participant: str) -> int:
        return len(self._days[participant])

    def windows(self, participant: str) -> Windows:
        days, values = self._days[participant], self._values[participant]
        return Windows(
            participant=participant,
            first_day=dt.date(2020, 1, 1),
            days=days,
            origins=days * HOURS_PER_DAY,
            values=values,
            horizon=self.horizon,
        )


class Replayed:
    """Forecasts what a case says. What it does not list is finite, and never scored."""

    def __init__(self, case: dict, method: str):
        self._answers = [
            by_channel(raw, case["horizon"], 0.0)
            for user in case["users"]
            for raw in case["predictions_raw"][method][user]
        ]

    def predict(self, history: np.ndarray, horizon: int) -> np.ndarray:
        return self._answers.pop(0)


def collect(case: dict) -> tuple[UserMetrics, SeasonalScale]:
    """All methods through the evaluation's own pass: forecasts, substitution, sums."""
    methods = {m: SeasonalNaive() if m == case["baseline"] else Replayed(case, m) for m in case["models"]}
    run = Run(methods, Cases(case))
    run.all_participants(lambda done, total: None)
    return run.table.finish(run.scale), run.scale


def check_naive(case: dict) -> None:
    cases = Cases(case)
    for user, expected in case["expected"]["seasonal_naive_points"].items():
        points = SeasonalNaive().points(cases.windows(user).histories, case["horizon"])
        for point, by_name in zip(points, expected, strict=True):
            for channel, row in by_name.items():
                harness.close(point[int(channel)], row, what=f"seasonal naive {user} {channel}")


def check_fallback(case: dict, metrics: UserMetrics) -> None:
    """Channels without data are not in the case: their rates stand for themselves in the overall rate."""
    for m, method in enumerate(metrics.methods):
        expected = case["expected"]["fallback"][method]
        rates = expected["per_channel"]
        own = metrics.fallback_rates(method)
        listed = {f"ch_{c}" for c in case["channels_with_data"]}
        assert set(own) == set(rates) & listed
        for name in own:
            harness.close(own[name], rates[name], what=f"{method} {name}")
        outside = sum(rates[name] for name in rates if name not in listed) * metrics.asked[m, 0]
        overall = (metrics.substituted[m].sum() + outside) / metrics.asked[m].sum()
        harness.close(overall, expected["overall_fallback_rate"], what=f"{method} overall")


def check_metrics(case: dict, metrics: UserMetrics) -> None:
    actual = {}
    for name in (*CONTINUOUS_METRICS, *BINARY_METRICS):
        group = "continuous" if name in CONTINUOUS_METRICS else "binary"
        for m, c, p in zip(*np.nonzero(np.isfinite(metrics.values[name])), strict=True):
            key = (metrics.methods[m], group, name, c, metrics.participants[p])
            actual[key] = (metrics.values[name][m, c, p], metrics.n_values[name][m, c, p])
    compare(actual, case["expected"]["per_user_metrics"], 5, "metric_value", "n_values")


def compare(actual: dict, spec: dict, keys: int, *fields: str, extra=lambda key: False) -> None:
    """The same rows, and close numbers in the named columns; rows that `extra` names may be missing."""
    columns = harness.table(spec)
    names = list(zip(*[columns[name] for name in spec["columns"][:keys]], strict=True))
    different = {key for key in set(actual) ^ set(names) if key in names or not extra(key)}
    assert not different, f"rows differ: {different}"
    for i, name in enumerate(names):
        harness.close(list(actual[name]), [columns[f][i] for f in fields], what=str(name))


def check_ratios(case: dict, scored: ScoredMetrics) -> None:
    ratios, pairs = forecasting_scores.channel_ratios(scored, baseline=case["baseline"])
    actual = {}
    for m, c in zip(*np.nonzero(np.isfinite(ratios)), strict=True):
        metric = "mae" if CHANNELS[c].is_continuous else "auroc"
        actual[scored.methods[m], metric, c] = (1.0 - ratios[m, c], ratios[m, c], pairs[m, c])
    compare(
        actual, case["expected"]["per_channel_ratio"], 3, "skill_score", "geometric_mean_ratio", "n_pairs"
    )


def metric_of(scope: str) -> str:
    if scope == "overall":
        return scope
    if scope.startswith("channel_"):
        return "mae" if CHANNELS[int(scope.removeprefix("channel_"))].is_continuous else "auroc"
    return "mae" if scope in ("activity", "physiology") else "auroc"


def check_points(case: dict, scored: ScoredMetrics, scores: list) -> None:
    expected = case["expected"]
    wide = harness.table(expected["skill_summary"])
    at = {(s.method, s.metric, s.scope): s for s in scores}
    for column, values in wide.items():
        if column == "model":
            continue
        for method, value in zip(wide["model"], values, strict=True):
            found = at.get((method, "skill", column.removesuffix("_score")))
            harness.close(np.nan if found is None else found.point, value, what=f"{method} {column}")
    scopes = {f"{s.scope}_score" for s in scores if s.metric == "skill"}
    assert scopes == set(wide) - {"model"}
    ranks = {}
    for s in (s for s in scores if s.metric == "rank"):
        ranks[s.scope, metric_of(s.scope), s.method] = (mean_metric(scored, s), s.point, s.n_participants)
    categories = set(forecasting_scores.CATEGORIES)
    compare(
        ranks, expected["rank"], 3, "metric_mean", "rank", "n_users", extra=lambda key: key[0] in categories
    )
    fair = {(s.method, s.scope): (s.point, s.n_tasks) for s in scores if s.metric == "fair_skill"}
    compare(fair, expected["fair_point"], 2, "fair_skill_score", "n_tasks")


def mean_metric(scored: ScoredMetrics, score) -> float:
    """Mean over participants of the metric; of a category the mean over its channels; none overall."""
    values = scored.values[scored.methods.index(score.method)]
    members = forecasting_scores.CATEGORIES.get(score.scope)
    if score.scope.startswith("channel_"):
        members = (int(score.scope.removeprefix("channel_")),)
    if members is None:
        return np.nan
    means = [np.nanmean(values[c]) for c in members if np.isfinite(values[c]).any()]
    return float(np.mean(means))


def check_draws(case: dict, scored: ScoredMetrics, scores: list) -> None:
    expected = case["expected"]["bootstrap"]
    assert list(scored.participants) == expected["user_order"]
    seed = bootstrap.derived_seed(expected["seed"], "forecasting")
    assert seed == expected["derived_seed"]
    matrix = bootstrap.resample_matrix(seed, len(scored.participants), expected["n_boot"])
    assert matrix[: len(expected["index_matrix_first_rows"])].tolist() == expected["index_matrix_first_rows"]
    rows: dict[str, dict] = {"skill": {}, "rank": {}, "fair_skill": {}}
    for s in (s for s in scores if not s.scope.startswith("channel_")):
        keys = {
            "skill": (s.method, f"{s.scope}_score"),
            "rank": (s.method, s.scope, metric_of(s.scope) if s.metric == "rank" else ""),
            "fair_skill": (s.method, s.scope),
        }
        rows[s.metric][keys[s.metric]] = tuple(getattr(s, name) for name in OWN_SUMMARY)
    compare(rows["skill"], expected["skill"], 2, *SUMMARY)
    compare(rows["rank"], expected["rank"], 3, *SUMMARY)
    compare(rows["fair_skill"], expected["fairness"], 2, *SUMMARY)


@harness.checks("forecasting_scoring")
def check(case: dict) -> None:
    metrics, scale = collect(case)
    check_naive(case)
    check_fallback(case, metrics)
    check_metrics(case, metrics)
    harness.close(scale.whole(), case["expected"]["mase_all_scale_per_channel"], what="scale")
    groups = {
        name: tuple(case["demographics"][p][name] for p in metrics.participants)
        for name in next(iter(case["demographics"].values()))
    }
    scored = ScoredMetrics(metrics.methods, metrics.participants, metrics.scored, groups)
    drawn = case["expected"]["bootstrap"]
    scores = forecasting_scores.score(
        scored, baseline=case["baseline"], n_boot=drawn["n_boot"], seed=drawn["seed"]
    )
    check_ratios(case, scored)
    check_points(case, scored, scores)
    check_draws(case, scored, scores)
