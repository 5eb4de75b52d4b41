"""Calls of roles, environments and clients, the only place where they are called.

They may be written by users, may be plain or asynchronous, and take their arguments by keyword. Their return values are
checked here, so that an error names the object that returned the wrong value and not the code that uses it.

Code that has to work both ways is written once, as a coroutine that takes a `Calling`. With `BLOCKING` it never
suspends, because every call has returned when it is awaited; so `finished` can run it on the caller's own thread,
without an event loop. With `ON_LOOP` it is awaited, and blocking functions are called on another thread.

Invariant: such a coroutine awaits a `Calling`, or another such coroutine, and nothing else.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar, cast, final

from ace._internal.arguments import shown
from ace.protocols.errors import RoleError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ace.context import ACESample, SkillbookView
    from ace.environments import EnvironmentResult, TaskEnvironment
    from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
    from ace.protocols.deduplication import SkillConsolidatorLike
    from ace.protocols.llm import AnyLLMClient, LLMResponse, StructuredAnswer
    from ace.protocols.roles import AgentLike, ReflectorLike, SkillManagerLike, UpdatesTogetherLike

__all__ = [
    "BLOCKING",
    "ON_LOOP",
    "Awaited",
    "Calling",
    "awaited_where",
    "call_agent",
    "call_client",
    "call_client_with_messages",
    "call_consolidator",
    "call_environment",
    "call_reflector",
    "call_role",
    "call_skill_manager",
    "call_skill_manager_together",
    "checked",
    "checked_response",
    "finished",
    "is_async_method",
    "own_twin",
    "within_seconds",
]

T = TypeVar("T")
Awaited = Literal["never", "on_loop", "always"]
"""When a step that calls a role is awaited; see `ace.pipeline.StepProtocol`."""
Work = Callable[[], Coroutine[Any, Any, T]]
"""A function that returns a coroutine that works both ways."""


class Calling(Protocol):
    """How a coroutine that works both ways calls code outside it."""

    async def method(self, owner: object, name: str, *args: object, **kwargs: object) -> Any:
        """Call a method of a role or a client, plain or asynchronous, and return its result.

        Args:
            owner: The role or client.
            name: The method. Its asynchronous twin has the same name with an `a` before it.
            *args: Its arguments.
            **kwargs: Its keyword arguments.
        """

    async def function(self, function: Callable[[], T]) -> T:
        """Call a plain function that may block for a moment, such as one that writes to a disk.

        An event loop has few threads for all such functions, so do not use it to wait for a server. With `ON_LOOP`, a
        cancelled task does not wait for the function, which continues on its thread.
        """
        ...

    async def outcome(self, future: Future[T]) -> T:
        """Wait for work on another thread, and return its result or raise its error."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait this many seconds."""

    async def each(self, works: Sequence[Work[T]], at_once: int) -> list[T]:
        """Run coroutines that work both ways, several at once, and return their results in the given order.

        Each has its own copy of the context variables. If one raises, none of the others begins; those that have begun
        end or are cancelled, then an error is raised.

        Args:
            works: Functions that return the coroutines.
            at_once: How many may run at the same time, at least 1.
        """
        ...


@final
class _Blocking:
    """Makes every call on the caller's thread, before it is awaited."""

    async def method(self, owner: object, name: str, *args: object, **kwargs: object) -> Any:
        returned = getattr(owner, name)(*args, **kwargs)
        return _awaited_elsewhere(returned) if _is_awaitable(returned) else returned

    async def function(self, function: Callable[[], T]) -> T:
        return function()

    async def outcome(self, future: Future[T]) -> T:
        return future.result()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251  # no loop runs this

    async def each(self, works: Sequence[Work[T]], at_once: int) -> list[T]:
        if at_once == 1 or len(works) < 2:
            return [await work() for work in works]
        return on_threads([functools.partial(_finished_work, work) for work in works], at_once)


