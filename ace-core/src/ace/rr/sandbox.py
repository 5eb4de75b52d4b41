"""A Python session in which a model explores a trace, in a worker process without files, environment or network.

Who calls whom: `execute` feeds the code to the worker and serves its calls on the thread of the caller, until the code
has ended. The worker calls one function, `_host`, whose two arguments are texts: the name of a function and its
arguments as JSON. Nothing else from the worker is read: values in the session are untrusted, and could exhaust the host
as Python objects.

A worker serves one session and is then replaced, because a process never shrinks again. The limits of time, memory and
recursion are enforced by the worker, or by its parent if the worker does not respond; host calls and output are counted
here. When a limit stops the code, the heap of the interpreter is in an undefined state, so the session is discarded.
"""

from __future__ import annotations

import atexit
import inspect
import json
import math
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ace._internal.arguments import whole_number
from ace._internal.json_fields import JsonValue
from ace.rr import session, session_difflib, session_statistics, trace_context

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pydantic_monty import (
        CollectString,
        ExternalModule,
        Monty,
        MontySession,
        OSPolicy,
        ResourceLimits,
        SyncSnapshot,
    )

__all__ = ["ExecutionResult", "SandboxError", "SandboxLimits", "TraceSandbox"]

_MOST_PRINTED = 10_000_000
"""The number of bytes by which the output may exceed the kept part before the session is ended."""

_MEBIBYTE = 1024 * 1024
_PARTS = 16
"""In how many parts the steps of a trace are loaded."""

_MOST_SESSIONS = 1_000
"""The maximum number in this process. A session keeps its worker while a host function runs, so sessions must never
wait for each other."""

# A session starts in the same state in every process: the output of code is part of the next prompt, and a resumed
# reflection finds its recorded answers only if the prompts are identical.
_OS_POLICY: OSPolicy = {
    "datetime": datetime(2000, 1, 1, tzinfo=UTC),
    "timezone": "utc",
    "sleep": "zero",
    "random_start": {"seed": 0},
}


class SandboxError(RuntimeError):
    """A session could not be started, for example because the trace does not fit into its memory."""


@dataclass(frozen=True)
class SandboxLimits:
    """The resources that code in a session may use.

    Raises:
        ValueError: If a limit is too small to run anything; the message names it.

    Example:
        >>> SandboxLimits(seconds=5).output_characters
        20000
    """

    seconds: float = 30.0
    """Execution time of one `execute`, in seconds, not including host functions."""
    memory: int | None = None
    """Bytes that the session may allocate. None means 64 MiB and five times the size of the trace as text, at most
    256 MiB."""
    output_characters: int = 20_000
    """Characters of output, and of an error, that are kept. Code that prints some 10 MB more is stopped."""
    host_calls: int = 10_000
    """The number of calls of host functions, imports and look-ups of unknown names in one `execute`."""
    host_characters: int = 10_000_000
    """Characters that one `execute` may exchange with the host: arguments and results of host functions, as JSON. The
    time in which the host reads and writes them counts as execution time."""
    recursion: int = 400
    """The maximum depth of nested calls."""

    def __post_init__(self) -> None:
        if not self.seconds > 0 or self.seconds == float("inf"):
            raise ValueError(f"seconds must be a finite number above 0, got {self.seconds!r}")
        if self.memory is not None:
            whole_number("memory", self.memory, least=_MEBIBYTE)
        whole_number("output_characters", self.output_characters, least=1)
        whole_number("host_calls", self.host_calls, least=1)
        whole_number("host_characters", self.host_characters, least=1)
        whole_number("recursion", self.recursion, least=50)


