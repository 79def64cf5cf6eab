"""A seeded run folder with every file that the report reads, made without the stations that write them."""

import json
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wearjax.channels import CHANNELS, INDEX, N_CHANNELS
from wearjax.days import coverage

SCENARIOS = (
    "random_noise",
    "temporal_slice",
    "signal_slice",
    "sleep_gap",
    "workout_gap",
    "intensity_failure",
)
CATEGORIES = ("activity", "physiology", "sleep", "workouts")
OVERALL = {"lsm2": 0.41, "linear": 0.18, "temporal_mode": -0.05, "locf": 0.0, "mean": -1.6}


def day_values(rng):
    """Minute values of a plausible day in stored units."""
    minute = np.arange(1440)
    values = np.full((N_CHANNELS, 1440), np.nan, np.float32)
    wake, bed = int(rng.integers(380, 450)), int(rng.integers(1320, 1400))
    awake = (minute >= wake) & (minute < bed)
    bouts = np.zeros(1440)
    for start in rng.integers(wake, bed - 60, size=14):
        bouts[start : start + int(rng.integers(4, 35))] += rng.uniform(20, 110)
    workout = (minute >= 1080) & (minute < 1125)
    bouts[workout] = 150
    steps = np.round(np.clip(bouts * rng.uniform(0.4, 1.1, 1440), 0, 190) * awake)
    values[INDEX["iphone_steps"]] = np.where(rng.random(1440) < 0.7, steps, 0)
    values[INDEX["iphone_distance"]] = values[INDEX["iphone_steps"]] * 0.72
    values[INDEX["iphone_flights"]] = (rng.random(1440) < 0.006) & awake
    values[INDEX["watch_steps"]] = steps
    values[INDEX["watch_distance"]] = steps * 0.7
    smooth = np.convolve(bouts, np.ones(9) / 9, "same")
    heart = 58 + 14 * awake + 0.42 * smooth + 3 * np.sin(minute / 37) + rng.normal(0, 2.5, 1440)
    heart[(rng.random(1440) < 0.35) & ~workout] = np.nan
    heart[600:660] = np.nan
    values[INDEX["watch_hr"]] = heart / 60
    values[INDEX["watch_energy"]] = 1000 * (0.15 * awake + 0.06 * smooth + rng.gamma(1.5, 0.1, 1440))
    values[INDEX["sleep_asleep"]] = (~awake) & (rng.random(1440) > 0.01)
    values[INDEX["sleep_inbed"]] = ~awake
    values[9:] = 0
    values[INDEX["workout_running"]] = workout
    values[:3, : wake + 20] = np.nan
    return values


