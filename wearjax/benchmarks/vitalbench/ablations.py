"""The ablations of VitalBench: amount of training data, filled gaps against a masked loss, and the centres apart.

Figures 3 to 5 of the benchmark; the values of the first two are not published, nor are the fractions of Figure 4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Float64

from wearjax.benchmarks import result_files
from wearjax.benchmarks.vitalbench import tracks
from wearjax.benchmarks.vitalbench.results import VitalResults, baselines, label, notes
from wearjax.errors import ConfigError
from wearjax.segments.vital_cases import CaseStore
from wearjax.segments.vital_settings import VitalSettings
from wearjax.segments.vital_windows import downsample

FRACTIONS = (0.1, 0.25, 0.5, 0.75, 1.0)
IMPUTATIONS = ("none", "mean", "linear", "ffill", "knn")
PCA_ROWS, PCA_WINDOWS = 30, 2000
# Variables that both centres record, by their names in each (VitalBench, Fig. 3).
PAIRS = {
    "heart rate": ("Solar8000/HR", "HRp"),
    "temperature": ("Solar8000/BT", "Temp"),
    "systolic pressure": ("Solar8000/ART_SBP", "SBP_ART"),
    "mean pressure": ("Solar8000/ART_MBP", "MAP_ART"),
    "diastolic pressure": ("Solar8000/ART_DBP", "DBP_ART"),
    "end-tidal CO2": ("Solar8000/ETCO2", "ETCO2"),
    "SpO2": ("Solar8000/PLETH_SPO2", "SpO2"),
}


@dataclass(frozen=True, eq=False)
class Ablation:
    """Runs that differ in one thing.

    Attributes:
        varied: what it is: `fraction` or `imputation`.
        runs: results by its value.
    """

    varied: str
    runs: dict[str, VitalResults]

    def summary(self) -> str:
        """Average over horizons of MAE and RMSE, a line a model, a column a value."""
        first = next(iter(self.runs.values()))
        untrained = baselines(first.config)
        lines: list[str] = []
        for metric in ("MAE", "RMSE"):
            tables = {value: run.table(metric) for value, run in self.runs.items()}
            models = list(dict.fromkeys(model for table in tables.values() for model in table))
            rows = [[f"{metric} by {self.varied}", *tables]]
            for model in models:
                cells = [table[model][0] if model in table else None for table in tables.values()]
                shown = ("" if c is None else f"{c.mean:.4f} ± {c.std:.4f}" for c in cells)
                rows.append([label(model, untrained), *shown])
            lines += [*result_files.aligned(rows), ""]
        lines.append("Averages over horizons, in scaled units")
        if self.varied == "imputation" and first.config["switches"]["impute_targets"]:
            lines.append(
                "As released, filled targets count as observed: columns are of different cells, and a filled one is "
                "easy to forecast. --settings.no-impute-targets scores all on what was recorded"
            )
        return "\n".join([*lines, *notes(first.config)])

    def save(self, folder: Path) -> None:
        """Writes `ablation.json` beside the runs' folders."""
        content = {
            "benchmark": "vitalbench",
            "varied": self.varied,
            "runs": {
                value: [dataclasses.asdict(score) for score in run.scores] for value, run in self.runs.items()
            },
        }
        result_files.write_json(folder / "ablation.json", content)


def data_scale(
    data: Path,
    *,
    fractions: Sequence[float] = FRACTIONS,
    output_dir: Path,
    budget: tracks.Budget,
    **options: Any,
) -> Ablation:
    """The first part of the train list, of growing size (Fig. 4); options as those of `tracks.evaluate`."""
    runs = {}
    for fraction in fractions:
        runs[f"{fraction:g}"] = tracks.evaluate(
            data,
            output_dir=output_dir / f"fraction-{fraction:g}",
            budget=dataclasses.replace(budget, fraction=fraction),
            **options,
        )
    return Ablation("fraction", runs)


def imputation(
    data: Path,
    *,
    methods: Sequence[str] = IMPUTATIONS,
    output_dir: Path,
    settings: VitalSettings,
    **options: Any,
) -> Ablation:
    """Gaps filled before scaling against a masked loss (Fig. 5); options as those of `tracks.evaluate`.

    As released, filled targets count as observed, so that errors of different methods are of different cells; with
    the switch `impute_targets` off they are of the same.
    """
    runs = {}
    for method in methods:
        if method not in IMPUTATIONS:
            raise ConfigError(f"--methods: expected some of {', '.join(IMPUTATIONS)}, got {method!r}")
        runs[method] = tracks.evaluate(
            data,
            output_dir=output_dir / f"imputation-{method}",
            settings=dataclasses.replace(settings, imputation=cast(Any, method)),
            **options,
        )
    return Ablation("imputation", runs)


@dataclass(frozen=True, eq=False)
class Shift:
    """One variable in both centres: windows of half an hour on their first two principal components.

    Attributes:
        first, second: of the two stores.
        energy: energy distance of the standardised windows; 0 where they are alike.
    """

    variable: str
    first: Float64[np.ndarray, "window component=2"]
    second: Float64[np.ndarray, "window component=2"]
    energy: float


def centre_shift(vitaldb: CaseStore, mover: CaseStore, *, seed: int = 42) -> list[Shift]:
    """How far the centres lie apart, by variable (Fig. 3).

    Windows of 30 rows of a minute without a missing entry, in original units, at most 2,000 a centre; standardised
    and projected on the components of both together. A variable without ten such windows in each is left out.

    Raises:
        ConfigError: stores of other centres, in another order.
    """
    for store, name in ((vitaldb, "vitaldb"), (mover, "mover")):
        if store.centre.name != name:
            raise ConfigError(f"{store.path}: expected a store of {name}, got {store.centre.name}")
    found = []
    for variable, names in PAIRS.items():
        windows = [
            _complete_windows(store, name, np.random.default_rng([seed, side]))
            for side, (store, name) in enumerate(zip((vitaldb, mover), names, strict=True))
        ]
        if min(map(len, windows)) >= 10:
            found.append(_shift(variable, *windows))
    return found


def _complete_windows(
    store: CaseStore, name: str, rng: np.random.Generator
) -> Float64[np.ndarray, "window row"]:
    column = store.centre.index(name)
    every = 60 // store.centre.step_seconds
    parts = []
    for i in range(len(store)):
        rows = downsample(np.asarray(store.case(i)[:, [column]]), every)[:, 0]
        whole = len(rows) // PCA_ROWS * PCA_ROWS
        windows = rows[:whole].reshape(-1, PCA_ROWS)
        parts.append(windows[(windows != 0).all(axis=1)])
    windows = np.concatenate(parts).astype(np.float64)
    if len(windows) > PCA_WINDOWS:
        windows = windows[np.sort(rng.choice(len(windows), PCA_WINDOWS, replace=False))]
    return windows


def _shift(variable: str, first: np.ndarray, second: np.ndarray) -> Shift:
    both = np.concatenate([first, second])
    spread = both.std(axis=0)
    scaled = (both - both.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    _, _, axes = np.linalg.svd(scaled, full_matrices=False)
    points = scaled @ axes[:2].T
    n = len(first)
    return Shift(variable, points[:n], points[n:], _energy(scaled[:n], scaled[n:]))


def _energy(a: np.ndarray, b: np.ndarray) -> float:
    """Energy distance 2 E|X - Y| - E|X - X'| - E|Y - Y'| (Székely and Rizzo 2013)."""
    from scipy.spatial import distance

    across = distance.cdist(a, b).mean()
    within = [2 * distance.pdist(x).sum() / len(x) ** 2 for x in (a, b)]
    return float(2 * across - sum(within))