@dataclass(frozen=True)
class ExecutionResult:
    """The result of one execution."""

    stdout: str
    """The output; if it was truncated, its last line says so."""
    error: str
    """The traceback, or the limit that was exceeded; empty if the code ran to its end."""
    has_final: bool
    """Whether the code called `FINAL` or `FINAL_VAR`."""
    final: JsonValue
    """The submitted value; None if there is none."""
    session_lost: bool
    """Whether the session was ended: the variables are gone, and the next code runs in a new session."""
    seconds: float
    """The duration in seconds, including host functions."""


class TraceSandbox:
    """A Python session about one trace. State persists between executions.

    Use it in a `with` statement, and from one thread at a time. Several sandboxes may be used at the same time.

    Args:
        trace: The trace: in the session it is the dict `traces`, and `trace` is its `TraceContext`.
        skillbook: The text `skillbook` in the session.
        limits: The resources that the code may use.
        functions: Host functions by name, such as `ask_llm`. They take and return JSON values. An `Exception` that they
            raise becomes a `RuntimeError` in the session; any other `BaseException` ends the session and is raised by
            `execute`.
        batch: Traces by id, available in the session as the dict `batch_items` and the list `item_ids`.

    Raises:
        ImportError: If `pydantic-monty` is not installed.

    Example:
        >>> with TraceSandbox({"question": "2+2?", "steps": []}) as sandbox:
        ...     _ = sandbox.execute("length = len(traces['question'])")
        ...     result = sandbox.execute("print(length); FINAL({'length': length})")
        >>> result.stdout, result.final
        ('4\\n', {'length': 4})
    """

    def __init__(
        self,
        trace: Mapping[str, object],
        skillbook: str = "",
        *,
        limits: SandboxLimits = SandboxLimits(),  # immutable
        functions: Mapping[str, Callable[..., JsonValue]] = {},  # only read
        batch: Mapping[str, object] | None = None,
    ) -> None:
        _require_monty()
        for name in functions:
            if not name.isidentifier() or name.startswith("_"):
                raise ValueError(
                    f"a host function must have the name of a variable without a leading '_', got {name!r}"
                )
        self._data = {"traces": trace, "skillbook": skillbook, "batch_items": batch or {}}
        self._limits = limits
        self._functions = dict(functions)
        self._session: MontySession | None = None
        self._entered = False

    def __enter__(self) -> Self:
        """Start a session.

        Raises:
            SandboxError: If the trace does not fit into the limits.
        """
        self._entered = True
        self._session = self._started()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered = False
        self._end()

    def execute(self, code: str) -> ExecutionResult:
        """Run code in the session.

        Args:
            code: Python code. An unsupported construct is an error that names it.

        Returns:
            The result, which includes errors of the code and exceeded limits.

        Raises:
            SandboxError: If a new session was needed, and could not be started.
            RuntimeError: If the sandbox is used outside its `with` statement.
            BaseException: Whatever a host function raised, unless it is an `Exception`.
        """
        if not self._entered:
            raise RuntimeError("a TraceSandbox can only execute code inside its 'with' statement")
        if self._session is None:
            self._session = self._started()
        began = time.perf_counter()
        execution = _Execution(self._functions, self._limits)
        try:
            error, lost = execution.run(self._session, _SHOW_VARS.sub("SHOW_VARS(locals())", code))
        except BaseException:
            self._end()
            raise
        if lost:
            self._end()
        return ExecutionResult(
            stdout=execution.stdout(),
            error=_cut(error, self._limits.output_characters),
            has_final=execution.has_final,
            final=execution.final,
            session_lost=lost,
            seconds=time.perf_counter() - began,
        )

    def _started(self) -> MontySession:
        first, *further = _texts(self._data)
        size = len(first) + sum(map(len, further))
        if self._limits.memory is None:
            self._limits = replace(self._limits, memory=_memory_for([first, *further]))
        limits: ResourceLimits = {
            "max_feed_duration_secs": self._limits.seconds,
            "max_turn_duration_secs": self._limits.seconds,
            "max_memory": self._limits.memory,
            "max_recursion_depth": self._limits.recursion,
            "max_suspensions": 2**31,  # per session; those of one execution are counted here
            "max_total_sleep_secs": 0.0,
        }
        from pydantic_monty import ExternalModule

        modules: dict[str, ExternalModule] = {}
        new = _POOL.checkout(limits, modules)
        offered = "\n".join(f"{name} = _HostFunction({name!r})" for name in self._functions)
        execution = _Execution({}, self._limits)
        try:
            new.feed_run(_SESSION_SOURCE)
            for name, source in _MODULE_SOURCES.items():
                modules[name] = ExternalModule(new.feed_run("_module(_source)", inputs={"_source": source}))
            loads = [(_LOAD_DATA, first), *((_LOAD_STEPS, text) for text in further), (_DATA_LOADED, "")]
            for code, inputs in (
                (f"{_IMPORTS}\n{offered}", {}),
                *((code, {"_data_text": text}) for code, text in loads),
            ):
                error, lost = execution.run(new, code, inputs)
                if error:
                    reason = "" if lost else f": {error}"
                    raise SandboxError(
                        f"the session could not load the trace of {size:,} characters within "
                        f"{self._limits.seconds:g} seconds and {self._limits.memory:,} bytes of memory{reason}"
                    )
        except BaseException:
            new.__exit__(None, None, None)
            raise
        return new

    def _end(self) -> None:
        ended, self._session = self._session, None
        if ended is not None:
            ended.__exit__(None, None, None)