@final
class _OnLoop:
    """Awaits on the running loop, and calls plain methods on a cached thread."""

    async def method(self, owner: object, name: str, *args: object, **kwargs: object) -> Any:
        twin = own_twin(owner, name)
        bound = getattr(owner, name) if twin is None else twin
        if twin is not None or is_async_method(owner, name):
            returned = bound(*args, **kwargs)
        else:
            from ace.pipeline.event_loop import call_in_thread

            returned = await call_in_thread(functools.partial(bound, *args, **kwargs))
        return await returned if _is_awaitable(returned) else returned

    async def function(self, function: Callable[[], T]) -> T:
        import asyncio  # already loaded here, but importing this module must not load it

        return await asyncio.to_thread(function)

    async def outcome(self, future: Future[T]) -> T:
        import asyncio

        return await asyncio.shield(asyncio.wrap_future(future))

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)

    async def each(self, works: Sequence[Work[T]], at_once: int) -> list[T]:
        import asyncio

        if at_once == 1 or len(works) < 2:
            return [await work() for work in works]
        waiting = iter(enumerate(works))
        values: dict[int, T] = {}
        has_failed = False

        async def work_off() -> None:
            nonlocal has_failed
            task = asyncio.current_task()
            for place, work in waiting:
                try:
                    values[place] = await asyncio.ensure_future(work())  # a task has its own context variables
                except BaseException:
                    has_failed = True
                    raise
                if has_failed or (task is not None and task.cancelling()):  # the call may lose a cancellation
                    return

        tasks = [asyncio.ensure_future(work_off()) for _ in range(min(at_once, len(works)))]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return [values[place] for place in range(len(works))]


BLOCKING: Final[Calling] = _Blocking()
"""For plain code."""
ON_LOOP: Final[Calling] = _OnLoop()
"""For asynchronous code."""


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, on this thread, and return its value.

    Args:
        coroutine: One that works both ways and was called with `BLOCKING`.

    Raises:
        RuntimeError: The coroutine has suspended.

    Example:
        >>> import asyncio
        >>> async def both_ways(calling):
        ...     return await calling.function(lambda: 4)
        >>> finished(both_ways(BLOCKING)), asyncio.run(both_ways(ON_LOOP))
        (4, 4)
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} must be awaited; it cannot run without an event loop")


def _finished_work(work: Work[T]) -> T:
    return finished(work())


def on_threads(functions: Sequence[Callable[[], T]], at_once: int) -> list[T]:
    """Call plain functions on this thread and on cached ones, and return their results in the given order.

    Each has its own copy of the context variables. If one raises, or Ctrl-C interrupts this thread, none of the others
    begins; those that have begun end, then the error is raised. A second Ctrl-C is raised at once.

    Args:
        at_once: How many may run at the same time, at least 1.
    """
    from ace.pipeline.threads import Event, threads

    lock = threading.Lock()
    waiting = list(enumerate(functions))[::-1]
    values: dict[int, T] = {}
    errors: dict[int, BaseException] = {}

    def work_off(context: contextvars.Context) -> None:
        while True:
            with lock:
                if errors or not waiting:
                    return
                place, function = waiting.pop()
            try:
                values[place] = context.copy().run(function)
            except BaseException as error:
                errors[place] = error

    begun: list[Event] = []
    context = contextvars.copy_context()
    try:
        for _ in range(min(at_once, len(functions)) - 1):
            end = Event()
            threads.start(functools.partial(work_off, context), end.set)
            begun.append(end)
        work_off(context)
        for end in begun:
            end.wait()
    except BaseException:
        with lock:
            waiting.clear()
        for end in begun:
            end.wait()
        raise
    if errors:
        # Ctrl-C and the like come first: code that handles an error would continue.
        raise errors[min(errors, key=lambda place: (isinstance(errors[place], Exception), place))]
    return [values[place] for place in range(len(functions))]


def is_async_method(owner: object, name: str) -> bool:
    """Return whether a method is declared `async def`.

    Args:
        owner: The role or client.
        name: The method.
    """
    method = getattr(owner, name, None)
    return inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(type(method).__call__)


