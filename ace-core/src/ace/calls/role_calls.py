"""The one place where roles, environments and clients of other people are called.

They may be plain or asynchronous, and take their arguments by keyword. What they return is checked here, so that an
error names the one who returned it and not the next one who reads it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ace.arguments import shown
from ace.calls.calling import Calling
from ace.protocols.errors import RoleError

if TYPE_CHECKING:
    from ace.context import ACESample, SkillbookView
    from ace.environments import EnvironmentResult, TaskEnvironment
    from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
    from ace.protocols.deduplication import SkillConsolidatorLike
    from ace.protocols.llm import AnyLLMClient, StructuredAnswer
    from ace.protocols.roles import AgentLike, ReflectorLike, SkillManagerLike

__all__ = [
    "call_agent",
    "call_client",
    "call_consolidator",
    "call_environment",
    "call_reflector",
    "call_role",
    "call_skill_manager",
    "checked",
]

T = TypeVar("T")


async def call_role(
    calling: Calling, role: str, owner: object, method: str, expected: type[T], arguments: Mapping[str, Any]
) -> T:
    """Call a method of a role and check what it returns.

    Args:
        calling: How it is called: `BLOCKING` from plain code, `ON_LOOP` from asynchronous code.
        role: What it is, for errors, such as `agent`.
        owner: The role.
        method: The name of its method.
        expected: The class of what it has to return.
        arguments: Its keyword arguments.

    Raises:
        RoleError: It takes other arguments, or returned something else.

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
    """Return what a role returned, if it has the class that it must have.

    Args:
        role: What it is, for errors.
        owner: The role.
        method: The name of its method.
        expected: The class of what it has to return.
        returned: What it returned.

    Raises:
        RoleError: It has another class.
    """
    if isinstance(returned, expected):
        return returned
    given = "None" if returned is None else f"{_with_article(type(returned).__name__)}, {shown(returned)}"
    raise RoleError(
        f"the {role}: {_named(owner, method)} returned {given}; it must return {_with_article(expected.__name__)}"
    )


async def call_agent(
    calling: Calling, agent: AgentLike, question: str, context: str, skillbook: SkillbookView, **more: object
) -> AgentOutput:
    """Have an agent answer a question.

    Args:
        calling: How it is called.
        agent: The agent.
        question: The question or task.
        context: Whatever the answer may draw on; may be empty.
        skillbook: The skills to use.
        **more: What is passed on beyond this, such as `sample`.

    Raises:
        RoleError: It takes other arguments, or returned something else than an `AgentOutput`.
    """
    from ace.outputs import AgentOutput  # pydantic is behind it: building a pipeline shall not load it

    arguments = {"question": question, "context": context, "skillbook": skillbook, **more}
    return await call_role(calling, "agent", agent, "generate", AgentOutput, arguments)


async def call_environment(
    calling: Calling, environment: TaskEnvironment, sample: ACESample, agent_output: AgentOutput
) -> EnvironmentResult:
    """Have an environment judge an answer.

    Args:
        calling: How it is called.
        environment: The environment.
        sample: The input.
        agent_output: The answer.

    Raises:
        RoleError: It takes other arguments, or returned something else than an `EnvironmentResult`.
    """
    from ace.environments import EnvironmentResult

    arguments = {"sample": sample, "agent_output": agent_output}
    return await call_role(calling, "environment", environment, "evaluate", EnvironmentResult, arguments)


async def call_reflector(calling: Calling, reflector: ReflectorLike, **arguments: object) -> ReflectorOutput:
    """Have a reflector find out what an execution teaches.

    Args:
        calling: How it is called.
        reflector: The reflector.
        **arguments: Those of `ReflectorLike.reflect`, with `trace`.

    Raises:
        RoleError: It takes other arguments, or returned something else than a `ReflectorOutput`.
    """
    from ace.outputs import ReflectorOutput

    return await call_role(calling, "reflector", reflector, "reflect", ReflectorOutput, arguments)


async def call_skill_manager(
    calling: Calling, skill_manager: SkillManagerLike, **arguments: object
) -> SkillManagerOutput:
    """Have a skill manager turn a reflection into operations.

    Args:
        calling: How it is called.
        skill_manager: The skill manager.
        **arguments: Those of `SkillManagerLike.update_skills`.

    Raises:
        RoleError: It takes other arguments, or returned something else than a `SkillManagerOutput`.
    """
    from ace.outputs import SkillManagerOutput

    return await call_role(calling, "skill manager", skill_manager, "update_skills", SkillManagerOutput, arguments)


async def call_consolidator(calling: Calling, skill_manager: SkillConsolidatorLike, prompt: str) -> Mapping[str, Any]:
    """Ask a skill manager about similar skills.

    Args:
        calling: How it is called.
        skill_manager: The skill manager.
        prompt: The whole question.

    Raises:
        RoleError: It takes other arguments, or returned something else than a mapping.
    """
    # mypy takes only concrete classes for `type[T]`; `isinstance` takes this one.
    kind: type[Mapping[str, Any]] = Mapping  # type: ignore[type-abstract]
    return await call_role(calling, "skill manager", skill_manager, "consolidate_skills", kind, {"prompt": prompt})


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
    """Say why a method cannot be called with these keywords; None if it can."""
    try:
        signature = inspect.signature(getattr(owner, method))
    except (AttributeError, TypeError, ValueError):  # not there, not callable, or built in
        return None
    try:
        signature.bind(**arguments)
    except TypeError as error:
        given = ", ".join(arguments)
        return f"cannot be called with the keywords {given}: {error}; its signature is {signature}"
    return None


def _named(owner: object, method: str) -> str:
    return f"{type(owner).__name__}.{method}()"


def _with_article(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"
