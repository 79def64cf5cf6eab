"""Engines: results in order, what is shared is sent once, and what goes wrong is one clear line."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from wearjax import engine as engines
from wearjax.engine import Engine
from wearjax.errors import ConfigError, StoreError


class Opened:
    """Counts in a file how often it was unpickled."""

    def __init__(self, log: str):
        self.log = log

    def __setstate__(self, state):
        self.__dict__.update(state)
        with open(self.log, "a") as file:
            file.write(f"{os.getpid()}\n")


def slow_first(shared, task):
    time.sleep(0.3 if task == 0 else 0.0)
    return task, os.getpid()


def double(shared, task):
    return 2 * task


def refuse(shared, task):
    raise StoreError(f"task {task}: no such store")


def die(shared, task):
    os.kill(os.getpid(), signal.SIGKILL)


def accelerators(shared, task):
    return sorted({"jax", "torch"} & set(sys.modules))


def test_this_process_takes_tasks_as_they_are_asked_for():
    drawn = []
    tasks = (drawn.append(i) or i for i in range(3))
    found = Engine().map(lambda shared, task: (shared, task), tasks, shared=[])
    shared, first = next(found)
    assert (drawn, first) == ([0], 0)
    assert next(found)[0] is shared  # nothing is copied


def test_processes_answer_in_order_share_once_and_draw_no_more_than_there_is_room(tmp_path):
    drawn = []
    log = tmp_path / "log"
    with Engine(jobs=2) as engine:
        assert engine.elsewhere
        found = engine.map(slow_first, (drawn.append(i) or i for i in range(20)), shared=Opened(str(log)))
        first = next(found)
        assert len(drawn) <= 6
        answers = [first, *found]
        assert list(engine.map(accelerators, [0])) == [[]]
        with pytest.raises(StoreError, match="task 0: no such store"):
            list(engine.map(refuse, range(3)))
        assert list(engine.map(double, range(3))) == [0, 2, 4]  # and it goes on
    assert [task for task, _ in answers] == list(range(20))
    processes = {process for _, process in answers}
    assert os.getpid() not in processes
    opened = log.read_text().split()
    assert len(opened) == len(set(opened)) <= 2


def test_a_process_that_dies_is_told_and_the_engine_starts_anew():
    with Engine("local", jobs=2) as engine:
        with pytest.raises(ConfigError, match=r"^jobs=2: a process died; guard the main module"):
            list(engine.map(die, range(3)))
        assert list(engine.map(double, [21])) == [42]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"where": "spark"}, "engine 'spark': expected local, dask or the address"),
        ({"where": "local", "jobs": 0}, "jobs: must be at least 1, got 0"),
        ({"where": "tcp://127.0.0.1:1", "jobs": 2}, "jobs: tcp://127.0.0.1:1 has its own workers"),
    ],
)
def test_impossible_engines(given, told):
    with pytest.raises(ConfigError, match=told):
        Engine(**given)


def test_what_cannot_be_sent_is_told():
    with (
        Engine("local", jobs=2) as engine,
        pytest.raises(ConfigError, match="engine: a method or data set cannot be sent to other processes"),
    ):
        list(engine.map(double, [1], shared=lambda: None))


def test_dask_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError, match=r"pip install 'wearjax\[cluster\]'"):
        Engine("dask")


def test_no_scheduler_answers(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "_ANSWER_S", 0.2)
    with (
        Engine("tcp://127.0.0.1:9") as engine,
        pytest.raises(ConfigError, match=r"engine tcp://127.0.0.1:9: no Dask scheduler answers there"),
    ):
        list(engine.map(double, [1]))


def test_a_worker_of_another_version_is_refused():
    other = {"wearjax": "0.0.1", "numpy": "1.0"}
    with pytest.raises(
        ConfigError, match=r"engine: a worker has wearjax .*, this process wearjax 0.0.1, numpy 1.0"
    ):
        engines._on_worker(double, "token", b"", other, 1)


def test_threads_of_linear_algebra_are_left_as_they_were(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with engines.one_thread_each():
        assert os.environ["OMP_NUM_THREADS"] == os.environ["OPENBLAS_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_the_engine_brings_no_library_along():
    text = Path(engines.__file__).read_text()
    assert not any(
        line.startswith(("import dask", "import distributed", "import numpy")) for line in text.splitlines()
    )
