"""Checks plugins: loads each in a separate process and imports all targets that it names.

`check_plugins` starts one process per plugin, because a plugin may end the process that imports it, or hang. The
process runs `report_on`, which appends its progress and its findings to a file as JSON Lines; if it does not finish,
the last line says what it was doing.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ace.plugins.catalogue import CataloguedPlugin, PluginInfo, catalogue, described
from ace.plugins.errors import PluginError, PluginLoadError
from ace.plugins.specs import (
    CommandSpec,
    EmbedderSpec,
    ExecuteStepSpec,
    ExtraStepsSpec,
    LLMClientSpec,
    ObserverSpec,
    RunnerSpec,
    Spec,
    StoreSpec,
    TraceConverterSpec,
)

if TYPE_CHECKING:
    from ace.plugins.loading import LoadedPlugin

__all__ = [
    "CheckedPlugin",
    "PluginProblem",
    "check_plugins",
    "declared_problems",
    "foreign_providers_of_ace",
    "problems_of",
    "report_on",
    "resolution_problems",
]

Doing = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class PluginProblem:
    """A problem of a plugin."""

    text: str
    """The names of the plugin and its distribution, the problem, and what to do about it."""
    traceback: str = ""
    """The traceback of the plugin's error, without the frames of the import system; empty if it did not raise."""


@dataclass(frozen=True, slots=True)
class CheckedPlugin:
    """A plugin and its problems."""

    info: PluginInfo
    problems: tuple[PluginProblem, ...]


def check_plugins(name: str | None = None, *, timeout: float = 60.0) -> list[CheckedPlugin]:
    """Load plugins, import every target, and check everything that can be checked without running them.

    Args:
        name: Only check plugins of this name.
        timeout: The maximum time for each plugin, in seconds.

    Returns:
        Each plugin with its problems. A disabled plugin is not imported.

    Raises:
        UnknownPluginError: No plugin has this name.
    """
    plugins = catalogue().named(name)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(lambda plugin: _checked(plugin, timeout), plugins))


def foreign_providers_of_ace() -> list[str]:
    """Return the distributions other than ace-core that also contain an import package `ace`."""
    from importlib_metadata import packages_distributions

    return sorted(set(packages_distributions().get("ace", ())) - {"ace-core"})


def _checked(plugin: CataloguedPlugin, timeout: float) -> CheckedPlugin:
    problem = plugin.loading_problem()
    if not plugin.installed.is_enabled or problem is not None:
        found = [PluginProblem(str(problem))] if problem is not None and plugin.installed.is_enabled else []
        return CheckedPlugin(described(plugin, problem), tuple(found))
    with tempfile.TemporaryDirectory(prefix="ace-plugin-check-") as folder:
        report = Path(folder) / "report.jsonl"
        ending = _run_apart(plugin.installed.name, report, timeout)
        lines = (
            [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()] if report.exists() else []
        )
    problems = [PluginProblem(**line["problem"]) for line in lines if "problem" in line]
    if lines and "info" in lines[-1]:
        info = {**lines[-1]["info"], "kinds": tuple(lines[-1]["info"]["kinds"])}
        return CheckedPlugin(PluginInfo(**info), tuple(dict.fromkeys(problems)))
    doing = next((line["doing"] for line in reversed(lines) if "doing" in line), "starting")
    error = PluginLoadError(f"{plugin.owner} {ending} while {doing}")
    return CheckedPlugin(described(plugin, error), (*dict.fromkeys(problems), PluginProblem(str(error))))


def _run_apart(name: str, report: Path, timeout: float) -> str:
    """Run `report_on` in a separate process, and describe how that process ended, in case it did so too early."""
    command = [
        sys.executable,
        "-c",
        "import sys; from ace.plugins.checking import report_on; report_on(sys.argv[1], sys.argv[2])",
        name,
        str(report),
    ]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not finish within {timeout:g} seconds"
    if done.returncode < 0:
        return f"was ended by signal {-done.returncode}"
    return f"ended its process with exit code {done.returncode}"


def report_on(name: str, report: str) -> None:
    """Check one plugin in this process, which the plugin may end.

    Args:
        name: The name of the plugin.
        report: The file to which the findings are appended.
    """
    [plugin] = [found for found in catalogue().named(name) if found.installed.is_enabled]
    with Path(report).open("a", encoding="utf-8") as file:
        first: PluginError | None = None
        for error in problems_of(plugin, lambda what: _note(file, doing=what)):
            first = first or error
            _note(file, problem=asdict(PluginProblem(str(error), _where(error.__cause__))))
        _note(file, info=asdict(described(plugin, first)))


def _note(file: TextIO, **line: object) -> None:
    file.write(json.dumps(line) + "\n")
    file.flush()