def awaited_where(owner: object, name: str) -> Awaited:
    """Return when a step that calls this method is awaited.

    Args:
        owner: The role, or None.
        name: The name of its method, which may be declared `async def`.

    Example:
        >>> class Judge:
        ...     async def evaluate(self, sample, agent_output): ...
        >>> awaited_where(Judge(), "evaluate"), awaited_where(None, "evaluate")
        ('always', 'never')
    """
    if is_async_method(owner, name):
        return "always"
    return "never" if own_twin(owner, name) is None else "on_loop"


def own_twin(owner: object, name: str) -> Callable[..., Awaitable[Any]] | None:
    """Return the asynchronous twin of a method, such as `acomplete` for `complete`, or None.

    A class that overrides only the plain method has no twin: an inherited one would not do what the class does.

    Args:
        owner: The role or client.
        name: The plain method.
    """
    twin = f"a{name}"
    for names in (getattr(owner, "__dict__", {}), *(cls.__dict__ for cls in type(owner).__mro__)):
        if twin in names:
            return cast("Callable[..., Awaitable[Any]]", getattr(owner, twin))
        if name in names:
            return None
    return None


def _is_awaitable(value: object) -> bool:
    """Return whether a value can be awaited. `inspect.isawaitable` is ten times as slow, on every call of a role."""
    return hasattr(type(value), "__await__")


def _awaited_elsewhere(awaitable: Awaitable[T]) -> T:
    """Await something from plain code, on the loop of the pipeline engine."""
    from ace.pipeline.event_loop import engine_loop

    async def awaited() -> T:
        return await awaitable

    return engine_loop.run(awaited())


def within_seconds(seconds: float | None, call: Callable[[], T]) -> T:
    """Return the result of a plain function, unless it takes too long.

    The function is called on a cached thread. If it takes too long, it continues there and its outcome is dropped,
    because a library that is reading from a socket cannot be interrupted from outside.

    Args:
        seconds: How long it may take; None sets no limit.
        call: The function. It sees the caller's context variables.

    Raises:
        TimeoutError: The function took too long.

    Example:
        >>> within_seconds(10.0, lambda: 4)
        4
    """
    if seconds is None:
        return call()
    from ace.pipeline.threads import Event, threads

    done = Event()
    context = contextvars.copy_context()
    values: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            values.append(context.run(call))
        except BaseException as error:
            errors.append(error)

    threads.start(work, done.set)
    if not done.wait_for(max(0, seconds)):
        raise TimeoutError(f"no result within {seconds:g} s")
    if errors:
        raise errors[0]
    return values[0]


async def call_role(
    calling: Calling, role: str, owner: object, method: str, expected: type[T], arguments: Mapping[str, Any]
) -> T:
    """Call a method of a role and check what it returns.

    Args:
        calling: How it is called: `BLOCKING` from plain code, `ON_LOOP` from asynchronous code.
        role: Its name for errors, such as `agent`.
        owner: The role.
        method: The name of its method.
        expected: The class that it must return.
        arguments: Its keyword arguments.

    Raises:
        RoleError: The method takes other arguments, or returned something else.

    Example:
        >>> from ace.calls.calling import BLOCKING, finished
        >>> class Echo:
        ...     def generate(self, *, question):
        ...         return question
        >>> finished(call_role(BLOCKING, "agent", Echo(), "generate", dict, {"question": "2+2?"}))
        Traceback (most recent call last):
        ...
        ace.protocols.errors.RoleError: the agent: Echo.generate() returned a str, '2+2?'; it must return a dict
    """
    try:
        returned: object = await calling.method(owner, method, **arguments)
    except TypeError as error:
        problem = _misfit(owner, method, arguments)
        if problem is None:
            raise
        raise RoleError(f"the {role}: {_named(owner, method)} {problem}") from error
    return checked(role, owner, method, expected, returned)


