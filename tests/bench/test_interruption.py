"""The first Ctrl-C is recorded; the second one interrupts immediately."""

import os
import signal
import threading

import pytest

from imitbench.bench.stopping import catch_interrupts


@pytest.fixture(autouse=True)
def interruptible():
    """Sets the default handler, because tests started in the background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_ctrl_c_is_recorded_and_the_second_interrupts():
    with catch_interrupts() as interruption:
        assert not interruption.seen
        press()
        assert interruption.seen
        with pytest.raises(KeyboardInterrupt):
            press()


def test_earlier_handlers_are_restored():
    with catch_interrupts():
        pass
    with pytest.raises(KeyboardInterrupt):
        press()


def test_catching_interrupts_can_be_disabled():
    with catch_interrupts(wanted=False), pytest.raises(KeyboardInterrupt):
        press()


def test_an_ignored_ctrl_c_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with catch_interrupts() as interruption:
        press()
        assert not interruption.seen
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_install_no_handlers():
    checked = []

    def run():
        with catch_interrupts() as interruption:
            checked.append(interruption.seen)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert checked == [False]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_repeated_scheduler_signals_are_only_recorded(number):
    before = signal.getsignal(number)
    with catch_interrupts() as interruption:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert interruption.seen
        with pytest.raises(KeyboardInterrupt):
            press()
    assert signal.getsignal(number) is before