def _texts(data: Mapping[str, Any]) -> list[str]:
    """Return the data as JSON texts: all of it without the steps of a long trace, then these in parts.

    While a session parses a text, it holds both the text and the result, so it needs less memory for several parts.
    """
    steps = data["traces"].get("steps")
    if not isinstance(steps, list) or len(steps) < _PARTS:
        return [_json_text(data)]
    size = -(-len(steps) // _PARTS)
    rest = {**data, "traces": {**data["traces"], "steps": []}}
    return [_json_text(rest), *(_json_text(steps[place : place + size]) for place in range(0, len(steps), size))]


def _memory_for(texts: Sequence[str]) -> int:
    """Return how many bytes a session may allocate by default.

    A session needs 2.6 times the size of a trace with many steps, and while it loads up to 4.6 times that of other
    data. What is left is what code could send to the host in one piece, as an argument or as the text of an error, and
    the host has to take in before it can refuse it.
    """
    return min(256 * _MEBIBYTE, 64 * _MEBIBYTE + 5 * sum(len(text.encode()) for text in texts))


_SESSION_SOURCE = f"{inspect.getsource(trace_context)}\n{inspect.getsource(session)}\nNone".replace(
    "from __future__ import annotations\n", ""
)
_MODULE_SOURCES = {
    "statistics": inspect.getsource(session_statistics),
    "difflib": inspect.getsource(session_difflib),
}
# Models use these without importing them.
_IMPORTS = "import collections, datetime, difflib, itertools, json, math, random, re, statistics"

_LOAD_DATA = """
_data = _json.loads(_data_text)
_data_text = None
"""
_LOAD_STEPS = """
_data["traces"]["steps"].extend(_json.loads(_data_text))
_data_text = None
"""
_DATA_LOADED = """
_data_text = None
traces, skillbook, batch_items = _data["traces"], _data["skillbook"], _data["batch_items"]
item_ids = list(batch_items)
trace = TraceContext(traces)
_predefined.update(eval("locals()"))
"""


_SHOW_VARS = re.compile(r"\bSHOW_VARS\(\s*\)")


@dataclass
class _Execution:
    """One execution of code in a session."""

    functions: Mapping[str, Callable[..., JsonValue]]
    limits: SandboxLimits
    has_final: bool = False
    final: JsonValue = None
    exchanged: int = 0
    host_seconds: float = 0.0
    printed: CollectString = field(init=False)
    most_printed: int = field(init=False)

    def __post_init__(self) -> None:
        from pydantic_monty import CollectString

        # Not a function: a KeyboardInterrupt inside it would be passed to the code as an error.
        self.most_printed = 4 * self.limits.output_characters + _MOST_PRINTED
        self.printed = CollectString(max_bytes=self.most_printed)

    def run(self, monty_session: MontySession, code: str, inputs: Mapping[str, str] | None = None) -> tuple[str, bool]:
        """Run the code. Return its error, and whether the session is lost."""
        from pydantic_monty import MontyComplete, MontyCrashedError, MontyError

        # The value of the last expression would be sent to the host; None is small.
        code = f"{_encodable(code)}\nNone"
        calls = 0
        try:
            snapshot: SyncSnapshot = monty_session.feed_start(
                code,
                inputs=dict(inputs or {}),
                external_lookup={"_host": self._call},  # called in `_answered`, so that an interrupt reaches the caller
                print_callback=self.printed,
            )
            while not isinstance(snapshot, MontyComplete):
                calls += 1
                if calls > self.limits.host_calls:
                    return f"RuntimeError: the code called the host more than {self.limits.host_calls:,} times", True
                snapshot = self._answered(snapshot)
                if problem := self._exceeded_by_host():
                    return problem, True
        except MontyCrashedError:
            return "the session ended: the code needed too much memory or time, or was too long", True
        except MontyError as error:
            text, exceeded = self._explained(error)
            return text, exceeded or monty_session.worker_pid is None
        return "", False

    def _answered(self, snapshot: Any) -> SyncSnapshot:
        from pydantic_monty import FunctionSnapshot

        answer: SyncSnapshot
        if isinstance(snapshot, FunctionSnapshot) and snapshot.function_name == "_host":
            try:
                answer_text = self._call(*snapshot.args)
            except Exception as error:
                # A TimeoutError, for example, would be mistaken for an exceeded limit.
                answer = snapshot.resume({"exception": RuntimeError(_encodable(str(error)))})
            else:
                answer = snapshot.resume({"return_value": answer_text})
        else:
            answer = snapshot.resume_auto()
        return answer

    def _exceeded_by_host(self) -> str:
        if self.exchanged > self.limits.host_characters:
            return (
                f"RuntimeError: the code exchanged more than {self.limits.host_characters:,} characters with the host"
            )
        if self.host_seconds > self.limits.seconds:
            return f"TimeoutError: the code kept the host busy for longer than {self.limits.seconds:g} seconds"
        return ""

    def _call(self, *call: object) -> str:
        """Call a function for the session, and return the result as JSON. What the host does itself is counted."""
        began = time.perf_counter()
        waited = 0.0

        def called(function: Callable[..., JsonValue], arguments: Any, keywords: Any) -> JsonValue:
            nonlocal waited
            asked = time.perf_counter()
            try:
                return function(*arguments, **keywords)
            finally:
                waited = time.perf_counter() - asked

        self.exchanged += sum(len(text) for text in call if isinstance(text, str))
        try:
            result = self._returned(called, *call)
        finally:
            self.host_seconds += time.perf_counter() - began - waited
        self.exchanged += len(result)
        return result

    def _returned(self, called: Callable[..., JsonValue], *call: object) -> str:
        name, text = call if len(call) == 2 else (None, None)
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError("values leave the session as JSON text only")
        longest = session.LONGEST_EXCHANGE
        if len(text) > longest:
            raise ValueError(f"{name} was given {len(text):,} characters as JSON; the limit is {longest:,}")
        try:
            arguments, keywords = _parsed(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{name} takes JSON values: {error}") from error
        if name == "FINAL":
            (self.final,) = arguments
            self.has_final = True
            return "null"
        if name not in self.functions:
            raise NameError(f"no function of the host is named {name!r:.80}")
        try:
            result = called(self.functions[name], arguments, keywords)
        except Exception as error:
            raise RuntimeError(f"{name} failed: {type(error).__name__}: {error}") from error
        return _json_text(result)

    def stdout(self) -> str:
        kept = self.limits.output_characters
        text: str = self.printed.output
        return text if len(text) <= kept else f"{text[:kept]}\n[output cut off at {kept:,} characters]\n"

    def _explained(self, error: Any) -> tuple[str, bool]:
        """Return the text of an error, and whether a limit caused it. The text must be the same in every run."""
        message = str(error)
        if message.endswith(f"> {self.most_printed} bytes"):
            return f"RuntimeError: the code printed more than {self.most_printed:,} bytes", True
        if message.startswith("TimeoutError: ") and "time limit exceeded" in message:
            return f"TimeoutError: the code ran longer than {self.limits.seconds:g} seconds", True
        if message.startswith("MemoryError: ") and "memory limit" in message:
            return f"MemoryError: the session needed more than {self.limits.memory:,} bytes of memory", True
        return error.display() if hasattr(error, "display") else message, False


class _Pool:
    """The workers of this process. Started by the first session, ended when the interpreter exits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._monty: Monty | None = None
        self._of_parent: Monty | None = None

    def checkout(self, limits: ResourceLimits, modules: Mapping[str, ExternalModule]) -> MontySession:
        """Start a session.

        Args:
            limits: Its limits.
            modules: The source of further modules that code can import. It is read when code imports one.
        """
        session = self._started().checkout(limits=limits, os_policy=_OS_POLICY, external_modules=modules)
        return session.__enter__()

    def _started(self) -> Monty:
        from pydantic_monty import Monty

        with self._lock:
            if self._of_parent is not None:
                raise SandboxError(
                    "sessions do not work in a process that was forked from one that had sessions; "
                    "start it with the method 'spawn' or 'forkserver' of multiprocessing"
                )
            if self._monty is None:
                # The synchronous pool: the asynchronous one can crash an interpreter that exits.
                pool = Monty(min_processes=1, max_processes=_MOST_SESSIONS, max_checkouts_per_worker=1)
                self._monty = pool.__enter__()
                atexit.register(self._close)
            return self._monty

    def _close(self) -> None:
        with self._lock:
            pool, self._monty = self._monty, None
        if pool is not None:
            pool.__exit__(None, None, None)

    def forget_after_fork(self) -> None:
        """Leave the workers to the parent process.

        The threads of the library do not exist in the forked process, so starting a session would wait indefinitely.
        The reference to the pool is kept, because deleting it would end the workers of the parent.
        """
        self._of_parent, self._monty = self._monty or self._of_parent, None
        self._lock = threading.Lock()


_POOL = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.forget_after_fork)


def _require_monty() -> None:
    try:
        import pydantic_monty  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "the session of the recursive reflector requires the package 'pydantic-monty'; "
            "install it with: pip install 'ace-core[rr]'"
        ) from error


def _json_text(value: object) -> str:
    """Return a value as JSON text; an object without a JSON form becomes its text, or else its type name."""
    return _encodable(json.dumps(value, ensure_ascii=False, default=_as_json))


def _as_json(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    # The default text of an object contains its address, which differs between runs.
    return str(value) if type(value).__str__ is not object.__str__ else f"<{type(value).__name__}>"


def _encodable(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def _parsed(text: str) -> tuple[list[JsonValue], dict[str, JsonValue]]:
    def reject(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    def finite(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            raise ValueError(f"{digits} is not a finite number")
        return number

    arguments, keywords = json.loads(text, parse_constant=reject, parse_float=finite)
    if not isinstance(arguments, list) or not isinstance(keywords, dict):
        raise TypeError("the arguments must be a list and an object")
    return arguments, keywords


def _cut(text: str, size: int) -> str:
    """Keep the beginning and the end of a long text: a traceback ends with the error."""
    if len(text) <= size:
        return text
    half = size // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"