def checked(role: str, owner: object, method: str, expected: type[T], returned: object) -> T:
    """Return what a role returned, if it is of the expected class.

    Args:
        role: Its name for errors.
        owner: The role.
        method: The name of its method.
        expected: The class that it must return.
        returned: What it returned.

    Raises:
        RoleError: It is of another class.
    """
    if isinstance(returned, expected):
        return returned
    got = "None" if returned is None else f"{_with_article(type(returned).__name__)}, {shown(returned)}"
    raise RoleError(
        f"the {role}: {_named(owner, method)} returned {got}; it must return {_with_article(expected.__name__)}"
    )


async def call_agent(
    calling: Calling, agent: AgentLike, question: str, context: str, skillbook: SkillbookView, **more: object
) -> AgentOutput:
    """Ask an agent a question.

    Args:
        calling: How it is called.
        question: The question or task.
        context: Further material for the answer; may be empty.
        skillbook: The skills to use.
        **more: Further arguments, such as `sample`.

    Raises:
        RoleError: It takes other arguments, or returned something other than an `AgentOutput`.
    """
    from ace.outputs import AgentOutput  # imports pydantic, which building a pipeline must not load

    arguments = {"question": question, "context": context, "skillbook": skillbook, **more}
    return await call_role(calling, "agent", agent, "generate", AgentOutput, arguments)


async def call_environment(
    calling: Calling,
    environment: TaskEnvironment,
    sample: ACESample,
    agent_output: AgentOutput,
    further: Sequence[AgentOutput] = (),
) -> EnvironmentResult:
    """Ask an environment to judge an answer.

    Args:
        calling: How it is called.
        sample: The input.
        agent_output: The answer.
        further: Further answers to the same question; the environment receives them if there are any.

    Raises:
        RoleError: It takes other arguments, or returned something other than an `EnvironmentResult`.
    """
    from ace.environments import EnvironmentResult

    arguments: dict[str, Any] = {"sample": sample, "agent_output": agent_output}
    if further:
        arguments["further_answers"] = further
    return await call_role(calling, "environment", environment, "evaluate", EnvironmentResult, arguments)


async def call_reflector(calling: Calling, reflector: ReflectorLike, **arguments: object) -> ReflectorOutput:
    """Ask a reflector what can be learned from an execution.

    Args:
        calling: How it is called.
        **arguments: Those of `ReflectorLike.reflect`, with `trace`.

    Raises:
        RoleError: It takes other arguments, or returned something other than a `ReflectorOutput`.
    """
    from ace.outputs import ReflectorOutput

    return await call_role(calling, "reflector", reflector, "reflect", ReflectorOutput, arguments)


async def call_skill_manager(
    calling: Calling, skill_manager: SkillManagerLike, **arguments: object
) -> SkillManagerOutput:
    """Ask a skill manager to turn a reflection into operations.

    Args:
        calling: How it is called.
        **arguments: Those of `SkillManagerLike.update_skills`.

    Raises:
        RoleError: It takes other arguments, or returned something other than a `SkillManagerOutput`.
    """
    from ace.outputs import SkillManagerOutput

    return await call_role(calling, "skill manager", skill_manager, "update_skills", SkillManagerOutput, arguments)


async def call_skill_manager_together(
    calling: Calling, skill_manager: UpdatesTogetherLike, **arguments: object
) -> Mapping[int, SkillManagerOutput]:
    """Ask a skill manager to turn several reflections into operations.

    Args:
        calling: How it is called.
        **arguments: Those of `UpdatesTogetherLike.update_skills_together`.

    Raises:
        RoleError: It takes other arguments, or returned something other than `SkillManagerOutput`s by number.
    """
    from ace.outputs import SkillManagerOutput

    name, method = "skill manager", "update_skills_together"
    # mypy takes only concrete classes for `type[T]`; `isinstance` takes this one.
    kind: type[Mapping[int, object]] = Mapping  # type: ignore[type-abstract]
    found = await call_role(calling, name, skill_manager, method, kind, arguments)
    return {
        checked(name, skill_manager, method, int, number): checked(
            name, skill_manager, method, SkillManagerOutput, output
        )
        for number, output in found.items()
    }


