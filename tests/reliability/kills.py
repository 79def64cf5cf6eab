# ruff: noqa: E501  made data is read better in one line than in ten
"""Kills commands at random moments, runs them again, and compares what they leave with an undisturbed run.

    python tests/reliability/kills.py --times 20 --seed 1 [--only train import …]

A command runs in a child that is forked from a process with the libraries imported, so that kills fall on its work and
not on its imports. The moment is a random share of the processor time that the undisturbed command took. One kill in
three is followed by another one, of the second run. Checked after each kill: nothing at the output, or something whole
(`Job.between`); no file that another reader would take for finished. Checked at the end: the command succeeds, and every
file has the bytes of the undisturbed run, but for the fields in `VOLATILE`; nothing is left beside the output.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault(
        "JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"wearjax-xla-{os.getuid()}")
    )
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

import numpy as np
from made_days import made_day
from openmhc_root import write_openmhc_root

from wearjax.days import label_tables
from wearjax.days.open import open_days
from wearjax.days.store import DayStoreWriter
from wearjax.errors import WearjaxError
from wearjax.sources import synthetic_labels  # noqa: F401  imported before the forks
from wearjax.sources.synthetic_labels import Label

# What may differ between two runs: clocks, rates, and paths of the output.
VOLATILE = {"seconds", "days_per_second", "data_wait_fraction"}
WHO = [f"p{i}" for i in range(8)]
CONFIG = """
from wearjax.models.lsm2 import LSM2Config
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig


def get_config():
    model = LSM2Config(patch=240, encoder_dim=8, encoder_depth=1, encoder_heads=2, decoder_dim=8, decoder_depth=1, decoder_heads=2)
    loop = LoopConfig(steps=24, log_every=2, validate_every=6, validation_examples=2, checkpoint_every=3, devices=1)
    return PretrainConfig(name="t", data=DataConfig(batch_size=2), model=model, optimizer=OptimizerConfig(learning_rate=1e-3), loop=loop)
"""
OWN = """
import numpy as np


class Level:
    name = "level"

    def impute(self, data, observed_mask, target_mask, **_):
        return np.where(target_mask, np.float32(1.5), data).astype(np.float32)

    def predict(self, history, horizon, **_):
        return np.repeat(np.nan_to_num(history[:, -1:]), horizon, axis=1).astype(np.float32)