def gallery_mask(scenario, values, rng):
    observed = ~np.isnan(values)
    target = np.zeros_like(observed)
    if scenario == "random_noise":
        for cell in rng.permutation(N_CHANNELS * 48)[: N_CHANNELS * 24]:
            target[cell // 48, 30 * (cell % 48) : 30 * (cell % 48) + 30] = True
    elif scenario == "temporal_slice":
        for start in rng.integers(0, 1390, size=10):
            target[:, start : start + 45] = True
    elif scenario == "signal_slice":
        target[3:7] = True
    elif scenario == "sleep_gap":
        target[:7, values[INDEX["sleep_inbed"]] > 0] = True
    elif scenario == "workout_gap":
        target[5:7, np.nan_to_num(values[9:]).max(axis=0) > 0] = True
    else:
        target[5:7, 1080:1125] = True
    return target & observed


def impute(method, values, target, rng):
    out = values.copy()
    for c in range(N_CHANNELS):
        seen = values[c][~target[c] & ~np.isnan(values[c])]
        hole = np.flatnonzero(target[c])
        if not len(hole):
            continue
        anchors = np.flatnonzero(~target[c] & ~np.isnan(values[c]))
        if method == "mean" or not len(anchors):
            out[c, hole] = seen.mean() if len(seen) else 0.3
        elif method == "linear":
            out[c, hole] = np.interp(hole, anchors, values[c, anchors])
        elif method == "lsm2" and not np.isnan(values[c, hole]).any():
            truth = values[c, hole]
            out[c, hole] = (
                0.75 * truth + 0.25 * truth.mean() + rng.normal(0, 0.04 * (np.ptp(truth) + 1e-3), len(hole))
            )
        else:
            before = np.clip(np.searchsorted(anchors, hole) - 1, 0, None)
            out[c, hole] = values[c, anchors[before]]
    return out.astype(np.float32)


def score_rows(methods, rng):
    scopes = ["overall", "semantic", *(f"cat:{c}" for c in CATEGORIES), *SCENARIOS]
    scopes += [f"task:{s}:ch_{c}" for s in SCENARIOS[:3] for c in range(N_CHANNELS)]
    scopes += [f"task:{s}:ch_{c}" for s in SCENARIOS[3:] for c in (5, 6)]
    rows = []
    for method, overall in methods.items():
        for scope in scopes:
            point = 0.0 if method == "locf" else overall + rng.normal(0, 0.12)
            width = 0.0 if method == "locf" else 0.03 + 0.05 * abs(point)
            mean = point + rng.normal(0, 0.1 * width)
            n_tasks = {"overall": 6, "semantic": 3, "cat:activity": 15, "cat:physiology": 6}.get(scope, 3)
            rows.append(
                (method, "skill", scope, n_tasks, point, mean, width / 2, mean - width, mean + width, 1000)
            )
    order = sorted(methods, key=methods.get, reverse=True)
    for method in methods:
        for scope in scopes[:12]:
            rank = 1 + order.index(method) + rng.uniform(-0.3, 0.3)
            rows.append((method, "rank", scope, 3, rank, rank + 0.01, 0.05, rank - 0.1, rank + 0.12, 1000))
        for scope in ("overall", "age_group", "sex"):
            fair = 0.0 if method == "locf" else methods[method] / 2
            rows.append((method, "fair_skill", scope, 4, fair, fair, 0.1, fair - 0.2, fair + 0.2, 1000))
    return rows


def write_scores(folder, rows):
    names = ("method", "metric", "scope", "n_tasks", "point", "mean", "se", "ci_lo", "ci_hi", "n_boot")
    columns = zip(*rows, strict=True)
    pq.write_table(pa.table(dict(zip(names, map(list, columns), strict=True))), folder / "scores.parquet")


def write_metrics(folder, rng, steps=2000):
    with open(folder / "metrics.jsonl", "w") as file:
        for step in range(10, steps + 1, 10):
            loss = 0.35 + 1.1 * np.exp(-step / 300) + rng.normal(0, 0.02)
            line = {"step": step, "split": "train", "loss": loss, "learning_rate": 1e-3, "grad_norm": 0.5}
            line |= {
                "days_per_second": 410 + rng.normal(0, 15),
                "data_wait_fraction": 0.03 + 0.02 * rng.random(),
            }
            file.write(json.dumps(line | {"seconds": step * 0.15}) + "\n")
            if step % 200 == 0:
                line = {"step": step, "split": "validation", "loss": loss + 0.04, "seconds": step * 0.15}
                file.write(json.dumps(line) + "\n")


def write_coverage(folder, rng, participants=24, days=60):
    hour = np.arange(24)
    awake = 1 / (1 + np.exp(-(hour - 7))) - 1 / (1 + np.exp(-(hour - 22.5)))
    shares = np.stack([(0.25 + 0.6 * awake) if c.device else np.full(24, 0.75) for c in CHANNELS])
    by_day = rng.uniform(0.3, 0.9, (participants, 1)) + rng.normal(0, 0.06, (participants, days))
    by_day[rng.random((participants, days)) < 0.25] = np.nan
    table = {
        "channel_hour": np.clip(shares + rng.normal(0, 0.03, shares.shape), 0, 1),
        "participant_day": np.clip(by_day, 0, 1),
        "participants": np.asarray([f"P{i:03d}" for i in range(participants)]),
        "first_date": "2024-03-01",
    }
    coverage.save(table, folder / "coverage.npz")


def write_gallery(
    folder, rng, scenarios=SCENARIOS, methods=tuple(OVERALL), days=6, participant="P{:03d}", truth=True
):
    (folder / "predictions").mkdir(exist_ok=True)
    chosen = [scenarios[i % len(scenarios)] for i in range(days)]
    values = np.stack([day_values(rng) for _ in chosen])
    if truth:
        target = np.stack([gallery_mask(s, v, rng) for s, v in zip(chosen, values, strict=True)])
    else:
        target = np.isnan(values)
    arrays = {
        f"imputed/{m}": np.stack([impute(m, v, t, rng) for v, t in zip(values, target, strict=True)])
        for m in methods
    }
    np.savez(
        folder / "predictions" / "gallery.npz",
        values=values, target=target, scenario=np.asarray(chosen),
        participant=np.asarray([participant.format(i // 2) for i in range(days)]),
        date=np.asarray([f"2024-03-{i + 3:02d}" for i in range(days)]), **arrays,
    )  # fmt: skip


def write_evaluation(folder, *, seed=0, methods=None, days=6):
    """A training run that was scored: all six files."""
    methods = OVERALL if methods is None else methods
    rng = np.random.default_rng([seed, zlib.crc32(folder.name.encode())])
    folder.mkdir(parents=True, exist_ok=True)
    write_scores(folder, score_rows(methods, rng))
    write_metrics(folder, rng)
    write_coverage(folder, rng)
    write_gallery(folder, rng, methods=tuple(methods), days=days)
    config = {
        "name": "demo",
        "seed": 42,
        "model": {"width": 384, "depth": 12, "patch": [10, 30]},
        "data": {"split": "train"},
    }
    config["versions"] = {"wearjax": "0.1.0", "jax": "0.10.2", "python": "3.11.2"}
    results = {
        "split": "test", "n_days": 1, "seed": 42, "bootstrap": 1000, "n_participants": 24, "n_samples": 1043,
        "scenarios": {s: {"n_applicable": 1043 - 150 * i, "n_total": 1043} for i, s in enumerate(SCENARIOS)},
        "fallback": {m: 0.0123 if m == "lsm2" else 0.0 for m in methods},
        "substituted": {m: 31245 if m == "lsm2" else 0 for m in methods},
        "skipped": {"no_cell_hidden": 12, "participant_without_demographics": 3},
        "seconds": {m: 12.5 for m in methods}, "versions": {"wearjax": "0.1.0", "numpy": "2.4.0"},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def write_imputation(
    folder, *, seed=0, days=5, participant="P{:03d}", notes=("Steps without a device were left out.",)
):
    """A run of `wearjax impute`: gallery without truth, provenance of the import."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    write_coverage(folder, rng, participants=3)
    write_gallery(
        folder, rng, methods=("lsm2",), days=days, participant=participant, truth=False, scenarios=("impute",)
    )
    results = {
        "kind": "impute", "n_days": 40, "n_participants": 3,
        "filled_cells": {"watch_hr": 412_000, "iphone_steps": 345},
        "versions": {"wearjax": "0.1.0"},
        "import": {
            "source": "apple_health", "absent": "zero-when-recording",
            "read": {"HeartRate": 120_000, "StepCount": 30_000},
            "used": {"watch_hr": 119_000, "iphone_steps": 29_500},
            "skipped": [{"measure": "StepCount", "reason": "third-party source", "count": 500}],
            "notes": list(notes),
        },
    }  # fmt: skip
    (folder / "results.json").write_text(json.dumps(results))
    return folder
