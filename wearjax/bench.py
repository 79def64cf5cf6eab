"""Measurements of this machine, as rates and as shares of what it can do; behind `wearjax bench`."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from wearjax.days import importing
from wearjax.days.store import Days
from wearjax.sources import synthetic
from wearjax.sources.tally import Tally

Table = tuple[str, list[dict]]

LOADER_BATCH = 32
LOADER_BATCHES = 200
MASKED_DAYS = 100


def run(what: str, *, repeats: int) -> list[Table]:
    """Runs one measurement and returns tables to print."""
    return MEASUREMENTS[what](repeats)


def lsm2_step(repeats: int) -> list[Table]:
    """The training step of LSM-2 at its published size, against a matrix product in the same process."""
    from wearjax.train import throughput

    return throughput.measure_lsm2(repeats=repeats)


def loader(repeats: int) -> list[Table]:
    """Random days a second from a made store, page cache warm."""
    from wearjax.batches.loader import Loader
    from wearjax.batches.source import ShuffledBatches

    with tempfile.TemporaryDirectory() as folder:
        days = _made_days(Path(folder) / "days", participants=120)
        indices = np.arange(len(days))
        days.batch(indices)  # warms the page cache

        def read() -> float:
            batches = ShuffledBatches(
                days, indices, batch_size=LOADER_BATCH, n_batches=LOADER_BATCHES, seed=0
            )
            with Loader(batches) as loaded:
                next(loaded)  # starts the reading thread
                start = time.perf_counter()
                count = sum(len(batch["index"]) for batch in loaded)
                return count / (time.perf_counter() - start)

        rates = [read() for _ in range(repeats)]
        stored = len(days)
    return [
        (
            "Loader",
            [{"days stored": stored, "batch": LOADER_BATCH, "days/s": f"{statistics.median(rates):,.0f}"}],
        )
    ]


def masks(repeats: int) -> list[Table]:
    """Days a second through each masking scenario, one core."""
    from wearjax.segments import masks as scenarios

    with tempfile.TemporaryDirectory() as folder:
        days = _made_days(Path(folder) / "days", participants=12)
        values = days.batch(np.arange(min(MASKED_DAYS, len(days))))
    observed = ~np.isnan(values)

    def seconds(scenario: str) -> float:
        start = time.perf_counter()
        for i in range(len(values)):
            scenarios.make_mask(scenario, values[i], observed[i], np.random.default_rng(i))
        return time.perf_counter() - start

    taken = {name: statistics.median(seconds(name) for _ in range(repeats)) for name in scenarios.SCENARIOS}
    rows = [{"scenario": name, "days/s": f"{len(values) / s:,.0f}"} for name, s in taken.items()]
    rows.append({"scenario": "all six", "days/s": f"{len(values) / sum(taken.values()):,.0f}"})
    return [("Masks", rows)]


def bootstrap(repeats: int) -> list[Table]:
    """Seconds of the whole scoring of 1,000 participants x 10 methods x all tasks, 1,000 draws."""
    from wearjax.benchmarks.openmhc import bootstrap_timing

    seconds = bootstrap_timing.bootstrap_seconds(repeats=repeats)
    rows = [{"participants": 1000, "methods": 10, "draws": 1000, "seconds": f"{seconds:.2f}"}]
    return [("Bootstrap of the imputation table, subgroups and fairness included", rows)]


MEASUREMENTS: dict[str, Callable[[int], list[Table]]] = {
    "lsm2": lsm2_step,
    "loader": loader,
    "masks": masks,
    "bootstrap": bootstrap,
}


def _made_days(path: Path, *, participants: int) -> Days:
    cohort = synthetic.Cohort(n_participants=participants, seed=1)
    tally = Tally()
    return importing.write_days(synthetic.read_days(cohort, tally=tally), path, provenance={}, tally=tally)