"""


@dataclass(frozen=True)
class Job:
    """A command to kill.

    Attributes:
        arguments: of the command line, from the folder of inputs and the output.
        between: raises AssertionError where a kill left something half, given the output and that of a whole run.
        resumes: whether a finished output may be given to the same command again.
    """

    name: str
    arguments: Callable[[Path, Path], list[Any]]
    between: Callable[[Path, Path], None]
    hurried: tuple[str, ...] = ()


@dataclass
class Counts:
    """What became of the kills of one job."""

    kills: int = 0
    second_kills: int = 0
    finished: int = 0
    same_bytes: int = 0
    started: int = 0  # kills that found some of the output there
    cpu_s: float = 0.0

    def row(self, name: str) -> str:
        return f"{name:14}{self.kills:7}{self.second_kills:9}{self.started:9}{self.finished:10}{self.same_bytes:12}{self.cpu_s:9.2f}"


HEAD = f"{'command':14}{'kills':>7}{'+second':>9}{'begun':>9}{'finished':>10}{'same bytes':>12}{'CPU s':>9}"


def make_inputs(folder: Path) -> Path:
    """A store with splits and labels, a data root, a Fitabase export, a configuration, a method."""
    folder.mkdir(parents=True)
    days = [made_day(p, d) for p in WHO for d in range(12)]
    parts = {"train": WHO[:4], "validation": WHO[4:5], "test": WHO[5:]}
    with DayStoreWriter(folder / "days", provenance={"source": "made"}) as writer:
        writer.add_all(days)
        writer.attach("splits.json", json.dumps(parts))
        writer.attach(
            "participants.json",
            json.dumps(
                {p: {"birth_year": 1960 + 5 * i, "sex": ["male", "female"][i % 2]} for i, p in enumerate(WHO)}
            ),
        )
    labels = {p: {"age": Label(30.0 + 3 * i, 0.5), "Diabetes": Label(i % 2, 0.5)} for i, p in enumerate(WHO)}
    label_tables.write_task_labels(open_days(folder / "days"), labels)
    write_openmhc_root(
        folder / "root",
        days,
        {**parts},
        {p: {"birth_year": 1970, "sex": "male"} for p in WHO},
        rows_per_shard=8,
    )
    import readers

    (folder / "fitbit").mkdir()
    readers.BY_NAME["fitbit fitabase"].make(folder / "fitbit")
    (folder / "config.py").write_text(CONFIG)
    (folder / "own.py").write_text(OWN)
    return folder


def _nothing_or_store(out: Path, whole: Path) -> None:
    if out.exists():
        assert contents(out) == contents(whole), f"{out.name} is there and not whole"
    others = [p.name for p in out.parent.iterdir() if p != out and not p.name.startswith(".")]
    assert not others, f"beside the output: {others}"


def _run_folder(out: Path, whole: Path) -> None:
    """Bundles, results and tables carry their names only when they are whole."""
    _readable(out)
    if (out / "bundle").exists():
        assert contents(out / "bundle") == contents(whole / "bundle"), "a bundle that is not whole"


def _search(out: Path, whole: Path) -> None:
    for trial in out.glob("trial-*"):
        _run_folder(trial, whole / trial.name)
    _readable(out)


def _evaluation(out: Path, whole: Path) -> None:
    _readable(out)
    if (out / "results.json").exists():
        for name in ("results.json", "scores.parquet", "config.json"):
            assert plain(out / name) == plain(whole / name), f"results are there, {name} is not whole"


def _jobs(out: Path, whole: Path) -> None:
    """What a job's record says is done is whole; so is what carries the names of results."""
    for record in out.rglob("job.json"):
        for name in ("job.json", "cases.parquet", "variables.parquet", "examples.npz"):
            file = record.with_name(name)
            if (wanted := whole / file.relative_to(out)).exists():
                assert plain(file) == plain(wanted), f"a job is recorded, {name} is not whole"
    if (out / "results.json").exists():
        for name in ("results.json", "scores.parquet"):
            assert plain(out / name) == plain(whole / name), f"results are there, {name} is not whole"


def _questions(out: Path, whole: Path) -> None:
    """Each file of questions appears whole; a folder without `build.json` is no dataset."""
    for name in ("store", "cohort.json", "items.jsonl", "build.json", "audit.json", "queue.jsonl"):
        if (out / name).exists():
            found, wanted = (contents(f) if f.is_dir() else plain(f) for f in (out / name, whole / name))
            assert found == wanted, f"{name} is there and not whole"


def _readable(out: Path) -> None:
    """Every JSON and Parquet file that is there can be read to its end."""
    import pyarrow.parquet as pq

    for file in out.rglob("*") if out.exists() else ():
        if file.name.startswith(".") or not file.is_file() or "checkpoints" in file.parts:
            continue
        if file.suffix == ".json":
            json.loads(file.read_text())
        elif file.suffix == ".parquet":
            pq.read_table(file)
        elif file.suffix == ".npz":
            with np.load(file) as stored:
                _ = [stored[name] for name in stored.files]


PARTS = ("wearjax.benchmarks.openmhc.parts",)
JOBS = (
    Job("train", lambda at, out: ["pretrain", at / "config.py", "--data", at / "days", "--out", out], _run_folder),
    Job("import root", lambda at, out: ["data", "import", "openmhc", at / "root", "--out", out], _nothing_or_store),
    Job("import fitbit", lambda at, out: ["data", "import", "fitbit", at / "fitbit", "--out", out], _nothing_or_store),
    Job("synth", lambda at, out: ["data", "synth", "--participants", 4, "--days", 3, "--out", out], _nothing_or_store),
    Job("search", lambda at, out: ["search", at / "search.py", "--data", at / "days", "--out", out, "--trials", 2, "--units", 3], _search),
    Job("imputation", lambda at, out: ["evaluate", "imputation", at / "days", "--out", out, "--methods", "mean", "linear", "--method", f"{at / 'own.py'}:Level", "--bootstrap", 20], _evaluation, PARTS),
    Job("forecasting", lambda at, out: ["evaluate", "forecasting", at / "days", "--out", out, "--method", f"{at / 'own.py'}:Level", "--bootstrap", 20], _evaluation, PARTS),
    Job("vitalbench", lambda at, out: ["vitalbench", "train", at / "surgeries", "--out", out, "--models", "dlinear", "--horizons", 1, 3, "--size", "small", "--epochs", 3, "--batch-size", 32, "--bootstrap", 20], _jobs),
    Job("qa build", lambda at, out: ["qa", "build", "--synthetic", 3, "--days", 150, "--seed", 5, "--types", "excursion_count", "risk_assessment", "--jobs", 1, "--out", out], _questions),
    Job("prediction", lambda at, out: ["evaluate", "prediction", at / "days", "--out", out, "--tasks", "age", "Diabetes", "--bootstrap", 20], _evaluation),
)  # fmt: skip
BY_NAME = {job.name: job for job in JOBS}


