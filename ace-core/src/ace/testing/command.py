"""`CommandConformance` and `ObserverConformance`: the checks for commands and observers of a plugin."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ace.pipeline import PipelineCancelled
from ace.plugins import CommandSpec, ObserverSpec
from ace.protocols.observers import (
    AnswerEvaluated,
    ArtifactWritten,
    BatchJudged,
    Event,
    InsightsFound,
    ModelCalled,
    ReflectionTurn,
    RunEnded,
    RunStarted,
    SampleEnded,
    SampleStarted,
    SkillChange,
    SkillProven,
    SkillsChanged,
    StepEnded,
    StepStarted,
    SubQuestionAnswered,
    TraceShortened,
    observing,
)
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager
from ace.testing.suite import Conformance, demand, resolved, run_without, spec_of

__all__ = ["CommandConformance", "ObserverConformance"]

_HELP = """
from ace.cli import main
raise SystemExit(main([sys.argv[1].replace("_", "-"), "--help"]))
"""


class CommandConformance(Conformance, is_suite=True):
    """Checks the subcommand of `ace`. Fixtures: `plugin_name`, `framework_modules`, `arguments`."""

    @pytest.fixture
    def arguments(self, tmp_path: Path) -> Sequence[str] | None:
        """Arguments with which the command succeeds, without a model and without a network; None if there are none."""
        return None

    def test_help(self, plugin_name: str, framework_modules: tuple[str, ...]) -> None:
        """`--help` works without the framework, and describes every option."""
        spec_of(plugin_name, CommandSpec)
        done = run_without(framework_modules, _HELP, plugin_name)
        demand(done.returncode == 0, f"`--help` ends with {done.returncode}: {done.stderr.strip()}")
        undescribed = _undescribed_options(plugin_name)
        demand(not undescribed, f"these options have no help text: {', '.join(undescribed)}")

    def test_summary(self, plugin_name: str) -> None:
        """The spec has a summary of one line, which `ace --help` shows."""
        summary = spec_of(plugin_name, CommandSpec).summary
        demand(summary.strip() and len(summary.splitlines()) == 1, f"the summary is {summary!r}; write one line")

    def test_wrong_usage(self, plugin_name: str, tmp_path: Path) -> None:
        """An unknown option results in a one-line error and exit code 2."""
        spec_of(plugin_name, CommandSpec)
        done = _run(plugin_name, ["--no-such-option-in-any-command"], tmp_path)
        demand(done.returncode == 2, f"an unknown option ends with {done.returncode}, not 2: {done.stderr.strip()}")
        demand("Traceback" not in done.stderr, f"an unknown option ends in a traceback: {done.stderr.strip()}")

    def test_success(self, plugin_name: str, arguments: Sequence[str] | None, tmp_path: Path) -> None:
        """With `arguments` it succeeds; if they contain `--json`, it prints one JSON object."""
        if arguments is None:
            pytest.skip("the fixture 'arguments' gives none")
        spec_of(plugin_name, CommandSpec)
        done = _run(plugin_name, arguments, tmp_path)
        demand(done.returncode == 0, f"it ends with {done.returncode}: {done.stderr.strip()}")
        if "--json" in arguments:
            try:
                printed: object = json.loads(done.stdout)
            except ValueError:
                printed = None
            demand(isinstance(printed, dict), f"it prints {done.stdout!r} under --json, not one JSON object")


class ObserverConformance(Conformance, is_suite=True):
    """Checks an observer of the events of runs. Fixture: `plugin_name`."""

    def test_takes_every_event(self, plugin_name: str) -> None:
        """It accepts every kind of event, including those about failures, and does not return an awaitable."""
        observer = _observer(plugin_name)
        demand(
            not isinstance(observer, type),
            "the target is a class, which is instantiated for each event; name an instance",
        )
        for event in _events():
            with _without_error(f"it raises at {type(event).__name__}"):
                returned = observer(event)
            if inspect.iscoroutine(returned):
                returned.close()
            demand(
                not inspect.isawaitable(returned), "it returns an awaitable, which nothing awaits; write it with def"
            )

    def test_takes_unknown_events(self, plugin_name: str) -> None:
        """It ignores events of an unknown kind, because later releases have more kinds."""

        class LaterEvent:
            """An event of a later release."""

        with _without_error("it raises at an event of an unknown kind"):
            _observer(plugin_name)(LaterEvent())

    def test_many_threads(self, plugin_name: str) -> None:
        """It can be called from eight threads at the same time."""
        observer = _observer(plugin_name)
        taken = [number for number, event in enumerate(_events()) if _is_taken(observer, event)]

        def send(number: int) -> None:
            events = _events(f"kit-{number}")
            for place in taken:  # test_takes_every_event tells of the others
                observer(events[place])

        with _without_error("it raises when several threads call it"), ThreadPoolExecutor(8) as pool:
            list(pool.map(send, range(64)))

    def test_prints_nothing(self, plugin_name: str) -> None:
        """It prints nothing to standard output, which is reserved for the result of a command."""
        observer = _observer(plugin_name)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for event in _events():
                with contextlib.suppress(Exception):  # test_takes_every_event tells
                    observer(event)
        demand(not printed.getvalue(), f"it prints {printed.getvalue()!r} to standard output")

    def test_whole_run(self, plugin_name: str, caplog: pytest.LogCaptureFixture) -> None:
        """A run learns the same with the observer as without it."""
        from ace.runners import TraceAnalyser
        from ace.skillbook import Skillbook

        book = Skillbook()
        runner = TraceAnalyser.from_roles(
            reflector=ScriptedReflector(), skill_manager=ScriptedSkillManager(), skillbook=book, unproven="keep"
        )
        with caplog.at_level(logging.ERROR, logger="ace"), observing(_observer(plugin_name)):
            results = runner.run([f"Repeat the code word kit{number:04d}code." for number in range(1, 5)])
        failed = [result.error for result in results if result.error is not None]
        demand(not failed and len(book) == 4, f"a run of 4 traces learned {len(book)} skills; failed: {failed}")
        said = [record.getMessage() for record in caplog.records if "observer" in record.getMessage()]
        demand(not said, f"the run logged: {said[:1]}")


def _run(plugin_name: str, arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a separate process with an empty home folder."""
    code = "import sys; from ace.cli import main; raise SystemExit(main(sys.argv[1:]))"
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONIOENCODING": "utf-8",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
    }
    return subprocess.run(
        [sys.executable, "-c", code, plugin_name.replace("_", "-"), *arguments],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def _undescribed_options(plugin_name: str) -> list[str]:
    from cyclopts import App

    spec = spec_of(plugin_name, CommandSpec)
    target: Any = resolved(plugin_name, spec.target, spec.requires)
    if isinstance(target, App):
        app = target
    else:
        app = App(name=spec.name)
        app.default(target)
    commands = [app, *(app[name] for name in app if not name.startswith("-"))]
    return [option for command in commands for option in _undescribed(command)]


def _undescribed(app: Any) -> list[str]:
    if app.default_command is None:
        return []
    arguments = app.assemble_argument_collection(parse_docstring=True)
    return [argument.name for argument in arguments if argument.show and not (argument.parameter.help or "").strip()]


def _observer(plugin_name: str) -> Any:
    spec = spec_of(plugin_name, ObserverSpec)
    return resolved(plugin_name, spec.target, spec.requires)


def _is_taken(observer: Any, event: Event) -> bool:
    try:
        observer(event)
    except Exception:
        return False
    return True


@contextlib.contextmanager
def _without_error(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        pytest.fail(f"{what}: {type(error).__name__}: {error}", pytrace=False)


def _events(trace: str = "kit") -> list[Event]:
    """Return one event of every kind, and those whose fields may be empty a second time."""
    run = "kit-run"
    change = SkillChange("ADD", "kit-00001")
    return [
        RunStarted(run, "trace_analyser", epochs=1, total=None, resumed=False),
        SampleStarted(run, trace, epoch=1, index=1),
        StepStarted(run, trace, "ReflectStep"),
        ModelCalled(
            run_id=run,
            trace_id=trace,
            model="kit/model",
            role="Reflector",
            input_tokens=10,
            output_tokens=2,
            cost=None,
            seconds=0.1,
            recorded=False,
        ),
        AnswerEvaluated(run, trace, "SimpleEnvironment", {"accuracy": 1.0}),
        SubQuestionAnswered(run, trace, number=1, mode="analysis", characters=20, seconds=0.1),
        ReflectionTurn(run, trace, iteration=1, code_length=30, output_length=20, error="", seconds=0.2),
        ReflectionTurn("", "", iteration=2, code_length=0, output_length=0, error="NameError: x", seconds=0.1),
        StepEnded(run, trace, "ReflectStep", seconds=0.1, error=None),
        StepEnded(run, trace, "UpdateStep", seconds=0.1, error=ValueError("the step failed, as it should")),
        SkillsChanged(run, trace, (change,), (SkillChange("UPDATE", "", "no such skill"),)),
        SkillsChanged("", "", (), ()),
        SkillProven(run, trace, "maths-00001", passed=True, before="5", after="4", retries=0),
        SkillProven(run, trace, "", passed=False, before="5", after="5", retries=1, reason="it breaks another case"),
        TraceShortened(run, trace, cut_characters=1200),
        BatchJudged(run, trace, "CounterGate", True, "net score 2 -> 3 (+1)", {"net": 2}, {"net": 3}),
        BatchJudged("", "", "CounterGate", False, "nothing to do", {}, {}),
        InsightsFound(
            run_id=run,
            trace_id=trace,
            task_id="bd-1",
            description="Fix the imports",
            success=False,
            consulted=1,
            files=1,
            min_confidence=0.8,
            ready=1,
            pending=2,
        ),
        ArtifactWritten(run, trace, 3, "logs/artifacts/20261122T120000.123456Z-v3"),
        SampleEnded(run, trace, 1, 1, error=None, failed_at=None, seconds=0.2, already_learned=False),
        SampleEnded(run, trace, 1, 2, PipelineCancelled("stopped"), "ReflectStep", seconds=0.0, already_learned=False),
        RunEnded(run, learned=1, already_learned=0, failed=0, cancelled=1, seconds=0.3, stopped_by="cancelled"),
    ]
