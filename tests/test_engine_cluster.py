"""A Dask cluster of two workers, one of which is killed on the way: the same bytes as in this process."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import numpy as np
import pytest
from made_days import made_day
from openmhc_root import write_openmhc_root

from wearjax.benchmarks.openmhc import forecasting, imputation
from wearjax.days import importing
from wearjax.days.open import open_days
from wearjax.days.store import DayStoreWriter
from wearjax.engine import Engine
from wearjax.errors import ConfigError, SourceError
from wearjax.predict import from_file
from wearjax.predict.features import table
from wearjax.predict.imputers import baselines

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "openmhc_imputer.py"
PEOPLE = [f"p{i}" for i in range(8)]
SPLIT = {"train": PEOPLE[:2], "validation": PEOPLE[2:3], "test": PEOPLE[3:]}


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("distributed")
    with Engine("dask", jobs=2) as engine:
        yield engine


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "days"
    with DayStoreWriter(path, provenance={"source": "made"}) as writer:
        writer.add_all(made_day(person, day) for person in PEOPLE for day in range(6))
        writer.attach("splits.json", json.dumps(SPLIT))
    return path


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(importing, "DAYS_PER_SHARD", 4)
    days = [made_day(person, day) for person in PEOPLE for day in range(3)]
    mixed = [days[i] for i in np.random.default_rng(1).permutation(len(days))]
    return write_openmhc_root(tmp_path / "root", [*mixed, days[0]], SPLIT)


class Killing:
    """Kills a worker of the cluster at the first progress."""

    def __init__(self):
        self.killed = None

    def __call__(self, *progress) -> None:
        if self.killed is None and progress[:1] != (0,):
            self.killed = next(p for p in multiprocessing.active_children() if "Dask Worker" in p.name)
            self.killed.kill()


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def scores(folder: Path) -> dict[str, bytes]:
    """Files of a run, without the seconds that it and its parts took and the name of the folder."""
    found = {name: content for name, content in files(folder).items() if not name.startswith("parts/")}
    results = json.loads(found["results.json"])
    results.pop("seconds")
    found["results.json"] = json.dumps(results).encode()
    return found


def test_an_import_with_a_worker_killed(cluster, root, tmp_path):
    importing.import_days("openmhc", root, tmp_path / "here")
    kill = Killing()
    made = importing.import_days("openmhc", root, tmp_path / "there", engine=cluster, progress=kill)
    assert kill.killed is not None
    here, there = files(tmp_path / "here"), files(tmp_path / "there")
    assert len([name for name in here if name.startswith("shards/")]) == 8
    assert there == here
    assert made.tally.skipped == {("user-days", "second row of the same user and date"): 1}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["here", "root", "there"]


def test_an_interrupted_import_goes_on_to_the_same_bytes(root, tmp_path, monkeypatch):
    importing.import_days("openmhc", root, tmp_path / "whole")

    def stop(done, total):
        if done >= 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        importing.import_days("openmhc", root, tmp_path / "out", progress=stop)
    assert not (tmp_path / "out").exists()
    seen = []
    importing.import_days("openmhc", root, tmp_path / "out", progress=lambda *step: seen.append(step))
    assert seen[0] == (10, 25)
    assert files(tmp_path / "out") == files(tmp_path / "whole")

    with pytest.raises(KeyboardInterrupt):
        importing.import_days("openmhc", root, tmp_path / "again", progress=stop)
    file = next((root / "processed" / "daily_hf").glob("data-*.arrow"))
    file.touch()  # other data, as far as one can tell
    importing.import_days("openmhc", root, tmp_path / "again", progress=lambda *step: seen.append(step))
    assert (0, 25) in seen


def test_an_import_that_fails_leaves_nothing(root, tmp_path):
    with pytest.raises(SourceError):
        importing.import_days("openmhc", root, tmp_path / "out", version="full")
    broken = write_openmhc_root(tmp_path / "broken", [made_day(p) for p in PEOPLE], SPLIT, values_type="flat")
    _shorten_a_row(broken)
    with pytest.raises(SourceError, match="numbers, not"):
        importing.import_days("openmhc", broken, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken", "root"]


def _shorten_a_row(root: Path) -> None:
    import pyarrow as pa
    import pyarrow.ipc as ipc

    file = sorted((root / "processed" / "daily_hf").glob("data-*.arrow"))[-1]
    whole = ipc.open_stream(file.read_bytes()).read_all()
    rows = whole["values"].to_pylist()
    rows[-1] = rows[-1][:100]
    column = pa.array(rows, whole["values"].type)
    with ipc.new_stream(str(file), whole.schema) as stream:
        stream.write_table(whole.set_column(whole.column_names.index("values"), "values", column))


def test_imputers_with_a_worker_killed(cluster, store, tmp_path, monkeypatch):
    def evaluate(out, **options):
        days = open_days(store)
        members = {name: np.flatnonzero(np.isin(days.participants, own)) for name, own in SPLIT.items()}
        built = baselines.build_all(("mean", "linear"), days, members["train"], members["test"])
        return imputation.evaluate_imputation(
            {**built, "own": from_file.load(f"{EXAMPLE}:LocalMean")}, data_dir=store, output_dir=out,
            scenarios=("temporal_slice", "sleep_gap"), bootstrap=5, batch_days=6, **options,
        )  # fmt: skip

    evaluate(tmp_path / "here")
    kill = Killing()
    kept = imputation.Run._keep
    monkeypatch.setattr(imputation.Run, "_keep", lambda *given: (kept(*given), kill())[0])
    evaluate(tmp_path / "there", engine=cluster)
    assert kill.killed is not None
    assert scores(tmp_path / "there") == scores(tmp_path / "here")


def test_forecasters_with_a_worker_killed(cluster, tmp_path):
    store = tmp_path / "days"
    with DayStoreWriter(store, provenance={"source": "made"}) as writer:
        writer.add_all(made_day(person, day) for person in PEOPLE for day in range(8))
        writer.attach("splits.json", json.dumps(SPLIT))
    for name, options in (("here", {}), ("there", {"engine": cluster, "progress": (kill := Killing())})):
        forecasting.evaluate_forecasting(
            {}, data_dir=store, output_dir=tmp_path / name, bootstrap=5, **options
        )
    assert kill.killed is not None
    assert scores(tmp_path / "there") == scores(tmp_path / "here")


def test_features_with_a_worker_killed_are_kept(cluster, store, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "DAYS_A_TASK", 10)
    days = open_days(store)
    here = table.extract(days, n_jobs=1)
    there = table.extract(days, cache_dir=tmp_path, engine=cluster, progress=Killing())
    assert there.participants == here.participants
    assert there.values.tobytes() == here.values.tobytes()
    calls = []
    again = table.extract(days, cache_dir=tmp_path, engine=cluster, progress=lambda *step: calls.append(step))
    assert calls == []
    assert again.values.tobytes() == here.values.tobytes()


class Learned:
    on_accelerator = True

    def impute(self, data, observed_mask, target_mask):
        return data


def test_methods_on_accelerators_stay_here(store, tmp_path):
    with pytest.raises(ConfigError, match="learned: runs on the accelerators of this process"):
        imputation.evaluate_imputation({"learned": Learned()}, data_dir=store, engine="local", jobs=2)