async def call_consolidator(calling: Calling, skill_manager: SkillConsolidatorLike, prompt: str) -> Mapping[str, Any]:
    """Ask a skill manager about similar skills.

    Args:
        calling: How it is called.
        prompt: The whole prompt.

    Raises:
        RoleError: It takes other arguments, or returned something other than a mapping.
    """
    # mypy takes only concrete classes for `type[T]`; `isinstance` takes this one.
    kind: type[Mapping[str, Any]] = Mapping  # type: ignore[type-abstract]
    return await call_role(calling, "skill manager", skill_manager, "consolidate_skills", kind, {"prompt": prompt})


async def call_client_with_messages(
    calling: Calling, llm: object, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
) -> LLMResponse:
    """Send chat messages to a client. One without `complete_messages` gets them as one prompt.

    Args:
        calling: How it is called.
        llm: A client with `complete_messages` or `complete`.
        settings: Settings for this call.

    Raises:
        RoleError: It returned something without a text.
    """
    if callable(getattr(llm, "complete_messages", None)):
        returned = await calling.method(llm, "complete_messages", messages, **settings)
        return checked_response(llm, "complete_messages", returned)
    returned = await calling.method(llm, "complete", _as_prompt(messages), **settings)
    return checked_response(llm, "complete", returned)


def _as_prompt(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return messages as one text, which names the speakers if the model is one of them."""
    texts = [str(message.get("content") or "") for message in messages]
    if any(message.get("role") == "assistant" for message in messages):
        texts = [f"## {message['role'].title()}\n\n{text}" for message, text in zip(messages, texts, strict=True)]
    return "\n\n".join(texts)


def checked_response(llm: object, method: str, returned: object) -> LLMResponse:
    """Return the response of a client as an `LLMResponse`; the client may have a class of its own with a `text`.

    Args:
        llm: The client.
        method: The name of its method.
        returned: What it returned.

    Raises:
        RoleError: It has no text.

    Example:
        >>> from types import SimpleNamespace
        >>> checked_response(None, "complete", SimpleNamespace(text="Paris")).text
        'Paris'
    """
    from ace.protocols.llm import LLMResponse, Usage

    text = getattr(returned, "text", None)
    if isinstance(returned, LLMResponse) or not isinstance(text, str):
        return checked("client", llm, method, LLMResponse, returned)
    usage, reason = getattr(returned, "usage", None), getattr(returned, "finish_reason", "")
    return LLMResponse(
        text,
        raw=getattr(returned, "raw", returned),
        usage=usage if isinstance(usage, Usage) else Usage(calls=1, unpriced_calls=1, unreported_calls=1),
        finish_reason=reason if isinstance(reason, str) else "",
    )


async def call_client(
    calling: Calling, llm: AnyLLMClient, prompt: str, response_model: type[StructuredAnswer]
) -> StructuredAnswer:
    """Ask a client for a structured answer.

    Args:
        calling: How it is called.
        llm: The client.
        prompt: The whole prompt.
        response_model: The class of the answer.

    Raises:
        RoleError: It returned something else.
    """
    returned = await calling.method(llm, "complete_structured", prompt, response_model)
    return checked("client", llm, "complete_structured", response_model, returned)


def _misfit(owner: object, method: str, arguments: Mapping[str, object]) -> str | None:
    """Return why a method cannot be called with these keywords; None if it can."""
    try:
        signature = inspect.signature(getattr(owner, method))
    except (AttributeError, TypeError, ValueError):  # not there, not callable, or built in
        return None
    try:
        signature.bind(**arguments)
    except TypeError as error:
        names = ", ".join(arguments)
        return f"cannot be called with the keywords {names}: {error}; its signature is {signature}"
    return None


def _named(owner: object, method: str) -> str:
    return f"{type(owner).__name__}.{method}()"


def _with_article(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"