def plain(file: Path) -> Any:
    """The content of a file without what may differ."""
    if file.suffix == ".json":
        return _without(json.loads(file.read_text()))
    if file.name == "report.html":  # tables of it tell seconds
        return re.sub(r"[\d.,]+", "#", file.read_text())
    if file.name == "metrics.jsonl":
        return [_without(json.loads(line)) for line in file.read_text().splitlines()]
    return file.read_bytes()


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without(v) for k, v in value.items() if k not in VOLATILE}
    return [_without(v) for v in value] if isinstance(value, list) else value


def contents(out: Path, *, left_out: Callable[[Path], bool] = lambda file: False) -> dict[str, Any]:
    """Every file by its path; checkpoints, and what an evaluation keeps, by name alone, since they hold the clock."""
    found = {}
    for file in sorted(out.rglob("*")):
        relative = file.relative_to(out)
        if "checkpoints" in relative.parts:
            if len(relative.parts) >= 2 and relative.parts[-2] == "checkpoints":
                found[str(relative)] = "checkpoint"
        elif relative.parts[0] == "parts" and (out / "parts" / "key.json").exists():
            found["parts"] = "parts"
        elif file.is_file() and relative.name not in (".search.lock", "study.journal"):
            found[str(relative)] = plain(file)
    return found


def start(arguments: list[Any], said: Path, hurried: tuple[str, ...]) -> int:
    """Runs the command line in a child of its own group; its process id."""
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        os.setsid()
        sink = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        import importlib

        for name in hurried:  # keep what is done at every chance, not once a minute
            module: Any = importlib.import_module(name)
            module.SECONDS, module._SHARE = 0.0, float("inf")
        from wearjax import cli

        try:
            cli.main([str(each) for each in arguments])
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def finish(child: int, said: Path, *, limit_s: float = 900) -> float:
    """Waits; the processor time of the child. Raises AssertionError when it failed or hung."""
    before = time.monotonic()
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            assert status == 0, f"exit status {os.waitstatus_to_exitcode(status)}: {said.read_text()[-1500:]}"
            return used.ru_utime + used.ru_stime
        if time.monotonic() - before > limit_s:
            kill(child)
            raise AssertionError(f"hung: {said.read_text()[-1500:]}")
        time.sleep(0.01)


def kill_at(child: int, cpu_s: float) -> bool:
    """Kills the child once it has used so much processor time; False when it ended before."""
    while _used(child) < cpu_s:
        done, _, _ = os.wait4(child, os.WNOHANG)
        if done:
            return False
        time.sleep(0.002)
    kill(child)
    return True


