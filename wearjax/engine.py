"""Where work on many participants runs: in this process, in processes of this machine, or on a Dask cluster.

An engine maps a function over tasks and gives the results in the order of the tasks, so that what is made of them
does not depend on where they ran. A task should be worth a good part of a second: a batch of participants. Tasks are
NumPy work; accelerators are for the process itself. Dask is an extra: `pip install 'wearjax[cluster]'`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Protocol

from wearjax.errors import ConfigError

LOCAL, DASK = "local", "dask"
_SCHEMES = ("tcp://", "tls://", "ucx://", "ws://", "wss://")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_ANSWER_S, _WORKERS_S = 10, 120  # so long for a scheduler to answer, and for a first worker


class Engine:
    """Processes that stay until `close`, and start when first needed. Use it as a context manager.

    Args:
        where: None for this process (with `jobs`, for `local`); `local` for processes of this machine; `dask` for a
            Dask cluster on this machine; the address of a Dask scheduler, e.g. `tcp://host:8786`, whose workers see
            the same files.
        jobs: processes of `local` and `dask`; by default one a core. Several start by importing the program's main
            module, which therefore must be guarded (`if __name__ == "__main__"`).

    Attributes:
        elsewhere: whether tasks leave this process.

    Raises:
        ConfigError: an unknown place, `jobs` below 1 or for a cluster that has its own workers, or Dask is needed
            and not installed.
    """

    def __init__(self, where: str | None = None, *, jobs: int | None = None):
        if jobs is not None and jobs < 1:
            raise ConfigError(f"jobs: must be at least 1, got {jobs}")
        if where is not None and where not in (LOCAL, DASK) and not where.startswith(_SCHEMES):
            raise ConfigError(
                f"engine {where!r}: expected local, dask or the address of a scheduler, tcp://HOST:PORT"
            )
        if jobs is not None and where is not None and where.startswith(_SCHEMES):
            raise ConfigError(f"jobs: {where} has its own workers; start as many there")
        if where is None:
            where, jobs = LOCAL, jobs or 1
        self.where, self.jobs = where, jobs or cores()
        self.elsewhere = where != LOCAL or self.jobs > 1
        self._runner: _Runner | None = None
        if where != LOCAL:
            _require_dask()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes; a later call of `map` starts new ones."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def map(
        self, function: Callable[[Any, Any], Any], tasks: Iterable[Any], *, shared: Any = None
    ) -> Iterator[Any]:
        """`function(shared, task)` of every task, in order; tasks are drawn as there is room for them.

        Args:
            function: of a module, not a local one.
            shared: what all tasks need, sent to a process once.

        Raises:
            ConfigError: `shared` cannot be sent, or processes died. Whatever the function raises.
        """
        if not self.elsewhere:
            for task in tasks:
                yield function(shared, task)
            return
        payload = _packed(shared)
        if self._runner is None:
            self._runner = _Processes(self.jobs) if self.where == LOCAL else _Dask(self.where, self.jobs)
        try:
            yield from self._runner.map(function, tasks, payload)
        except (BrokenProcessPool, _Lost) as error:
            self.close()
            raise ConfigError(str(error) if isinstance(error, _Lost) else self._advice()) from None

    def _advice(self) -> str:
        return (
            f'jobs={self.jobs}: a process died; guard the main module (if __name__ == "__main__"), give more memory, '
            "or use jobs=1"
        )


@contextlib.contextmanager
def opened(engine: str | Engine | None, jobs: int | None = None) -> Iterator[Engine]:
    """An engine as given, which stays open, or one by name, which is closed at the end of the block."""
    if isinstance(engine, Engine):
        yield engine
        return
    with Engine(engine, jobs=jobs) as made:
        yield made


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Runner(Protocol):
    def map(self, function: Callable, tasks: Iterable[Any], payload: bytes) -> Iterator[Any]: ...

    def close(self) -> None: ...


class _Lost(Exception):
    """A cluster that cannot finish; the message is for people."""


def _packed(shared: Any) -> bytes:
    try:
        return pickle.dumps(shared)
    except Exception as error:
        told = " ".join(str(error).split())[:160]
        raise ConfigError(
            f"engine: a method or data set cannot be sent to other processes ({told})"
        ) from None


def _in_order(
    submit: Callable, result: Callable, tasks: Iterable[Any], room: Callable[[], int]
) -> Iterator[Any]:
    """Results in the order of the tasks, no more of these under way than there is room for."""
    waiting: deque = deque()
    try:
        for task in tasks:
            waiting.append(submit(task))
            while len(waiting) >= room():
                yield result(waiting.popleft())
        while waiting:
            yield result(waiting.popleft())
    finally:  # an interrupted call leaves nothing waiting
        for future in waiting:
            future.cancel()


# --- Processes of this machine


class _Processes:
    def __init__(self, jobs: int):
        self._jobs = jobs
        self._folder = tempfile.TemporaryDirectory(prefix="wearjax-")
        self._pool = start_processes(jobs)

    def map(self, function: Callable, tasks: Iterable[Any], payload: bytes) -> Iterator[Any]:
        token = uuid.uuid4().hex
        file = Path(self._folder.name) / token
        file.write_bytes(payload)

        def submit(task: Any) -> Any:
            return self._pool.submit(_in_process, function, token, str(file), task)

        try:
            with one_thread_each():
                yield from _in_order(
                    submit, lambda future: future.result(), tasks, lambda: 2 * self._jobs + 1
                )
        finally:
            file.unlink(missing_ok=True)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()


def start_processes(
    jobs: int, prepare: Callable[..., None] | None = None, *given: Any
) -> ProcessPoolExecutor:
    """A pool whose processes leave Ctrl-C to this one and end with it; `prepare(*given)` runs once in each."""
    return ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context(
            "spawn"
        ),  # not by forking: this process may hold threads of JAX
        initializer=_start_process,
        initargs=(prepare, given),
    )


def _start_process(prepare: Callable[..., None] | None, given: tuple) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if prepare is not None:
        prepare(*given)


def _end_with_parent() -> None:
    """A killed parent cannot stop its workers, which would wait for tasks for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        with contextlib.suppress(OSError):
            parent.join()
        os._exit(1)


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes that start meanwhile use one thread for linear algebra."""
    with environment(dict.fromkeys(_THREADS, "1")):
        yield


@contextlib.contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables have these values meanwhile, and then again the ones they had."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _in_process(function: Callable, token: str, file: str, task: Any) -> Any:
    return function(_shared(token, lambda: Path(file).read_bytes()), task)


_KNOWN: dict[str, Any] = {}  # what the tasks of one map share


def _shared(token: str, payload: Callable[[], bytes]) -> Any:
    if token not in _KNOWN:
        _KNOWN.clear()
        _KNOWN[token] = pickle.loads(payload())
    return _KNOWN[token]


# --- A Dask cluster


class _Dask:
    def __init__(self, where: str | None, jobs: int):
        import distributed

        self._cluster = None
        try:
            if where == DASK:
                with _ignoring_interrupts():
                    # Memory-mapped days count as a worker's memory to Dask, which would pause it for them.
                    self._cluster = distributed.LocalCluster(
                        n_workers=jobs,
                        threads_per_worker=1,
                        memory_limit=0,
                        dashboard_address=None,
                        silence_logs=logging.CRITICAL,
                    )
            self._client = distributed.Client(self._cluster or where, timeout=_ANSWER_S)
        except (OSError, TimeoutError, ValueError) as error:
            self._close_cluster()
            told = " ".join(str(error).split())[:120]
            raise ConfigError(f"engine {where}: no Dask scheduler answers there ({told})") from None

    def map(self, function: Callable, tasks: Iterable[Any], payload: bytes) -> Iterator[Any]:
        import distributed

        token = uuid.uuid4().hex
        try:
            self._client.wait_for_workers(1, timeout=_WORKERS_S)
        except (TimeoutError, distributed.TimeoutError):
            raise _Lost(f"engine: the cluster has no worker after {_WORKERS_S} seconds") from None
        # A result of a task and not a thing sent: when the worker that holds it dies, it is made again.
        shared = self._client.submit(_same, payload, key=f"wearjax-shared-{token}")
        versions = _versions()
        numbers = iter(range(1 << 62))

        def submit(task: Any) -> Any:
            key = f"wearjax-{token}-{next(numbers)}"
            return self._client.submit(
                _on_worker, function, token, shared, versions, task, key=key, pure=False
            )

        room = 2 * sum(self._client.ncores().values()) + 1
        try:
            yield from _in_order(submit, lambda future: future.result(), tasks, lambda: room)
        except distributed.scheduler.KilledWorker as error:
            raise _Lost(
                f"engine: a task took {error.allowed_failures + 1} workers down with it; give them more memory. "
                "The same command goes on from what is complete"
            ) from None
        except (distributed.CancelledError, distributed.comm.CommClosedError) as error:
            told = " ".join(str(error).split())[:120]
            raise _Lost(
                f"engine: the scheduler is gone ({told}). The same command goes on from what is complete"
            ) from None

    def close(self) -> None:
        self._client.close()
        self._close_cluster()

    def _close_cluster(self) -> None:
        if self._cluster is not None:
            self._cluster.close()


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Processes that start meanwhile leave Ctrl-C, which reaches the whole group, to this one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _require_dask() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ConfigError(
            "engine: Dask is not installed; install it with: pip install 'wearjax[cluster]'"
        ) from None


def _same(payload: bytes) -> bytes:
    return payload


def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("wearjax", "numpy")}


_ONE_AT_A_TIME = threading.Lock()  # methods need not bear threads


def _on_worker(function: Callable, token: str, payload: bytes, versions: dict[str, str], task: Any) -> Any:
    if (own := _versions()) != versions:
        raise ConfigError(f"engine: a worker has {_told(own)}, this process {_told(versions)}")
    with _ONE_AT_A_TIME:
        return function(_shared(token, lambda: payload), task)


def _told(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
