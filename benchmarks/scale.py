"""Rates of the work on many participants, for sizing larger data: processor seconds of one core.

OMP_NUM_THREADS=1 python benchmarks/scale.py [PARTICIPANTS] [DAYS]

Makes an OpenMHC data root of synthetic participants in a temporary folder, then imports, opens, reads and extracts
features from it, and scores imputers and forecasters on it, each in this process. Memory is what the
process holds beyond the pages of files, which the system takes back when it needs them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from wearjax.benchmarks.openmhc import forecasting, imputation
from wearjax.channels import CHANNELS, N_CHANNELS
from wearjax.day import SHAPE, Day
from wearjax.days import clean, importing, splits
from wearjax.days.open import open_days
from wearjax.predict.features import table
from wearjax.predict.imputers import baselines
from wearjax.sources import openmhc, synthetic
from wearjax.sources.tally import Tally

DAY_MB = 4 * int(np.prod(SHAPE)) / 1e6
ROWS_A_SHARD = 256


def write_root(path: Path, participants: int, days: int) -> int:
    """A root in the published layout; returns its days."""
    cohort = synthetic.Cohort(n_participants=participants, days_per_participant=days, seed=1)
    folder = path / "processed" / "daily_hf"
    folder.mkdir(parents=True)
    people, count, rows = [], 0, []

    def flush() -> None:
        nonlocal count, rows
        found = _table(rows)
        with ipc.new_stream(str(folder / f"data-{count:05d}.arrow"), found.schema) as stream:
            stream.write_table(found, max_chunksize=32)
        count, rows = count + 1, []

    total = 0
    for day in synthetic.read_days(cohort, tally=Tally()):
        people.append(day.participant)
        rows.append(day)
        total += 1
        if len(rows) == ROWS_A_SHARD:
            flush()
    if rows:
        flush()
    names = [f"data-{number:05d}.arrow" for number in range(count)]
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    users = sorted(set(people))
    made = splits.make_splits(users, seed=1)
    (path / "splits").mkdir()
    (path / "splits" / openmhc.SPLIT_FILES["xs"]).write_text(splits.to_json(made))
    (path / openmhc.MARKER).write_text(json.dumps({"version": "xs", "n_users": len(users)}))
    return total


def _table(days: list[Day]) -> pa.Table:
    stored = np.stack([np.nan_to_num(day.values, nan=0.0) for day in days])
    variance = np.stack([clean.channel_variance(clean.zero_to_nan(values)) for values in stored])
    minutes = pa.FixedSizeListArray.from_arrays(pa.array(stored.ravel()), SHAPE[1])
    return pa.table(
        {
            "values": pa.FixedSizeListArray.from_arrays(minutes, N_CHANNELS),
            "user_id": [day.participant for day in days],
            "date": [day.date.isoformat() for day in days],
            "channel_names": [[channel.source_name for channel in CHANNELS]] * len(days),
            "total_nonwear_minutes": pa.array([day.nonwear_minutes for day in days], pa.float32()),
            "channel_variance": pa.FixedSizeListArray.from_arrays(pa.array(variance.ravel()), N_CHANNELS),
        }
    )


class Memory:
    """The most anonymous memory of this process while it is watched."""

    def __init__(self):
        self.most_mb, self._stop = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            lines = Path("/proc/self/status").read_text().splitlines()
            held = next(line for line in lines if line.startswith("RssAnon"))
            self.most_mb = max(self.most_mb, int(held.split()[1]) / 1e3)


@contextmanager
def measured(title: str, days: int) -> Iterator[None]:
    start = time.process_time()
    with Memory() as memory:
        yield
    seconds = time.process_time() - start
    rate = days / seconds
    print(
        f"{title:44s} {seconds:8.2f} s {rate:9.0f} days/s {rate * DAY_MB:8.0f} MB/s  {memory.most_mb:6.0f} MB",
        flush=True,
    )


def run(title: str, days: int, work: Callable[[], Any]) -> Any:
    with measured(title, days):
        return work()


def main(participants: str = "120", days: str = "14") -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, store = Path(folder) / "root", Path(folder) / "days"
        n = write_root(root, int(participants), int(days))
        size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
        print(
            f"{participants} participants, {n} days, root {size / 1e6:.0f} MB ({size / n / 1e3:.0f} kB a day)"
        )
        print(f"{'':44s} {'core':>8s}   {'':9s}        {'':8s}       memory")
        run("import of the root", n, lambda: importing.import_days("openmhc", root, store))
        again = importing.import_days
        run("the same, replacing it", n, lambda: again("openmhc", root, store, overwrite=True))
        opened = open_days(store)
        run("reading in order", n, lambda: [opened.values(i) for i in range(n)])
        sample = opened.batch(range(min(n, 64)))
        run("cleaning (zeros, variance)", 5 * len(sample), lambda: [_cleaned(sample) for _ in range(5)])
        run("features of xgboost", n, lambda: table.extract(opened))
        members = splits.read_splits(store)
        train, test = members.indices(opened, "train"), members.indices(opened, "test")
        built = run(
            "fitting the nine imputers", len(train) + len(test),
            lambda: baselines.build_all(baselines.NAMES, opened, train, test),
        )  # fmt: skip
        few = min(len(test), 256)
        for name, methods in (("locf", {}), ("nine imputers", built)):
            run(
                f"imputation, {name}, six scenarios", few,
                lambda methods=methods: imputation.evaluate_imputation(
                    methods or {"locf": built["locf"]}, data_dir=store, bootstrap=0, gallery_days=0, max_samples=few
                ),
            )  # fmt: skip
        tested = len(members.indices(opened, "test", retained_only=False))
        run(
            "forecasting, seasonal_naive",
            tested,
            lambda: forecasting.evaluate_forecasting({}, data_dir=store, bootstrap=0),
        )


def _cleaned(days: np.ndarray) -> None:
    for day in days:
        clean.channel_variance(clean.zero_to_nan(np.nan_to_num(day)))


if __name__ == "__main__":
    main(*sys.argv[1:])