def kill(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _used(child: int) -> float:
    try:
        fields = Path(f"/proc/{child}/stat").read_text().rsplit(") ", 1)[1].split()
    except OSError:
        return float("inf")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def campaign(job: Job, inputs: Path, folder: Path, *, times: int, seed: int) -> Counts:
    """Kills the job `times` times. Raises AssertionError at the first thing that is not as it should be."""
    rng = random.Random(f"{job.name}/{seed}")
    folder.mkdir(parents=True)
    whole, counts = folder / "whole" / "out", Counts()
    whole.parent.mkdir()
    said = folder / "said.txt"
    finish(start(job.arguments(inputs, whole), said, job.hurried), said)  # compiles, and says what is right
    wanted = contents(whole)
    again = folder / "again" / "out"
    again.parent.mkdir()
    counts.cpu_s = finish(start(job.arguments(inputs, again), said, job.hurried), said)
    assert _same(contents(again), wanted) is None, (
        f"two undisturbed runs differ: {_same(contents(again), wanted)}"
    )
    while counts.kills < times:
        out = folder / f"{counts.kills}" / "out"
        shutil.rmtree(out.parent, ignore_errors=True)
        out.parent.mkdir()
        if not kill_at(
            start(job.arguments(inputs, out), said, job.hurried), rng.uniform(0, 1) * counts.cpu_s
        ):
            continue
        counts.kills += 1
        job.between(out, whole)
        counts.started += any(out.parent.iterdir())
        if rng.random() < 1 / 3 and kill_at(
            start(job.arguments(inputs, out), said, job.hurried), rng.uniform(0, 1) * counts.cpu_s
        ):
            counts.second_kills += 1
            job.between(out, whole)
        if not (out.exists() and _same(contents(out), wanted) is None and _refuses_again(job)):
            finish(start(job.arguments(inputs, out), said, job.hurried), said)
        counts.finished += 1
        difference = _same(contents(out), wanted)
        assert difference is None, f"after a kill: {difference}"
        counts.same_bytes += 1
        left = [p.name for p in out.parent.rglob("*") if "partial" in p.name or ".parts" in p.name]
        assert not left, f"left behind: {left}"
        shutil.rmtree(out.parent)
    return counts


def _refuses_again(job: Job) -> bool:
    """Whether the command refuses what is finished, as all but training and search do."""
    return job.name not in ("train", "search")


def _same(found: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    """None, or the first difference."""
    if found.keys() != wanted.keys():
        return f"files {sorted(found.keys() ^ wanted.keys())[:6]}"
    for name, value in wanted.items():
        if found[name] != value:
            if isinstance(value, bytes):
                return f"{name}: other bytes"
            return f"{name}: {_first(found[name], value)}"
    return None


def _first(a: Any, b: Any, at: str = "") -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*b, *a]:
            if a.get(key) != b.get(key):
                return _first(a.get(key), b.get(key), f"{at}.{key}")
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            if x != y:
                return _first(x, y, f"{at}[{i}]")
    return f"{at} {a!r:.60} instead of {b!r:.60}"


def preload() -> None:
    """Imports what the commands import; nothing here starts a backend or a thread that a fork would lose."""
    import jax  # noqa: F401

    from wearjax import cli  # noqa: F401
    from wearjax.benchmarks.openmhc import forecasting, imputation, prediction  # noqa: F401
    from wearjax.benchmarks.vitalbench import tracks  # noqa: F401
    from wearjax.benchmarks.wearableqa import audits, build, registry  # noqa: F401
    from wearjax.convert import bundle  # noqa: F401
    from wearjax.predict.imputers import baselines  # noqa: F401
    from wearjax.report import page, vital_page  # noqa: F401
    from wearjax.train import loop, search, vitals  # noqa: F401

    registry.chosen(None)  # questions' modules come by name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(BY_NAME))
    given = parser.parse_args()
    preload()
    failed: Counter[str] = Counter()
    folder = Path(tempfile.mkdtemp(prefix="wearjax-kills-"))
    inputs = make_inputs(folder / "inputs")
    _search_config(inputs)
    if "vitalbench" in given.only:
        _surgeries(inputs)
    print(HEAD, flush=True)
    for name in given.only:
        try:
            counts = campaign(
                BY_NAME[name], inputs, folder / name.replace(" ", "-"), times=given.times, seed=given.seed
            )
        except (AssertionError, WearjaxError) as error:
            print(f"{name}: FAILED: {error}", flush=True)
            failed[name] += 1
        else:
            print(counts.row(name), flush=True)
            shutil.rmtree(folder / name.replace(" ", "-"))
    if failed:
        raise SystemExit(f"kept in {folder}")
    shutil.rmtree(folder)


def _surgeries(inputs: Path) -> None:
    from wearjax.segments import vital_preparing
    from wearjax.sources.synthetic_surgery import Cohort
    from wearjax.vitals import CENTRES

    vital_preparing.prepare_synthetic(Cohort(CENTRES["vitaldb"], 8, seed=1, hours=0.4), inputs / "surgeries")


def _search_config(inputs: Path) -> None:
    text = CONFIG.replace("steps=24", "steps=6").replace("checkpoint_every=3", "checkpoint_every=1")
    (inputs / "search.py").write_text(text)


if __name__ == "__main__":
    main()
