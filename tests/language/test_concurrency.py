import threading

import pytest

from wearjax.language import concurrency


def test_results_in_order_with_progress():
    seen = []
    out = concurrency.run_all(lambda x: x * x, range(20), workers=3, progress=lambda *p: seen.append(p))
    assert out == [x * x for x in range(20)]
    assert seen == [(i, 20) for i in range(1, 21)]
    assert concurrency.run_all(str, [], workers=3) == []


def test_an_error_stops_the_rest_and_reaches_the_caller():
    started, stop = [], threading.Event()

    def work(item):
        started.append(item)
        if item == 2:
            raise ValueError("two")
        return item

    with pytest.raises(ValueError, match="two"):
        concurrency.run_all(work, range(100), workers=1, stop=stop)
    assert stop.is_set()
    assert started[:3] == [0, 1, 2]
    assert len(started) < 100
    assert threading.active_count() < 100


def test_interrupt_lets_running_calls_finish_and_starts_no_more():
    under_way, finished = threading.Event(), []
    stop = threading.Event()

    def work(item):
        if item:
            under_way.set()
            assert stop.wait(10)  # what a pause before a retry does
        finished.append(item)

    def interrupt(done, total):
        assert under_way.wait(10)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        concurrency.run_all(work, range(10), workers=1, progress=interrupt, stop=stop)
    assert finished == [0, 1]
