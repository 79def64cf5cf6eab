"""Runs many slow calls at once, in threads, so that Ctrl-C ends them in good order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_all(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int,
    progress: Callable[[int, int], None] | None = None,
    stop: threading.Event | None = None,
) -> list[Result]:
    """`[function(item) for item in items]`, with up to `workers` calls at once; results in the items' order.

    Items start in their order. `progress(done, total)` is called in the calling thread. At Ctrl-C, or when the
    function raises, no further item starts, `stop` is set (so that calls may cut their waiting short), calls
    under way are waited for (a second Ctrl-C no longer waits), and the exception goes on to the caller.
    """
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    finished: queue.SimpleQueue = queue.SimpleQueue()
    ending = threading.Event()
    for pair in enumerate(items):
        waiting.put(pair)

    def work() -> None:
        while not ending.is_set():
            try:
                index, item = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                finished.put((index, function(item), None))
            except BaseException as error:  # carried to the calling thread
                ending.set()
                finished.put((index, None, error))

    # Daemons, so that a process that has been told twice to end does not wait for an endpoint.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(workers, len(items)))]
    results: list = [None] * len(items)
    try:
        for thread in threads:
            thread.start()
        for done in range(1, len(items) + 1):
            index, results[index], error = finished.get()
            if error is not None:
                raise error
            if progress is not None:
                progress(done, len(items))
        return results
    except BaseException:
        ending.set()
        if stop is not None:
            stop.set()
        raise
    finally:
        ending.set()
        for thread in threads:
            thread.join()
