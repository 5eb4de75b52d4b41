"""Observers: who is told what, and what a bad one costs."""

from __future__ import annotations

import threading

import pytest

from ace.calls import call_scope, note_model_call
from ace.calls.model_calls import CallScope
from ace.protocols import Usage
from ace.protocols.observers import (
    Event,
    ModelCalled,
    RunEnded,
    SampleStarted,
    emit,
    is_observed,
    observing,
    register_observer,
    unregister_observer,
)

STARTED = SampleStarted("run", "trace", 1, 1)


def test_an_observer_is_told_until_it_is_forgotten() -> None:
    seen: list[Event] = []
    assert not is_observed()
    register_observer("mine", seen.append)
    register_observer("mine", seen.append)
    try:
        emit(STARTED)
        with pytest.raises(ValueError, match="'mine' is already registered"):
            register_observer("mine", print)
    finally:
        unregister_observer("mine")
    emit(STARTED)
    unregister_observer("mine")
    assert seen == [STARTED]
    assert not is_observed()


def test_a_failing_observer_is_named_and_the_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    def fails(event: Event) -> None:
        raise OSError("the display is gone")

    seen: list[Event] = []
    register_observer("display", fails)
    try:
        with observing(seen.append):
            emit(STARTED)
    finally:
        unregister_observer("display")
    assert seen == [STARTED]
    assert "'display'" in caplog.text and "the display is gone" in caplog.text


@pytest.mark.parametrize("error", [OSError("the display is gone"), SystemExit("the display is gone"), GeneratorExit()])
def test_a_failing_observer_is_logged_once_in_a_run_and_its_failures_are_counted(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(event: Event) -> None:
        raise error

    with observing(fails):
        for _ in range(2):
            for _ in range(18):
                emit(STARTED)
            emit(RunEnded("run", 1, 0, 0, 0, 1.0, ""))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 4, said
    for first, counted in (said[:2], said[2:]):
        assert "failed at SampleStarted: " in first and type(error).__name__ in first and str(error) in first
        assert counted.endswith("failed 19 times in this run")


def test_observers_come_and_go_while_others_emit() -> None:
    counts = [0] * 4
    stop = threading.Event()

    def emits() -> None:
        while not stop.is_set():
            emit(STARTED)

    def watches(place: int) -> None:
        for _ in range(200):
            seen: list[Event] = []
            with observing(seen.append):
                emit(STARTED)
            counts[place] += bool(seen)

    emitting = [threading.Thread(target=emits) for _ in range(2)]
    watching = [threading.Thread(target=watches, args=(place,)) for place in range(4)]
    for thread in [*emitting, *watching]:
        thread.start()
    for thread in watching:
        thread.join()
    stop.set()
    for thread in emitting:
        thread.join()
    assert counts == [200] * 4
    assert not is_observed()


def test_a_model_call_tells_for_whom_it_was() -> None:
    seen: list[Event] = []
    scope = CallScope(run_id="run", trace_id="a.jsonl#1").asked_by("Reflector")
    with observing(seen.append), call_scope(scope):
        note_model_call("gpt", Usage(calls=1, input_tokens=3, output_tokens=2, cost=0.5), 0.25)
        note_model_call("own", Usage(calls=1, unpriced_calls=1), 0.0, recorded=True)
    assert seen == [
        ModelCalled("run", "a.jsonl#1", "gpt", "Reflector", 3, 2, 0.5, 0.25, False),
        ModelCalled("run", "a.jsonl#1", "own", "Reflector", 0, 0, None, 0.0, True),
    ]
