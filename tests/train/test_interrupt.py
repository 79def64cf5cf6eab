from __future__ import annotations

import signal
import threading

import pytest

from wearjax.train.interrupt import Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_request(number):
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        assert interrupts.requested is None
        signal.raise_signal(number)
        assert interrupts.requested == number
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_interrupts_at_once():
    with Interrupts():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_other_threads_may_train_too():
    failures = []

    def train():
        try:
            with Interrupts() as interrupts:
                assert interrupts.requested is None
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert failures == []
