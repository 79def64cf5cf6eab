"""What an execution engine costs on one machine: start, a task, memory, and a worker that is killed on the way.

python benchmarks/engines.py processes|dask|ray [TASKS]

Two workers of one thread each. Processor seconds and memory are those of this process and all that it started
(proportional set size, so that shared pages count once).
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil

WORKERS = 2
WINDOW = 4 * WORKERS  # tasks under way at once


def double(number: int) -> int:
    return 2 * number


def die_once(number: int, marker: str) -> int:
    """The first to see no marker ends its process the hard way."""
    time.sleep(0.02)
    if number == 20 and not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


class Processes:
    def __init__(self):
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        self._pool = ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn"))
        list(self._pool.map(double, range(WORKERS)))

    def each(self, function: Callable, items: Iterable[tuple]) -> Iterator[int]:
        return _windowed(lambda item: self._pool.submit(function, *item), lambda f: f.result(), items)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class Dask:
    def __init__(self):
        import logging

        from distributed import Client, LocalCluster

        self._cluster = LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
        )
        self._client = Client(self._cluster)
        self._client.wait_for_workers(WORKERS)

    def each(self, function: Callable, items: Iterable[tuple]) -> Iterator[int]:
        submit = self._client.submit
        return _windowed(lambda item: submit(function, *item, pure=False), lambda f: f.result(), items)

    def close(self) -> None:
        self._client.close()
        self._cluster.close()


class Ray:
    def __init__(self):
        import ray

        ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        self._ray = ray
        remote = ray.remote(double)
        ray.get([remote.remote(i) for i in range(WORKERS)])

    def each(self, function: Callable, items: Iterable[tuple]) -> Iterator[int]:
        remote = self._ray.remote(max_retries=3)(function)
        return _windowed(lambda item: remote.remote(*item), self._ray.get, items)

    def close(self) -> None:
        self._ray.shutdown()


def _windowed(submit: Callable, result: Callable, items: Iterable[tuple]) -> Iterator[int]:
    """Results in order, so many tasks under way that no worker waits."""
    waiting = []
    for item in items:
        waiting.append(submit(item))
        if len(waiting) >= WINDOW:
            yield result(waiting.pop(0))
    yield from map(result, waiting)


def processor_seconds() -> float:
    own = os.times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in psutil.Process().children(recursive=True):
        try:
            used = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += used.user + used.system
    return total


def memory_mb() -> tuple[int, float]:
    everything = [psutil.Process(), *psutil.Process().children(recursive=True)]
    found = []
    for process in everything:
        try:
            found.append(process.memory_full_info().pss / 1e6)
        except psutil.Error:
            continue
    return len(found), sum(found)


def main(name: str, tasks: str = "1000") -> None:
    def lap(what: str, extra: str = "") -> None:
        nonlocal wall, cpu
        now, used = time.perf_counter(), processor_seconds()
        print(f"{name:10s} {what:28s} wall {now - wall:7.2f} s  processor {used - cpu:7.2f} s  {extra}")
        wall, cpu = time.perf_counter(), processor_seconds()

    wall, cpu = time.perf_counter(), processor_seconds()
    engine = {"processes": Processes, "dask": Dask, "ray": Ray}[name]()
    lap("start")
    n = int(tasks)
    assert list(engine.each(double, ((i,) for i in range(n)))) == [2 * i for i in range(n)]
    count, used = memory_mb()
    lap(f"{n} empty tasks", f"{count} processes, {used:.0f} MB")
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = list(engine.each(die_once, ((i, folder + "/died") for i in range(100))))
            told = "same results" if found == [2 * i for i in range(100)] else "OTHER results"
        except Exception as error:
            told = f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"
    lap("100 tasks, a worker killed", told)
    engine.close()
    lap("stop")


if __name__ == "__main__":
    main(*sys.argv[1:])
