"""The bootstrap of the imputation benchmark with data frames, draw by draw, as one would first write it.

A rival for `wearjax bench bootstrap --against benchmarks/pandas_bootstrap.py`: plain pandas, nothing of wearjax.
Statistics of each participant (clipped log ratio, rank) are computed once; every draw then selects the rows
of the participants drawn and averages them by the same hierarchy.
"""

from itertools import combinations

import numpy as np
import pandas as pd

STRUCTURAL = ("random_noise", "temporal_slice", "signal_slice")
SEMANTIC = ("sleep_gap", "workout_gap", "intensity_failure")
CLIP = (0.01, 100.0)
FLOOR = 0.005
CELL = ["scenario", "channel", "bucket"]


def score(errors: pd.DataFrame, users: list[str], draws: np.ndarray, baseline: str) -> pd.DataFrame:
    """Mean and 95 % percentile interval over the draws of skill, rank and fair skill.

    Args:
        errors: method, scenario, channel, channel_type, subgroup_attr, subgroup_value, user_id, E_per_user.
        users: participants in the order that the draws count in.
        draws: (draw, participant) positions.

    Returns:
        method, metric (skill, rank, fair_skill), scope, mean, ci_lo, ci_hi.
    """
    errors = errors.assign(bucket=bucket_of(errors["channel"]))
    everybody = statistics(errors[errors["subgroup_attr"] == "all"], baseline)
    everybody = everybody[everybody["bucket"] != ""].set_index("user_id")
    groups = errors[(errors["subgroup_attr"] != "all") & (errors["bucket"] != "")].set_index("user_id")
    names = np.array(users)
    drawn = [one_draw(everybody, groups, names[row], baseline) for row in draws]
    values = pd.concat(drawn).groupby(["method", "metric", "scope"], observed=True)["value"]
    low, high = values.quantile(0.025), values.quantile(0.975)
    return pd.DataFrame({"mean": values.mean(), "ci_lo": low, "ci_hi": high}).reset_index()


def bucket_of(channel: pd.Series) -> pd.Series:
    """The bucket that a channel counts in; none for single flags, whose collapsed task stands for them."""
    names = {f"ch_{c}": "activity" for c in range(5)} | {f"ch_{c}": "physiology" for c in (5, 6)}
    names |= {f"cat_collapsed:{name}": name for name in ("sleep", "workouts")}
    return channel.astype(str).map(names).fillna("")


def statistics(errors: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Log ratio and rank of every method, task and participant."""
    cell = ["scenario", "channel", "user_id"]
    floored = errors["E_per_user"].where(
        errors["channel_type"] == "continuous", errors["E_per_user"].clip(lower=FLOOR)
    )
    errors = errors.assign(floored=floored)
    own = errors[errors["method"] == baseline].set_index(cell)["floored"].rename("reference")
    errors = errors.join(own, on=cell)
    ratio = (errors["floored"] / errors["reference"].where(errors["reference"] > 0)).clip(*CLIP)
    log_ratio = np.log(ratio).where(errors["method"] != baseline, 0.0)
    rank = errors.groupby(cell, observed=True)["E_per_user"].rank()
    return errors.assign(log_ratio=log_ratio, rank=rank)


def one_draw(everybody: pd.DataFrame, groups: pd.DataFrame, drawn: np.ndarray, baseline: str) -> pd.DataFrame:
    """All scores of one draw."""
    sample = pd.DataFrame({"user_id": drawn})
    rows = sample.join(everybody, on="user_id", how="inner")
    tasks = rows.groupby(["method", *CELL], observed=True)[["log_ratio", "rank"]].mean().reset_index()
    found = [1 - np.exp(scopes(tasks, "log_ratio")), scopes(tasks, "rank")]
    parts = [
        s.rename("value").reset_index().assign(metric=m)
        for s, m in zip(found, ("skill", "rank"), strict=True)
    ]
    inside = sample.join(groups, on="user_id", how="inner")
    if len(inside):
        fair = fair_skill(inside, baseline)
        parts.append(fair.rename("value").reset_index().assign(metric="fair_skill"))
    return pd.concat(parts)


def scopes(tasks: pd.DataFrame, column: str) -> pd.Series:
    """Means over tasks, buckets and scenarios by (method, scope)."""
    cells = tasks.groupby(["method", "scenario", "bucket"], observed=True)[column].mean()
    scenarios = cells.groupby(["method", "scenario"], observed=True).mean()
    by_scenario = scenarios.rename_axis(["method", "scope"])
    structural = tasks[tasks["scenario"].isin(STRUCTURAL)].assign(scope=lambda t: "cat:" + t["bucket"])
    by_bucket = structural.groupby(["method", "scope"], observed=True)[column].mean()
    wide = [by_scenario, by_bucket]
    for scope, members in (("semantic", SEMANTIC), ("overall", STRUCTURAL + SEMANTIC)):
        inside = scenarios[scenarios.index.get_level_values("scenario").isin(members)]
        mean = inside.groupby("method", observed=True).mean()
        wide.append(
            mean.set_axis(pd.MultiIndex.from_product([mean.index, [scope]], names=["method", "scope"]))
        )
    return pd.concat(wide)


def fair_skill(inside: pd.DataFrame, baseline: str) -> pd.Series:
    """How much smaller the differences between subgroups are than the baseline's, by (method, scope)."""
    keys = ["method", *CELL, "subgroup_attr", "subgroup_value"]
    errors = inside.groupby(keys, observed=True)["E_per_user"].mean().unstack("subgroup_value")
    reference = (
        errors.xs(baseline, level="method").reindex(errors.index.droplevel("method")).set_axis(errors.index)
    )
    present = errors.notna() & reference.notna()
    own, other = disparity(errors.where(present)), disparity(reference.where(present))
    log_ratio = np.log((own / other.where(other > 0)).clip(*CLIP)).rename("value").dropna()
    buckets = log_ratio.groupby(["method", "subgroup_attr", "bucket"], observed=True).mean()
    skills = (1 - np.exp(buckets.groupby(["method", "subgroup_attr"], observed=True).mean())).rename_axis(
        ["method", "scope"]
    )
    wide = skills.unstack("scope")
    overall = wide.mean(axis=1, skipna=False)
    index = pd.MultiIndex.from_product([overall.index, ["overall"]], names=["method", "scope"])
    return pd.concat([skills, overall.set_axis(index)])


def disparity(errors: pd.DataFrame) -> pd.Series:
    """Mean absolute difference of two subgroups."""
    pairs = [(errors[a] - errors[b]).abs() for a, b in combinations(errors.columns, 2)]
    return pd.concat(pairs, axis=1).mean(axis=1)
