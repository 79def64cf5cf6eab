"""Processes that fit series side by side, with the same results however many there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from wearjax import engine
from wearjax.errors import ConfigError
from wearjax.predict.forecasters import univariate_fits
from wearjax.predict.forecasters.univariate_fits import Outcome, Task

FEW_TASKS = 32  # so few are not worth the seconds that processes need to start


class FitPool:
    """Runs tasks in this process or in others, which start when first needed and stay until `close`.

    Args:
        jobs: processes; None takes one a core once a call has more than a few tasks, and this process until then.
            Several start by importing the program's main module, which therefore must be guarded
            (`if __name__ == "__main__"`).

    Raises:
        ConfigError: `jobs` below 1.
    """

    def __init__(self, jobs: int | None):
        if jobs is not None and jobs < 1:
            raise ConfigError(f"jobs: must be at least 1, got {jobs}")
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def each(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
        """Position and outcome of every task, as they come.

        Raises:
            ConfigError: statsforecast is not installed, or a process died.
        """
        univariate_fits.require_library()
        processes = self._processes(len(tasks))
        must_interrupt = any(task.limit_s is not None for task in tasks)
        if processes == 1 and (not must_interrupt or univariate_fits.can_limit_time()):
            yield from _here(tasks)
        else:
            yield from self._elsewhere(tasks, processes)

    def close(self) -> None:
        """Ends the processes; a later call starts new ones."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _processes(self, n_tasks: int) -> int:
        if self._jobs is not None:
            return self._jobs
        few = n_tasks <= FEW_TASKS and self._pool is None
        return 1 if few else engine.cores()

    def _elsewhere(self, tasks: Sequence[Task], processes: int) -> Iterator[tuple[int, Outcome]]:
        if self._pool is None:
            self._pool = engine.start_processes(processes, _prepare)
        running: dict[Future, int] = {}
        try:
            running = {self._pool.submit(univariate_fits.run, task): at for at, task in enumerate(tasks)}
            for done in as_completed(running):
                yield running[done], done.result()
        except BrokenProcessPool:
            self._pool = None
            raise ConfigError(
                f"jobs={processes}: a process of the fits died; guard the main module "
                '(if __name__ == "__main__"), give more memory, or use jobs=1'
            ) from None
        finally:  # an interrupted call leaves nothing waiting
            for future in running:
                future.cancel()


def _here(tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
    univariate_fits.load_library()
    from threadpoolctl import threadpool_limits

    for at, task in enumerate(tasks):
        with threadpool_limits(1):  # as in a worker: sums of several threads may differ in the last bit
            outcome = univariate_fits.run(task)
        yield at, outcome


def _prepare() -> None:
    """Runs once in each process."""
    univariate_fits.load_library()
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
