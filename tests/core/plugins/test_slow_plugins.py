"""Code of a plugin that takes long: a warning names the plugin while the program still waits."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ace.context import ACEStepContext
from ace.plugins import (
    EmbedderSpec,
    ExecuteStepSpec,
    LLMClientSpec,
    ObserverSpec,
    StoreSpec,
    TraceConverterSpec,
    get_runner,
    hookimpl,
    loading,
    temporary,
)
from ace.protocols import find_model_prefix
from ace.protocols.deduplication import find_embedder
from ace.protocols.observers import RunEnded, emit
from ace.protocols.trace_converters import converted_trace, trace_converters
from ace.skillbook import Skillbook

HERE = __name__
OWNER = f"plugin 'slow' of {HERE}"
named = threading.Event()
slow_code = ""


def linger(where: str) -> None:
    """Return when the plugin has been named, as a user would wait before reading the message."""
    if where == slow_code and not named.wait(60):
        raise AssertionError("the program waits and says nothing")


class Execute:
    requires = frozenset({"sample"})
    provides = frozenset({"trace"})

    def __init__(self, *, speed: int = 1) -> None:
        linger("execute step")

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        return ctx


class ToTrace:
    requires = provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        linger("converter")
        return ctx.replace(trace={"question": "q"})


def score(trace: object) -> float:
    linger("recogniser")
    return 0.5


def parts(value: object) -> Iterator[tuple[str, object]]:
    linger("parts")  # in a generator, which runs after the call
    yield "1", value


def client(model: str, **settings: Any) -> Any:
    linger("client")
    return SimpleNamespace(model=model)


def store(location: object) -> Any:
    linger("store")
    raise OSError("the store is away")


def embedder(model: str | None) -> Any:
    linger("embedder")
    return SimpleNamespace(embed=lambda texts: [[1.0] for _ in texts])


def observer(event: object) -> None:
    linger("observer")


class Hooks:
    ACE_API = 1
    __name__ = HERE

    @hookimpl
    def ace_execute_steps(self) -> Iterator[ExecuteStepSpec]:
        linger("hook")
        yield ExecuteStepSpec(name="slow", target=f"{HERE}:Execute")

    @hookimpl
    def ace_trace_converters(self) -> Iterator[TraceConverterSpec]:
        yield TraceConverterSpec(
            name="slow", target=f"{HERE}:ToTrace", recognises=f"{HERE}:score", parts=f"{HERE}:parts"
        )

    @hookimpl
    def ace_llm_clients(self) -> Iterator[LLMClientSpec]:
        yield LLMClientSpec(name="slow", target=f"{HERE}:client")

    @hookimpl
    def ace_stores(self) -> Iterator[StoreSpec]:
        yield StoreSpec(name="slow", target=f"{HERE}:store", schemes=("slow",))

    @hookimpl
    def ace_embedders(self) -> Iterator[EmbedderSpec]:
        yield EmbedderSpec(name="slow", target=f"{HERE}:embedder")

    @hookimpl
    def ace_observers(self) -> Iterator[ObserverSpec]:
        yield ObserverSpec(name="slow", target=f"{HERE}:observer")


def converter() -> Any:
    return next(known for known in trace_converters() if known.name == "slow")


def make_client() -> object:
    found = find_model_prefix("slow/m")
    assert found is not None
    return found[0]("m")


def make_embedder() -> object:
    found = find_embedder("slow")
    assert found is not None
    return found(None)


def open_book() -> None:
    with pytest.raises(Exception, match="the store is away"):
        Skillbook.open("slow://book")


def make_step() -> object:
    return get_runner("slow").execute_step(speed=2)


CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "recogniser": (lambda: converter().recognises({}), "calling the recogniser of"),
    "converter": (lambda: converted_trace(converter(), {}), "converting a trace with"),
    "parts": (lambda: converter().parts([]), "splitting a file with"),
    "client": (make_client, "creating a model client with"),
    "store": (open_book, "opening a skillbook with"),
    "embedder": (make_embedder, "creating an embedder with"),
    "observer": (lambda: emit(RunEnded("r", 0, 0, 0, 0, 0.0, "")), "calling the observer of"),
    "execute step": (make_step, "creating a step of"),
}


def is_about_ours(text: str) -> bool:
    """Return whether a message is about the code that waits: on a busy machine, other code may be slow, too."""
    expected = f"{CALLS[slow_code][1]} {OWNER}" if slow_code else "in this test"
    return "seconds so far" in text and expected in text


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    noted: list[str] = []

    class Notice(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if is_about_ours(record.getMessage()):
                noted.append(record.getMessage())  # before the plugin ends, and with it the test
                named.set()

    handler = Notice()
    logging.getLogger("ace").addHandler(handler)
    monkeypatch.setattr(loading, "SLOW_AFTER", 0.05)
    named.clear()
    yield noted
    logging.getLogger("ace").removeHandler(handler)


@pytest.mark.parametrize("where", CALLS)
def test_a_plugin_that_the_program_waits_for_is_named_once(
    where: str, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call, doing = CALLS[where]
    monkeypatch.setattr(f"{HERE}.slow_code", where)
    with temporary(Hooks(), name="slow"):
        call()
        call()
    assert warnings == [f"{doing} {OWNER} has taken 0.05 seconds so far"]


@pytest.mark.thorough
def test_short_pauses_in_a_recogniser_add_up(warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "SLOW_AFTER", 1.5)
    code, single = (
        loading.PluginCode("looking in this test", adds_up=True),
        loading.PluginCode("converting in this test"),
    )
    now = 100.0
    monkeypatch.setattr(loading, "time", SimpleNamespace(monotonic=lambda: now, sleep=time.sleep))
    for number in range(20):
        for plugin_code in (code, single):
            with plugin_code.running():
                now += 0.15
                assert plugin_code is single or number < 10 or named.wait(60)
    assert warnings == ["looking in this test has taken 1.5 seconds so far"]


def test_quick_plugins_are_not_named_and_the_watcher_ends(warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "SLOW_AFTER", 5.0)
    with temporary(Hooks(), name="slow"):
        for call, _ in CALLS.values():
            call()
    for thread in threading.enumerate():
        if thread.name == "ace-plugin-watcher":
            thread.join()
    assert warnings == []


def test_the_watcher_works_in_a_forked_process(warnings: list[str]) -> None:
    with loading.PluginCode("in the parent").running():
        if (child := os.fork()) == 0:
            named.clear()
            with loading.PluginCode("in the child in this test").running():
                os._exit(0 if named.wait(60) else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_plugin_works_without_the_watcher_where_there_can_be_no_more_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with temporary(Hooks(), name="slow"):
            assert converter().recognises({}) == 0.5


def test_a_composed_runner_still_has_the_signature_of_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    with temporary(Hooks(), name="slow"):
        assert get_runner("slow") is get_runner("slow")
        with pytest.raises(TypeError, match="did you mean 'speed'"):
            get_runner("slow").from_model("openai/x", sped=2)
