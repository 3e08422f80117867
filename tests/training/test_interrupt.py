"""Signals become a request: never lost, acted upon where it is safe, and everything as before afterwards."""

import os
import signal
import threading

import pytest

from recbole_adaptau.training.interrupt import Stopped, StopRequest

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers_stay_as_they_were():
    ignored = signal.getsignal(signal.SIGINT)  # as in a job that a shell started in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    assert [signal.getsignal(number) for number in SIGNALS] == before
    signal.signal(signal.SIGINT, ignored)


def send(number):
    os.kill(os.getpid(), number)


class SendsWhenDeleted:
    """Python drops a KeyboardInterrupt that is raised in here."""

    def __del__(self):
        send(signal.SIGINT)
        sum(range(10))  # time for the handler to run inside


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_waits_for_the_check(number, code):
    with StopRequest() as stop:
        send(number)
        reached = True
        with pytest.raises(Stopped) as caught:
            stop.check()
    assert reached and caught.value.exit_code == code and isinstance(caught.value, KeyboardInterrupt)


def test_an_interrupt_inside_a_destructor_is_not_lost():
    with StopRequest() as stop:
        held = SendsWhenDeleted()
        del held
        with pytest.raises(Stopped):
            stop.check()


def test_the_second_signal_stops_at_once():
    with pytest.raises(Stopped, match="SIGTERM"), StopRequest():
        send(signal.SIGINT)
        send(signal.SIGTERM)
        pytest.fail("went on")


def test_a_request_that_nobody_looked_at_is_acted_upon_at_the_end():
    with pytest.raises(Stopped), StopRequest():
        send(signal.SIGINT)


def test_another_error_is_not_hidden_by_the_request():
    with pytest.raises(ZeroDivisionError), StopRequest():
        send(signal.SIGINT)
        1 / 0  # noqa: B018


def test_nothing_is_asked_for_the_second_time_unless_it_is():
    request = StopRequest()
    with pytest.raises(ZeroDivisionError), request:
        send(signal.SIGINT)
        1 / 0  # noqa: B018
    with request:
        request.check()


def test_entering_again_inside_keeps_the_handlers_until_the_outer_end():
    request = StopRequest()
    with request:
        with request:
            pass
        send(signal.SIGINT)
        with pytest.raises(Stopped):
            request.check()


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            send(signal.SIGINT)
            stop.check()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_installs_nothing():
    seen = []

    def work():
        with StopRequest() as stop:
            seen.extend(signal.getsignal(number) for number in SIGNALS)
            stop.check()

    before = [signal.getsignal(number) for number in SIGNALS]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == before