def _where(error: BaseException | None) -> str:
    """Return the traceback of a plugin's error, beginning with the plugin's own frames."""
    if error is None:
        return ""
    told = traceback.TracebackException.from_exception(error)
    own = [frame for frame in told.stack if not frame.filename.startswith("<frozen") and not _is_ours(frame.filename)]
    told.stack = traceback.StackSummary.from_list(own)
    return "".join(told.format(chain=False)).rstrip()


def _is_ours(filename: str) -> bool:
    folder = str(Path(__file__).parent)
    return filename.startswith(folder) or f"{os.sep}importlib{os.sep}" in filename


def problems_of(plugin: CataloguedPlugin, doing: Doing = lambda what: None) -> Iterator[PluginError]:
    """Load one plugin in this process, import all its targets, and yield its problems.

    Args:
        plugin: The plugin to check.
        doing: Called with a description of each next step.
    """
    doing("importing its hook module")
    modules = set(sys.modules)
    try:
        loaded = plugin.load()
    except KeyboardInterrupt as interrupt:
        yield _raised(plugin.owner, interrupt)
        return
    except PluginError as error:
        yield error
        return
    yield from _imported_frameworks(loaded, set(sys.modules) - modules)
    lost: set[str] = set()
    yield from resolution_problems(loaded, doing, lost)
    for spec in _specs(loaded):
        if not lost & {*_references(spec)}:
            doing(f"looking at {spec.target!r}")
            yield from declared_problems(loaded, spec)


def resolution_problems(
    loaded: LoadedPlugin, doing: Doing = lambda what: None, lost: set[str] | None = None
) -> Iterator[PluginError]:
    """Import every target of a loaded plugin, and yield the problems.

    Args:
        loaded: The plugin to check.
        doing: Called with a description of each next step.
        lost: The set to which references are added that could not be imported.
    """
    for spec in _specs(loaded):
        for reference in dict.fromkeys(_references(spec)):
            doing(f"importing {reference!r}")
            try:
                loaded.targets.resolve(reference, spec.requires)
                continue
            except KeyboardInterrupt as interrupt:
                yield _raised(loaded.targets.owner, interrupt)
            except PluginError as error:
                yield error
            if lost is not None:
                lost.add(reference)


def _specs(loaded: LoadedPlugin) -> Iterator[Spec]:
    for specs in loaded.specs.values():
        yield from specs


def _raised(owner: str, interrupt: KeyboardInterrupt) -> PluginError:
    error = PluginLoadError(f"{owner}: it raised KeyboardInterrupt while it was imported")
    error.__cause__ = interrupt
    return error


def _references(spec: Spec) -> Iterator[str]:
    yield spec.target
    if isinstance(spec, ExecuteStepSpec) and spec.produces is not None:
        yield spec.produces
    if isinstance(spec, TraceConverterSpec):
        further = (spec.accepts, spec.recognises, spec.parts, spec.place)
        yield from (reference for reference in further if reference is not None)


def _imported_frameworks(plugin: LoadedPlugin, imported: set[str]) -> Iterator[PluginError]:
    """Yield the frameworks that the hook module imports, which delays commands that do not use them."""
    from importlib_metadata import packages_distributions
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    required = {
        canonicalize_name(Requirement(text).name)
        for specs in plugin.specs.values()
        for spec in specs
        for text in spec.requires
    } - {"ace-core", "pluggy", "pydantic", "packaging", "importlib-metadata"}
    if not required:
        return
    packages = packages_distributions()
    for package in sorted({module.partition(".")[0] for module in imported}):
        for distribution in packages.get(package, ()):
            if canonicalize_name(distribution) in required:
                yield PluginLoadError(
                    f"{plugin.targets.owner}: its hook module imports {package!r}, which comes with {distribution!r}; "
                    "import it in the modules that the specs name, which are imported on first use"
                )


def declared_problems(plugin: LoadedPlugin, spec: Spec) -> Iterator[PluginError]:
    """Check that the target of a spec is of the declared kind, without calling it, and yield the problems.

    Args:
        plugin: The plugin to check.
        spec: One of its specs, whose target can be imported.
    """
    target = plugin.resolve(spec)
    for problem in _CHECKS[type(spec)](plugin, spec, target):
        yield PluginLoadError(f"{plugin.targets.owner}: {spec.target!r} {problem}")


