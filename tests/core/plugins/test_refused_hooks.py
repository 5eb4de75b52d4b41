"""Wrong hooks: the plugin is refused, and the error says what to fix."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NoReturn

import pytest

from ace.plugins import (
    ExecuteStepSpec,
    PluginApiError,
    PluginError,
    PluginLoadError,
    RunnerSpec,
    get_runner,
    hookimpl,
    list_plugins,
    temporary,
)
from ace.protocols.trace_converters import (
    TraceConversionError,
    TraceConverter,
    converted_trace,
    find_trace_converter,
    register_trace_converter,
    unregister_trace_converter,
)

HERE = __name__


def runner_hooks(result: object) -> object:
    class Hooks:
        ACE_API = 1

        @hookimpl
        def ace_runners(self) -> object:
            if isinstance(result, BaseException):
                raise result
            return result

    return Hooks()


class Unreadable(BaseException):
    """An exception of a plugin's own that nothing catches by accident, and that cannot even be printed."""

    def __str__(self) -> str:
        return str(1 / 0)


class WithArgument:
    ACE_API = 1

    @hookimpl
    def ace_runners(self, config: object) -> list[RunnerSpec]:
        return []


class Misspelt:
    ACE_API = 1

    @hookimpl
    def ace_runner(self) -> list[RunnerSpec]:
        return []


RUNNER = RunnerSpec(name="acme", target="ace.runners:TraceAnalyser")


@pytest.mark.parametrize(
    ("hooks", "error", "text"),
    [
        (SimpleNamespace(), PluginApiError, "has no ACE_API"),
        (SimpleNamespace(ACE_API=True), PluginApiError, "a whole number, got True"),
        (SimpleNamespace(ACE_API="1"), PluginApiError, "a whole number, got '1'"),
        (SimpleNamespace(ACE_API=0), PluginApiError, "older than 1"),
        (SimpleNamespace(ACE_API=2), PluginApiError, "newer than 1"),
        (SimpleNamespace(ACE_API=1), PluginLoadError, "provides nothing"),
        (SimpleNamespace(ACE_API=1, ace_runners=list), PluginLoadError, "provides nothing; .* each under @hookimpl"),
        (WithArgument(), PluginLoadError, "'ace_runners' .*'config'.*; the hooks are .*, and take no arguments"),
        (Misspelt(), PluginLoadError, "unknown hook 'ace_runner'.*; the hooks are .* ace_runners, "),
        (
            runner_hooks([RunnerSpec(name="other", target="a:b")]),
            PluginLoadError,
            "the name 'other'; it must be the name of the entry point, 'acme'",
        ),
    ],
)
def test_wrong_hooks_are_refused(hooks: object, error: type[PluginError], text: str) -> None:
    with pytest.raises(error, match=text), temporary(hooks, name="acme"):
        pass
    assert "acme" not in [info.name for info in list_plugins()]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (7, "ace_runners failed: TypeError: it returns a int; yield RunnerSpec"),
        ([7], "ace_runners must yield RunnerSpec, got 7"),
        ([RUNNER, RUNNER], "yields 'acme' 2 times"),
        ([ExecuteStepSpec(name="acme", target="a:b")], "must yield RunnerSpec, got ExecuteStepSpec"),
        (SystemExit(2), "ace_runners failed: SystemExit: 2"),
        (ZeroDivisionError("x"), "ace_runners failed: ZeroDivisionError: x"),
        (GeneratorExit(), "ace_runners failed: GeneratorExit$"),
        (Unreadable(), r"ace_runners failed: Unreadable: \(its text cannot be read: ZeroDivisionError\)"),
    ],
)
def test_a_wrong_hook_is_refused(result: object, text: str) -> None:
    with pytest.raises(PluginLoadError, match=text), temporary(runner_hooks(result), name="acme"):
        pass


def test_a_keyboard_interrupt_is_raised_and_says_what_it_interrupted() -> None:
    with (
        pytest.raises(KeyboardInterrupt) as caught,
        temporary(runner_hooks(KeyboardInterrupt()), name="acme"),
    ):
        pass
    [note] = caught.value.__notes__
    assert note.startswith("while calling ace_runners of plugin 'acme' of ")


@pytest.mark.parametrize("error", [SystemExit(5), GeneratorExit(), Unreadable(), ValueError("no")], ids=repr)
def test_a_recogniser_or_converter_that_raises_anything_affects_only_its_own_claim(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(trace: object) -> NoReturn:
        raise error

    failing = TraceConverter(name="failing", recognises=fail, convert=lambda trace: {})
    claiming = TraceConverter(name="claiming", recognises=lambda trace: 0.5, convert=fail)
    register_trace_converter(failing)
    register_trace_converter(claiming)
    try:
        assert find_trace_converter({"task": "x"}) is claiming
        with pytest.raises(TraceConversionError, match="'claiming' claims this dict but cannot convert it"):
            converted_trace(claiming, {"task": "x"})
    finally:
        unregister_trace_converter("failing")
        unregister_trace_converter("claiming")
    assert "the trace converter 'failing' failed while looking at a dict" in caplog.text


def test_what_a_spec_names_must_be_callable() -> None:
    said = "must be a class or a function, got a str"
    hooks = runner_hooks([RunnerSpec(name="acme", target=f"{HERE}:HERE")])
    with temporary(hooks, name="acme"), pytest.raises(PluginLoadError, match=said):
        get_runner("acme")
