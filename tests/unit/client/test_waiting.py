"""Calls that wait in a thread of their own."""

from __future__ import annotations

import threading
from typing import Any

from confluent_kafka import KafkaError, KafkaException
import pytest

from drkit.client.waiting import Calls, Unanswered, in_caller
from tests.support.waiting import wait_until

TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT))


def never() -> bool:
    return False


def always() -> bool:
    return True


def test_the_answer_and_the_error_of_a_call():
    assert Calls().wait(lambda: 7, never) == 7
    for error in (TIMED_OUT, RuntimeError("closed"), TypeError("no partition")):

        def fails(error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            Calls().wait(fails, never)
        assert caught.value is error


def test_a_call_is_left_once_clients_go_elsewhere_and_its_callbacks_are_silent_from_then_on():
    go_on, ended, served = threading.Event(), threading.Event(), list[object]()

    def work() -> None:
        go_on.wait(30)
        served.append(in_caller(lambda: served.append("called")))
        ended.set()

    with pytest.raises(Unanswered):
        Calls().wait(work, always, seconds=0.2)
    go_on.set()
    assert ended.wait(30)
    assert served == [None]


def test_an_answer_while_the_cluster_is_left_still_counts():
    looked = threading.Event()

    def moved() -> bool:
        looked.set()
        return True

    assert Calls().wait(lambda: looked.wait(30), moved, seconds=30) is True


def test_callbacks_run_in_the_thread_that_waits():
    def work() -> tuple[object, threading.Thread]:
        return in_caller(threading.current_thread), threading.current_thread()

    caller, worker = Calls().wait(work, never)
    assert caller is threading.current_thread()
    assert worker is not caller
    assert in_caller(lambda: 3) == 3, "without a waiting thread it is called at once"


def test_what_a_callback_raises_leaves_the_call():
    ended = threading.Event()

    def work() -> None:
        in_caller(lambda: 1 // 0)
        ended.set()

    with pytest.raises(ZeroDivisionError):
        Calls().wait(work, never)
    assert ended.wait(30)


def test_a_question_is_repeated_until_it_is_answered_or_its_time_is_over():
    answers: list[Any] = [TIMED_OUT, None, "yes"]
    asked: list[float] = []

    def question(seconds: float) -> str | None:
        asked.append(seconds)
        found: str | Exception | None = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    assert Calls().ask(question, None, never) == "yes"
    assert len(asked) == 3
    assert max(asked) < 60, "librdkafka is never asked without an end"
    answers[:] = [None]
    assert Calls().ask(question, 0, never) is None
    answers[:] = [TIMED_OUT]
    with pytest.raises(KafkaException):
        Calls().ask(question, 0, never)


def test_a_client_is_not_closed_under_a_question():
    calls, go_on, asking, retired = Calls(), threading.Event(), threading.Event(), threading.Event()

    def question(_seconds: float) -> bool:
        asking.set()
        return go_on.wait(30)

    def retire() -> None:
        calls.retire()
        retired.set()

    with pytest.raises(Unanswered):
        calls.ask(question, None, asking.is_set)
    threading.Thread(target=retire, daemon=True).start()
    wait_until(lambda: calls._retired)
    assert not retired.wait(0.2)
    with pytest.raises(Unanswered):
        calls.ask(question, None, never)
    go_on.set()
    assert retired.wait(30)