def _step_problems(plugin: LoadedPlugin, spec: ExecuteStepSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    if not isinstance(target, type):  # a function that creates the step; the type of its result is not known
        return
    is_async = inspect.iscoroutinefunction(target.__call__)
    if is_async != spec.is_async:
        found = "async def" if is_async else "def"
        yield f"has a __call__ defined with {found!r}, but its spec has is_async={spec.is_async}"
    yield from _unknown_fields(target, frozenset())


def _converter_problems(plugin: LoadedPlugin, spec: TraceConverterSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    provided = {
        name
        for step in plugin.specs_of(ExecuteStepSpec)
        for name in getattr(plugin.resolve(step), "provides", None) or ()
    }
    yield from _unknown_fields(target, frozenset(provided))
    if isinstance(target, type):
        yield from _does_not_take(target, "no arguments")
    if spec.recognises is not None:
        recogniser = plugin.targets.resolve(spec.recognises, spec.requires)
        for problem in [*_not_callable(recogniser), *_does_not_take(recogniser, "a record", "record")]:
            yield f"has a recogniser {spec.recognises!r} that {problem}"
    if spec.parts is not None:
        parts = plugin.targets.resolve(spec.parts, spec.requires)
        for problem in [*_not_callable(parts), *_does_not_take(parts, "a value", "value")]:
            yield f"has a function {spec.parts!r} for the parts of a file that {problem}"


def _unknown_fields(step: object, provided: frozenset[str]) -> Iterator[str]:
    from dataclasses import fields

    from ace.context import ACEStepContext

    known = {field.name for field in fields(ACEStepContext)} | provided
    required = getattr(step, "requires", None)
    if isinstance(required, set | frozenset | list | tuple):
        for name in sorted(str(wanted) for wanted in required if wanted not in known):
            yield f"requires {name!r}, which is not a field of the context and is not provided by an earlier step"


def _runner_problems(plugin: LoadedPlugin, spec: RunnerSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    if isinstance(target, type):
        yield from _lacks(target, ("run", "from_roles"))


def _client_problems(plugin: LoadedPlugin, spec: LLMClientSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    yield from _does_not_take(target, "the name of a model and settings", "model", max_tokens=1)
    if isinstance(target, type) and not any(hasattr(target, name) for name in ("complete", "complete_structured")):
        yield "has neither 'complete' nor 'complete_structured'"


def _command_problems(plugin: LoadedPlugin, spec: CommandSpec, target: Any) -> Iterator[str]:
    from cyclopts import App

    if isinstance(target, App):
        return
    yield from _not_callable(target)
    if not callable(target):
        return
    app = App(name=spec.name)
    try:
        app.default(target)
        app.assemble_argument_collection()
    except Exception as error:  # cyclopts has no common class for the errors of unsupported parameters
        yield f"is not a command that can be called: {type(error).__name__}: {' '.join(str(error).split())}"


def _observer_problems(plugin: LoadedPlugin, spec: ObserverSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    yield from _does_not_take(target, "an event", "event")
    if isinstance(target, type):
        yield "is a class; an observer is called with each event, so name a function or an instance"
    elif inspect.iscoroutinefunction(target):
        yield "is defined with 'async def', but an observer is called and not awaited"


def _store_problems(plugin: LoadedPlugin, spec: StoreSpec, target: Any) -> Iterator[str]:
    from ace.skillbook import SkillbookStore

    yield from _not_callable(target)
    yield from _does_not_take(target, "a location", "acme://team")
    if isinstance(target, type):
        public = [name for name in vars(SkillbookStore) if not name.startswith("_")]
        yield from _lacks(target, public)


def _embedder_problems(plugin: LoadedPlugin, spec: EmbedderSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    yield from _does_not_take(target, "the name of a model, or None", None)
    if isinstance(target, type):
        yield from _lacks(target, ("embed",))


def _extra_steps_problems(plugin: LoadedPlugin, spec: ExtraStepsSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    yield from _does_not_take(target, "no arguments")
    settings: dict[str, object] = dict.fromkeys(spec.options)
    yield from _does_not_take(target, "its options", **settings)


def _not_callable(target: object) -> Iterator[str]:
    if not callable(target):
        yield f"must be a class or a function, got a {type(target).__name__}"


def _lacks(target: type, names: Any) -> Iterator[str]:
    for name in names:
        if not callable(getattr(target, name, None)):
            yield f"has no method {name!r}"


def _does_not_take(target: Any, what: str, *arguments: object, **settings: object) -> Iterator[str]:
    """Yield a problem if a callable cannot be called with these arguments; accept it if its signature is unknown."""
    if not callable(target):
        return
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments, **settings)
    except TypeError as error:
        yield f"cannot be called with {what}: {error}"


_CHECKS: Mapping[type[Spec], Callable[[LoadedPlugin, Any, Any], Iterator[str]]] = {
    ExecuteStepSpec: _step_problems,
    TraceConverterSpec: _converter_problems,
    RunnerSpec: _runner_problems,
    LLMClientSpec: _client_problems,
    CommandSpec: _command_problems,
    ObserverSpec: _observer_problems,
    StoreSpec: _store_problems,
    EmbedderSpec: _embedder_problems,
    ExtraStepsSpec: _extra_steps_problems,
}
