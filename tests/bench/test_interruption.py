"""Ctrl-C is noted once, and heeded at once when pressed again."""

import os
import signal
import threading

import pytest

from imitbench.bench.stopping import catch_interrupts


@pytest.fixture(autouse=True)
def interruptible():
    """Whoever started the tests in the background had Ctrl-C ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_noted_and_the_second_interrupts():
    with catch_interrupts() as interruption:
        assert not interruption.seen
        press()
        assert interruption.seen
        with pytest.raises(KeyboardInterrupt):
            press()


def test_afterwards_all_is_as_before():
    with catch_interrupts():
        pass
    with pytest.raises(KeyboardInterrupt):
        press()


def test_it_can_be_left_to_interrupt_anywhere():
    with catch_interrupts(wanted=False), pytest.raises(KeyboardInterrupt):
        press()


def test_where_it_is_ignored_it_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with catch_interrupts() as interruption:
        press()
        assert not interruption.seen
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_do_without():
    checked = []

    def run():
        with catch_interrupts() as interruption:
            checked.append(interruption.seen)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert checked == [False]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_what_schedulers_send_is_noted_however_often(number):
    before = signal.getsignal(number)
    with catch_interrupts() as interruption:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert interruption.seen
        with pytest.raises(KeyboardInterrupt):
            press()
    assert signal.getsignal(number) is before
