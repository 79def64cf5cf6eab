# ruff: noqa: E501  made data is read better in one line than in ten
"""Every reader of foreign or stored files: how to make a small readable input for it, and how to read it to the end."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TESTS = Path(__file__).resolve().parents[1]
for _folder in (TESTS, TESTS / "sources", TESTS / "benchmarks"):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))

from made_days import made_day  # noqa: E402

from wearjax.days import importing  # noqa: E402
from wearjax.sources.tally import Tally  # noqa: E402
from wearjax.vitals import CENTRES  # noqa: E402

PEOPLE = ("p1", "p2", "p3", "p4")


@dataclass(frozen=True)
class Reader:
    """A reader under attack.

    Attributes:
        make: writes a readable input into a folder that is there.
        read: reads an input to its end; what it writes goes to the second path.
        place: the file or folder within the folder that is read.
        jax: whether it needs the accelerator stack.
    """

    name: str
    make: Callable[[Path], Any]
    read: Callable[[Path, Path], Any]
    place: str = "."
    jax: bool = False
    extras: tuple[str, ...] = field(default=())

    def input(self, folder: Path) -> Path:
        return folder if self.place == "." else folder / self.place


def _write(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


# Days of people ----------------------------------------------------------------------------------------------------


def _import(source: str, **options: Any) -> Callable[[Path, Path], Any]:
    def read(path: Path, out: Path) -> Any:
        made = importing.import_days(source, path, out, **options)
        _whole(made.store)
        return made.tally

    return read


def _whole(days: Any) -> None:
    """Reads every day; what an import lets through is finite or missing."""
    for i in range(len(days)):
        day = days[i]
        assert day.values.shape == (19, 1440)
        assert not np.isinf(day.values).any(), "an infinite value came through"
        assert 0 <= day.nonwear_minutes <= 1440, f"non-wear {day.nonwear_minutes}"


def _apple_elements() -> bytes:
    import made_apple_health as made

    records = [
        made.steps(f"2024-05-0{d} {h:02}:00", f"2024-05-0{d} {h:02}:10", 120)
        for d in (1, 2)
        for h in range(8, 20)
    ]
    records += [made.heart(f"2024-05-01 {h:02}:00", 60 + h) for h in range(24)]
    records += [made.sleep("2024-05-01 23:00", "2024-05-02 06:00", "AsleepCore")]
    records += [made.workout("2024-05-02 17:00", "2024-05-02 18:00", "Running")]
    return made.document(*records)


def _apple_zip(folder: Path) -> None:
    import made_apple_health as made

    made.zipped(
        folder / "export.zip",
        {
            "apple_health_export/export.xml": _apple_elements(),
            "apple_health_export/electrocardiograms/ecg.csv": b"x",
        },
    )


def _fitabase(folder: Path) -> None:
    minutes = [dt.datetime(2016, 4, 13) + dt.timedelta(minutes=m) for m in range(0, 1440)]
    clock = [
        f"{t.month}/{t.day}/{t.year} {t.hour % 12 or 12}:{t.minute:02}:00 {'AM' if t.hour < 12 else 'PM'}"
        for t in minutes
    ]
    head = "Id,ActivityHour," + ",".join(f"Steps{i:02}" for i in range(60))
    wide = [
        f"8877689391,{clock[60 * h]}," + ",".join(str((h * m) % 40) for m in range(60)) for h in range(24)
    ]
    steps = [f"{who},{t},{i % 30}" for who in (1503960366, 1644430081) for i, t in enumerate(clock)]
    _write(folder, {
        "minuteStepsNarrow_merged.csv": "\n".join(["Id,ActivityMinute,Steps", *steps[::3]]) + "\n",
        "more/minuteStepsWide_merged.csv.gz": gzip.compress(("\n".join([head, *wide]) + "\n").encode()),
        "heartrate_seconds_merged.csv": "\n".join(["Id,Time,Value", *[f"1503960366,{t},{60 + i % 50}" for i, t in enumerate(clock[::5])]]) + "\n",
        "minuteSleep_merged.csv": "\n".join(["Id,date,value,logId", *[f"1503960366,{t.replace(':00 ', ':30 ')},{1 + i % 3},1138" for i, t in enumerate(clock[:300])]]) + "\n",
        "dailyActivity_merged.csv": "Id,ActivityDate,TotalSteps,TotalDistance\n1503960366,4/13/2016,6000,4.1\n",
    })  # fmt: skip


def _takeout(path: Path) -> dict[str, bytes]:
    root = "Takeout/Fitbit/Global Export Data/"
    day = [f"05/01/24 {h:02}:{m:02}:00" for h in range(6, 22) for m in range(0, 60, 2)]
    levels = [
        {"dateTime": "2024-05-01T23:00:00.000", "level": "light", "seconds": 7200},
        {"dateTime": "2024-05-02T01:00:00.000", "level": "deep", "seconds": 3600},
    ]
    night = {
        "logId": 1,
        "dateOfSleep": "2024-05-02",
        "startTime": "2024-05-01T23:00:00.000",
        "endTime": "2024-05-02T02:00:00.000",
        "type": "stages",
        "levels": {"data": levels, "shortData": []},
    }
    exercise = {
        "logId": 5,
        "activityName": "Run",
        "activityTypeId": 90009,
        "startTime": "05/01/24 15:00:00",
        "duration": 1800000,
        "originalDuration": 1800000,
        "logType": "auto_detected",
    }
    return {
        root + "steps-2024-05-01.json": json.dumps([{"dateTime": t, "value": str(i % 90)} for i, t in enumerate(day)]).encode(),
        root + "heart_rate-2024-05-01.json": json.dumps([{"dateTime": t, "value": {"bpm": 60 + i % 40, "confidence": 2}} for i, t in enumerate(day)]).encode(),
        root + "distance-2024-05-01.json": json.dumps([{"dateTime": t, "value": str(i % 9)} for i, t in enumerate(day)]).encode(),
        root + "sleep-2024-05-01.json": json.dumps([night]).encode(),
        root + "exercise-0.json": json.dumps([exercise]).encode(),
        "Takeout/Fitbit/Physical Activity_GoogleData/steps_2024-05-02.csv": ("timestamp,steps\n" + "".join(f"2024-05-02T{h:02}:00:00Z,{h}\n" for h in range(24))).encode(),
    }  # fmt: skip


def _takeout_zip(folder: Path) -> None:
    import made_apple_health as made

    made.zipped(folder / "takeout.zip", _takeout(folder))


def _health_connect(folder: Path) -> None:
    import made_apple_health
    import test_health_connect

    made = test_health_connect.Made(folder / "health_connect_export.db")
    for hour in range(6, 22):
        made.steps(f"2024-05-01 {hour:02}:00:00", f"2024-05-01 {hour:02}:30:00", 100 * hour)
        made.hearts(
            f"2024-05-01 {hour:02}:00:00",
            f"2024-05-01 {hour:02}:30:00",
            [(f"2024-05-01 {hour:02}:05:00", 70)],
        )
    made.sleep(
        "2024-05-01 23:00:00", "2024-05-02 06:00:00", [("2024-05-01 23:00:00", "2024-05-02 05:00:00", 4)]
    )
    made.workout("2024-05-01 17:00:00", "2024-05-01 18:00:00", 56, "Run")
    database = made.done()
    made_apple_health.zipped(folder / "export.zip", {database.name: database.read_bytes()})


def _counts(folder: Path) -> None:
    start = dt.datetime(2003, 3, 18, 15)
    rows = [
        f"{start + dt.timedelta(minutes=i)},{(start + dt.timedelta(minutes=i)).date()},{(i * 7) % 300}"
        for i in range(1800)
    ]
    text = "\n".join(["timestamp,date,activity", *rows]) + "\n"
    _write(folder, {"anna.csv": text, "ben.csv.gz": gzip.compress(text.encode())})


def _awd(folder: Path) -> None:
    lines = [
        "carl",
        "18-Mar-2003",
        "15:00",
        " 4 ",
        "35",
        "V000000",
        "X",
        *[str((i * 7) % 300) + (" M" if i == 9 else "") for i in range(1800)],
    ]
    _write(
        folder,
        {"carl.AWD": "\n".join(lines) + "\n", "dora.AWD.gz": gzip.compress("\r\n".join(lines).encode())},
    )


def _nhanes(folder: Path) -> None:
    rows = [
        f"{seqn},{day},{(m * 3) % 200},{m}" for seqn in (21005, 21006) for day in (7, 1) for m in range(1440)
    ]
    _write(folder, {"paxraw.csv": "\n".join(["seqn,paxday,paxinten,minute", *rows]) + "\n"})


def _root(folder: Path) -> None:
    from openmhc_root import write_openmhc_root, write_trajectories

    days = [made_day(p, d) for p in PEOPLE for d in range(2)]
    splits = {"train": PEOPLE[:2], "validation": PEOPLE[2:3], "test": PEOPLE[3:]}
    people = {p: {"birth_year": 1980, "sex": "female"} for p in PEOPLE}
    root = write_openmhc_root(folder / "root", days, splits, people)
    rng = np.random.default_rng(0)
    hours = {p: (dt.date(2021, 3, 1), rng.uniform(1, 9, (240, 19)).astype(np.float32)) for p in PEOPLE}
    kept = {p: [(dt.date(2021, 3, 1) + dt.timedelta(days=d)).isoformat() for d in range(10)] for p in PEOPLE}
    write_trajectories(
        root, hours, kept, {"sample_index_P_24_M_H_7_3_S_100.json": {p: [4, 6] for p in PEOPLE}}
    )
    _labels(root / "processed" / "daily_labels_lookup_full_history.parquet")


def _labels(file: Path) -> None:
    table = pa.table({
        "user_id": [p for p in PEOPLE for _ in range(2)],
        "date": ["2021-03-01", "2021-03-02"] * len(PEOPLE),
        "n_valid_hours": pa.array([20] * 8, pa.int32()),
        "Diabetes": pa.array([0, 0, 1, 1, -1, -1, 0, 1], pa.int32()),
        "age": pa.array([30.5, 30.5, float("nan"), 40, 50, 51, 60, 61]),
    })  # fmt: skip
    pq.write_table(table, file)


def _read_root(path: Path, out: Path) -> None:
    """As a benchmark opens it, without an import."""
    from wearjax.days import labels, splits
    from wearjax.days.open import open_days
    from wearjax.segments import forecast_points, trajectories

    days = open_days(path)
    _whole(days)
    splits.read_splits(path)
    labels.read_demographics(path)
    records = trajectories.open_trajectories(path)
    for person in records.participants:
        assert records.get(person).values.shape[0] == 19
        records.retained(person)
    if file := forecast_points.shipped(path, 24):
        forecast_points.read(file)
    _read_labels(path, out)


def _read_labels(path: Path, out: Path) -> None:
    from wearjax.days import task_labels

    found = task_labels.read_lookup(path)
    for task in found.tasks:
        found.cohort(task, found.users)


def _store(folder: Path) -> None:
    from wearjax.days.store import DayStoreWriter

    with DayStoreWriter(
        folder / "store", provenance={"source": "made", "import": Tally().as_dict()}, days_per_shard=3
    ) as writer:
        for p in PEOPLE:
            for d in range(2):
                writer.add(made_day(p, d))
        split = {"train": PEOPLE[:2], "validation": PEOPLE[2:3], "test": PEOPLE[3:]}
        writer.attach("splits.json", json.dumps(split))
        writer.attach(
            "participants.json", json.dumps({p: {"birth_year": 1980, "sex": "male"} for p in PEOPLE})
        )
    _labels(folder / "store" / "task_labels.parquet")


def _read_store(path: Path, out: Path) -> None:
    from wearjax.days import check, coverage, labels, splits
    from wearjax.days.open import open_days

    days = open_days(path)
    check.check_days(days)
    split = splits.read_splits(path)
    split.indices(days, "train")
    labels.read_demographics(path)
    list(coverage.describe(days))
    _whole_or_reported(days)
    _read_labels(path, out)


def _whole_or_reported(days: Any) -> None:
    for i in range(len(days)):
        assert days[i].values.shape == (19, 1440)


# Daily records -----------------------------------------------------------------------------------------------------


def _daily(folder: Path) -> None:
    rows = [
        f"{who},2024-01-{d:02},{6000 + d},{55 + d % 5},{6 + d / 10},{40 + d}"
        for who in ("a", "b")
        for d in range(1, 29)
    ]
    _write(folder, {
        "daily.csv": "\n".join(["user,date,steps,rhr,sleep_duration,hrv", *rows]) + "\n",
        "people.csv": "user,age,sex,bmi\na,34,F,22.5\nb,51,male,\n",
        "blood.csv": "user,marker,value,unit,date\na,ldl,120,mg/dL,2024-01-05\nb,glucose,90,mg/dL,\n",
    })  # fmt: skip


def _lifesnaps(folder: Path) -> None:
    import test_lifesnaps

    _write(folder, {"daily.csv": "\n".join((test_lifesnaps.HEADER, *test_lifesnaps.ROWS)) + "\n"})


def _records_of(module: str) -> Callable[[Path, Path], Any]:
    def read(path: Path, out: Path) -> Any:
        import importlib

        from wearjax.segments import daily_records

        tally = Tally()
        found = importlib.import_module(module).read_records(path, tally=tally)
        store = daily_records.write_records(out, found, tally)
        for user in store.users():
            record = store.record(user)
            assert not np.isinf(record.values).any(), "an infinite value came through"
        return tally

    return read


def _questions(folder: Path) -> None:
    import made_questions

    made_questions.write(folder / "qa", made_questions.items(2))
    queue = [{"id": each.id, "decision": None} for each in made_questions.items(2)]
    (folder / "qa" / "queue.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queue))


def _read_questions(path: Path, out: Path) -> None:
    from wearjax.benchmarks.wearableqa import asking
    from wearjax.benchmarks.wearableqa.dataset import Dataset

    data = Dataset(path)
    data.digest  # noqa: B018
    asking.render(data, out)


# Surgeries ---------------------------------------------------------------------------------------------------------


def _prepare(source: str, centre: str) -> Callable[[Path, Path], Any]:
    def read(path: Path, out: Path) -> Any:
        from wearjax.segments import vital_preparing

        made = vital_preparing.prepare(source, path, out, centre=centre)
        assert np.isfinite(made.store.values).all(), "a value that is not finite came through"
        return made.tally

    return read


def _vital_csv(folder: Path) -> None:
    from wearjax.sources import vital_cases
    from wearjax.sources.vital_cases import Case

    rng = np.random.default_rng(0)
    for i in range(4):
        values = rng.uniform(1, 9, (12, CENTRES["vitaldb"].n_variables)).astype(np.float32)
        vital_cases.write_csv(Case(f"c{i}", dt.datetime(2017, 1, 1 + i), values), folder, CENTRES["vitaldb"])


def _vitaldb(folder: Path) -> None:
    import test_vitaldb_tables as made

    _write(
        folder,
        {
            "cases.csv": made.CASES,
            "trks.csv": made.TRACKS,
            "tracks/t-hr.csv": made.HR,
            "tracks/t-bis.csv.gz": gzip.compress(made.BIS.encode()),
        },
    )


def _vital_files(folder: Path) -> None:
    import test_vital_file as made

    tracks = {
        "Intellivue/ECG_HR": [(t, 70 + t % 5) for t in range(60)],
        "BIS/BIS": [(3, 40), (9, 41)],
        "Intellivue/AWAY_CO2_ET": [(2, 35)],
    }
    for name in ("12", "13", "14"):
        made.record(folder / f"{name}.vital", tracks)


def _beats(folder: Path) -> None:
    rows = [f"{i * 0.8:.2f},{'True' if i % 17 == 0 else 'False'},N" for i in range(120)]
    text = "\n".join(["time_second,bad_signal_quality,beat_type", *rows]) + "\n"
    _write(
        folder,
        {"case_0001.csv": text, "case_0002.csv.gz": gzip.compress(text.encode()), "case_0003.csv": text},
    )


def _mover(folder: Path) -> None:
    import test_mover as made

    _write(folder, {f"patient_{name}.csv": text for name, text in made.TABLES.items()})


def _cases(folder: Path) -> None:
    from wearjax.segments import vital_cases
    from wearjax.sources.vital_cases import Case

    rng = np.random.default_rng(0)
    made = (
        Case(
            f"c{i}",
            dt.datetime(2017, 1, 1 + i),
            rng.uniform(1, 9, (5 + i, CENTRES["mover"].n_variables)).astype(np.float32),
        )
        for i in range(6)
    )
    vital_cases.write_cases(folder / "cases", made, CENTRES["mover"], provenance={"source": "made"})


def _read_cases(path: Path, out: Path) -> None:
    from wearjax.segments import vital_cases

    store = vital_cases.open_cases(path)
    for i in range(len(store)):
        assert store.case(i).shape[1] == store.centre.n_variables
    for name in ("train", "validation", "test"):
        store.indices(name)


# Files of benchmarks -----------------------------------------------------------------------------------------------


def _masks(folder: Path) -> None:
    from wearjax.segments import mask_cache

    days = [np.where(made_day("p", d).values == 0, np.nan, made_day("p", d).values) for d in range(3)]
    mask_cache.MaskSet.generate(lambda i: days[i], 3, "temporal_slice", "test").save(
        folder / "test" / "temporal_slice.npz"
    )


def _read_masks(path: Path, out: Path) -> None:
    from wearjax.segments import mask_cache

    found = mask_cache.MaskSet.load(path)
    for position in found.indices:
        assert found.mask(int(position)).shape == found.shape


def _points(folder: Path) -> None:
    (folder / "index.json").write_text(json.dumps({p: [1, 4, 6] for p in PEOPLE}))


def _read_points(path: Path, out: Path) -> None:
    from wearjax.segments import forecast_points

    forecast_points.read(path)


def _packets(folder: Path) -> None:
    import test_packet_reading as made

    for track, table in made.TABLES.items():
        made.write(folder / track, table(), {**made.SIDECARS[track], "fallback_rate": 0.25})


def _read_packets(path: Path, out: Path) -> None:
    from wearjax.benchmarks.openmhc import packet

    for track in sorted(path.iterdir()):
        packet.read_packet(track / "mine.parquet")


def _answers(folder: Path) -> None:
    lines = [
        {"format": 1, "key": f"{i:064x}", "answer": {"choices": [{"message": {"content": f"Answer: {c}"}}]}}
        for i, c in enumerate("ABCDE")
    ]
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _read_answers(path: Path, out: Path) -> None:
    from wearjax.language import answers, parsing
    from wearjax.language.answer_cache import AnswerCache

    class Response:
        def __init__(self, raw: Any):
            self.text, self._raw = json.dumps(raw), raw

        def json(self) -> Any:
            return self._raw

    cache = AnswerCache(path)
    for i in range(5):
        stored = cache.get(f"{i:064x}")
        if stored is not None:
            try:
                reply = answers.read(answers.completion(Response(stored)))
            except answers.Retry:
                continue
            for parse in (parsing.letter, parsing.number, parsing.probability):
                parse(reply.text)
            parsing.label(reply.text, ["no", "yes"])


def _replies(folder: Path) -> None:
    text = "Thinking: 3 of 10, or 30 %.\nOptions A) 5 B) 6\n**Answer:** (C) 71.5 kg (157 lb)\n"
    _write(
        folder,
        {
            "reply.txt": text,
            "reply.json": json.dumps(
                {
                    "choices": [
                        {
                            "message": {
                                "content": text,
                                "tool_calls": [{"id": 1, "function": {"name": "run", "arguments": "{}"}}],
                            },
                            "finish_reason": "stop",
                        }
                    ],
                    "usage": {"prompt_tokens": 5, "completion_tokens": 7},
                }
            ),
        },
    )


def _read_replies(path: Path, out: Path) -> None:
    from wearjax.errors import WearjaxError
    from wearjax.language import answers, parsing

    class Response:
        text = ""

        def json(self) -> Any:
            return json.loads((path / "reply.json").read_text())

    try:
        texts = [(path / "reply.txt").read_text(errors="replace")]
        (path / "reply.json").read_text()
    except (OSError, UnicodeDecodeError):
        raise WearjaxError(f"{path}: the attack's own file") from None
    try:
        reply = answers.read(answers.completion(Response()))
    except answers.Retry:
        pass
    else:
        assert isinstance(reply.text, str)
        texts.append(reply.text)
    for text in texts:
        found = parsing.letter(text)
        assert found is None or found in "ABCDEFGHIJ"
        value = parsing.probability(text)
        assert value is None or 0 <= value <= 1
        number = parsing.number(text)
        assert number is None or np.isfinite(number)
        parsing.label(text, ["Normal", "Overweight", "no", "yes"])


def _run(folder: Path) -> None:
    run = folder / "run"
    run.mkdir()
    from wearjax.benchmarks.openmhc import bootstrap_timing, packet

    rows = [{"step": s, "split": "train", "loss": 1 / s, "days_per_s": 3.0} for s in range(1, 20)]
    rows += [{"step": s, "split": "validation", "loss": 1 / s} for s in (5, 10)]
    _write(
        run,
        {
            "config.json": json.dumps({"name": "tiny", "seed": 1, "versions": {"jax": "1"}}),
            "metrics.jsonl": "".join(json.dumps(r) + "\n" for r in rows),
        },
    )
    del bootstrap_timing, packet


def _read_run(path: Path, out: Path) -> None:
    from wearjax.report import page

    page.write_report([path], out)


# Models ------------------------------------------------------------------------------------------------------------

CONFIG = '''"""A configuration."""

from wearjax.models.lsm2 import LSM2Config
from wearjax.train.config import DataConfig, LoopConfig, PretrainConfig


def get_config() -> PretrainConfig:
    model = LSM2Config(patch=60, encoder_dim=8, encoder_depth=1, encoder_heads=2, decoder_dim=8, decoder_depth=1, decoder_heads=2)
    return PretrainConfig(name="t", data=DataConfig(batch_size=2), model=model, loop=LoopConfig(steps=2))
'''


def _config_py(folder: Path) -> None:
    (folder / "mine.py").write_text(CONFIG)


def _read_config_py(path: Path, out: Path) -> None:
    from wearjax.train import config as configs

    configs.load_config(path)


def _config_json(folder: Path) -> None:
    from wearjax.train import config as configs

    _config_py(folder)
    made = configs.to_dict(configs.load_config(folder / "mine.py"))
    (folder / "mine.py").unlink()
    _write(
        folder,
        {
            "run/config.json": json.dumps(
                {**made, "versions": {}, "normalization": {}, "run": {"a": 1}}, indent=1
            )
        },
    )


def _read_config_json(path: Path, out: Path) -> None:
    """As a resumed run reads it."""
    from wearjax.errors import ConfigError
    from wearjax.train import config as configs
    from wearjax.train import run_folder

    own = path.parent.parent / "asked"
    own.mkdir(exist_ok=True)
    _config_py(own)
    asked = configs.to_dict(configs.load_config(own / "mine.py"))
    found = run_folder.open_run(path, asked, force=False)
    if found is None:
        raise ConfigError(f"{path}: taken for a new run")


def _model() -> Any:
    from flax import nnx

    from wearjax.models.lsm2 import LSM2, LSM2Config

    config = LSM2Config(
        patch=240,
        encoder_dim=8,
        encoder_depth=1,
        encoder_heads=2,
        decoder_dim=8,
        decoder_depth=1,
        decoder_heads=2,
    )
    return config, LSM2(config, rngs=nnx.Rngs(0))


def _bundle(folder: Path) -> None:
    from wearjax.convert import bundle
    from wearjax.days.normalization import NormalizationStats

    config, model = _model()
    bundle.save_bundle(
        folder / "bundle",
        kind="lsm2",
        config=config,
        model=model,
        stats=NormalizationStats.identity(),
        origin={"run": "made"},
    )


def _read_bundle(path: Path, out: Path) -> None:
    import wearjax
    from wearjax.convert import bundle

    bundle.load_bundle(path)
    bundle.read_card(path)
    wearjax.load_pretrained(path)


def _torch(kind: str) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        from wearjax.convert import torch_checkpoint

        _bundle(folder)
        torch_checkpoint.export_torch(folder / "bundle", folder / f"model.{kind}", format=kind)
        shutil.rmtree(folder / "bundle")

    return make


def _read_torch(path: Path, out: Path) -> None:
    from wearjax.convert import torch_checkpoint

    torch_checkpoint.import_torch(path, out=out)


def _stats(folder: Path) -> None:
    from wearjax.days.normalization import NormalizationStats

    (folder / "stats.json").write_text(NormalizationStats.identity().to_json())


def _read_stats(path: Path, out: Path) -> None:
    from wearjax.days.normalization import NormalizationStats

    found = NormalizationStats.load(path)
    assert np.isfinite(found.means).all(), "a mean that is not finite came through"
    assert (found.stds > 0).all(), "a spread that is not positive came through"
    assert np.isfinite(found.stds).all(), "a spread that is not finite came through"


READERS: tuple[Reader, ...] = (
    Reader("apple-health xml", lambda f: _write(f, {"export.xml": _apple_elements()}), _import("apple-health")),
    Reader("apple-health zip", _apple_zip, _import("apple-health"), "export.zip"),
    Reader("fitbit fitabase", _fitabase, _import("fitbit")),
    Reader("fitbit takeout zip", _takeout_zip, _import("fitbit-takeout", zone="Europe/Berlin", intraday="utc"), "takeout.zip"),
    Reader("fitbit takeout folder", lambda f: _write(f, _takeout(f)), _import("fitbit-takeout", zone="Europe/Berlin", intraday="utc")),
    Reader("health connect zip", _health_connect, _import("health-connect"), "export.zip"),
    Reader("health connect database", _health_connect, _import("health-connect"), "health_connect_export.db"),
    Reader("actigraphy csv", _counts, _import("actigraphy")),
    Reader("actigraphy awd", _awd, _import("actigraphy")),
    Reader("actigraphy nhanes", _nhanes, _import("actigraphy")),
    Reader("openmhc import", _root, _import("openmhc"), "root"),
    Reader("openmhc opened", _root, _read_root, "root"),
    Reader("day store", _store, _read_store, "store"),
    Reader("label table", lambda f: (_store(f), None)[1], _read_labels, "store"),
    Reader("daily csv", _daily, _records_of("wearjax.sources.daily_csv")),
    Reader("lifesnaps", _lifesnaps, _records_of("wearjax.sources.lifesnaps")),
    Reader("questions", _questions, _read_questions, "qa"),
    Reader("vital csv", _vital_csv, _prepare("csv", "vitaldb")),
    Reader("vitaldb tables", _vitaldb, _prepare("vitaldb-tables", "vitaldb")),
    Reader("vital files", _vital_files, _prepare("vital-files", "vitaldb"), extras=("vitaldb",)),
    Reader("beats", _beats, _prepare("beats", "vitaldb")),
    Reader("mover tables", _mover, _prepare("mover-tables", "mover")),
    Reader("case store", _cases, _read_cases, "cases"),
    Reader("mask file", _masks, _read_masks, "test/temporal_slice.npz"),
    Reader("sample index", _points, _read_points, "index.json"),
    Reader("packets", _packets, _read_packets),
    Reader("answer cache", _answers, _read_answers, "answers.jsonl"),
    Reader("llm replies", _replies, _read_replies),
    Reader("run folder", _run, _read_run, "run"),
    Reader("configuration py", _config_py, _read_config_py, "mine.py"),
    Reader("configuration json", _config_json, _read_config_json, "run"),
    Reader("normalization", _stats, _read_stats, "stats.json"),
    Reader("bundle", _bundle, _read_bundle, "bundle", jax=True),
    Reader("torch ckpt", _torch("ckpt"), _read_torch, "model.ckpt", jax=True, extras=("torch",)),
    Reader("safetensors", _torch("safetensors"), _read_torch, "model.safetensors", jax=True, extras=("safetensors", "torch")),
)  # fmt: skip
BY_NAME = {reader.name: reader for reader in READERS}
