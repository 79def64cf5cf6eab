"""The published tables speak of the tasks, methods and users that the code knows."""

from __future__ import annotations

import harness

from wearjax.benchmarks.openmhc import forecasting_scores, imputation_tasks, prediction_scores
from wearjax.channels import BINARY, CHANNELS, CONTINUOUS
from wearjax.models import registry as models
from wearjax.predict.forecasters import registry as forecasters
from wearjax.predict.imputers import baselines, pypots_models
from wearjax.predict.predictors import registry as predictors
from wearjax.sources import openmhc

# Spellings of the published pools, by the names of the library.
SPELLED = {
    "gru_d": "grud",
    "lsm2_weekly_sparse": "lsm2_sparse",
    "lsm2_weekly": "lsm2",
    "dlinear_weekly": "dlinear",
}
WEIGHTS = ("_zeroshot", "_finetuned", "_ctx4096")  # which weights of a model


@harness.checks("published_leaderboard")
def check(case: dict) -> None:
    statistics = case["baseline_cohort_statistics"]
    _imputation(statistics["imputation_locf"])
    _forecasting(statistics["forecasting_seasonal_naive"])
    _forecasting(statistics["forecasting_n_values"])
    _pools(case["method_pools"])
    _users(case["cohort_numbers"], statistics)


def _rows(table: dict) -> list[dict]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def _imputation(table: dict) -> None:
    """Every scored task has one row, and nothing else has."""
    found = [(row["scenario"], row["channel"]) for row in _rows(table)]
    assert len(set(found)) == len(found)
    assert set(found) == {(task.scenario, task.channel) for task in imputation_tasks.tasks()}
    assert {row["split"] for row in _rows(table)} == {"test"}


def _forecasting(table: dict) -> None:
    found = [(row["metric"], row["channel_idx"]) for row in _rows(table)]
    wanted = {("mae", c) for c in CONTINUOUS} | {("auroc", c) for c in BINARY}
    assert len(found) == len(CHANNELS)
    assert set(found) == wanted


def _plain(name: str) -> str:
    name = name.lower()
    for weights in WEIGHTS:
        name = name.replace(weights, "")
    return SPELLED.get(name, name)


def _pools(pools: dict) -> None:
    """The methods are those that can be built, and the baselines are among them."""
    imputers = pools["imputation_paper_16"] + pools["imputation_17_adds"]
    n_statistical = len(baselines.NAMES)
    assert set(imputers[:n_statistical]) == set(baselines.NAMES)
    learned = {"lsm2", "lsm2_sparse", *pypots_models.MODELS}
    assert {_plain(name) for name in imputers[n_statistical:]} == learned
    assert {"lsm2", "lsm2_sparse", "dlinear", "brits"} <= models.ARCHITECTURES.keys()
    forecasting = {_plain(name) for name in pools["forecasting_10"]}
    ours = {name.removesuffix("_forecast") for name in models.FORECASTERS}
    assert forecasting == {*forecasters.FORECASTERS, *ours}
    prediction = {_plain(name) for name in pools["prediction_8"]}
    assert prediction == {prediction_scores.BASELINE, *predictors.PREDICTORS}
    assert imputation_tasks.BASELINE in imputers
    assert forecasting_scores.BASELINE in forecasting


def _users(numbers: dict, statistics: dict) -> None:
    """The users of the splits; those of a track are some of them."""
    assert numbers["split_users"] == openmhc.PUBLISHED_USERS
    published = openmhc.PUBLISHED_USERS["full"]
    for track in ("imputation_users_after_QA", "forecasting_users"):
        assert numbers[track]["test"] == statistics[f"{track.split('_')[0]}_n_users"]
        for split, n in numbers[track].items():
            assert n <= published["validation" if split == "val" else split]
    assert sum(published.values()) == 11_894
    assert openmhc.unlike_published("full", 11_894) == openmhc.unlike_published("xs", 593) == ""
