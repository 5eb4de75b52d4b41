"""The hooks: what a plugin can provide. They take no arguments and return data; see `ace.plugins.specs`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pluggy

from ace.plugins.errors import PluginApiError

if TYPE_CHECKING:
    from ace.plugins.specs import (
        CommandSpec,
        EmbedderSpec,
        ExecuteStepSpec,
        ExtraStepsSpec,
        LLMClientSpec,
        ObserverSpec,
        RunnerSpec,
        StoreSpec,
        TraceConverterSpec,
    )

__all__ = [
    "ACCEPTED_API",
    "ENTRY_POINT_GROUP",
    "HOOKS",
    "check_api",
    "hook_names",
    "hookimpl",
    "undecorated_hook",
    "unknown_hook",
]

ENTRY_POINT_GROUP: Final = "ace.plugins"
"""The group of entry points; the name of an entry point is the name of the plugin."""

CURRENT_API: Final = 1
"""The current value of `ACE_API`."""
ACCEPTED_API: Final = (1,)
"""The supported values of `ACE_API`: the current one and, later, the previous one."""

hookimpl = pluggy.HookimplMarker("ace")
"""The decorator for the hooks of a plugin."""
_hookspec = pluggy.HookspecMarker("ace")


@_hookspec
def ace_execute_steps() -> Iterable[ExecuteStepSpec]:
    """Provide the step that runs tasks with a framework.

    Example:
        @hookimpl
        def ace_execute_steps():
            yield ExecuteStepSpec(
                name="acme",
                target="ace_acme.execute:AcmeExecuteStep",
                produces="ace_acme.result:AcmeResult",
                requires=("acme-agent>=2,<3",),
                summary="Run tasks with Acme agents",
            )
    """
    return ()


@_hookspec
def ace_trace_converters() -> Iterable[TraceConverterSpec]:
    """Provide the step that converts a result of the framework, or a stored record, to the standard trace dict.

    Example:
        @hookimpl
        def ace_trace_converters():
            yield TraceConverterSpec(
                name="acme",
                target="ace_acme.to_trace:AcmeToTrace",
                accepts="ace_acme.result:AcmeResult",
                recognises="ace_acme.recognise:recognise",
            )
    """
    return ()


@_hookspec
def ace_runners() -> Iterable[RunnerSpec]:
    """Provide a runner class, if the runner composed of the two steps is not enough.

    Example:
        @hookimpl
        def ace_runners():
            yield RunnerSpec(name="acme", target="ace_acme.runner:Acme", requires=("acme-agent>=2,<3",))
    """
    return ()


@_hookspec
def ace_llm_clients() -> Iterable[LLMClientSpec]:
    """Provide a language model client; a model string `acme/large` then calls it with `"large"`.

    Example:
        @hookimpl
        def ace_llm_clients():
            yield LLMClientSpec(name="acme", target="ace_acme.llm:AcmeLLMClient")
    """
    return ()


@_hookspec
def ace_commands() -> Iterable[CommandSpec]:
    """Provide a subcommand such as `ace acme`; a parameter of type `ace.cli.CommandContext` receives the settings.

    Example:
        @hookimpl
        def ace_commands():
            yield CommandSpec(name="acme", target="ace_acme.cli:app", summary="Look at what Acme agents did")
    """
    return ()


@_hookspec
def ace_observers() -> Iterable[ObserverSpec]:
    """Provide a callable that receives every event of runs, samples, steps, model calls and skills.

    Example:
        @hookimpl
        def ace_observers():
            yield ObserverSpec(name="acme", target="ace_acme.observe:send_event")
    """
    return ()


@_hookspec
def ace_stores() -> Iterable[StoreSpec]:
    """Provide an `ace.skillbook.SkillbookStore`; `Skillbook.open` and `--skillbook` then accept `acme://team/skills`.

    Example:
        @hookimpl
        def ace_stores():
            yield StoreSpec(name="acme", target="ace_acme.store:AcmeStore", schemes=("acme",))
    """
    return ()


@_hookspec
def ace_embedders() -> Iterable[EmbedderSpec]:
    """Provide an embedding model; `DeduplicationConfig(embedding_provider="acme")` then uses it.

    Example:
        @hookimpl
        def ace_embedders():
            yield EmbedderSpec(name="acme", target="ace_acme.embed:AcmeEmbedder")
    """
    return ()


@_hookspec
def ace_extra_steps() -> Iterable[ExtraStepsSpec]:
    """Provide steps that `ACELiteLLM.from_model(..., acme=True, acme_depth=2)` appends to those that learn.

    Example:
        @hookimpl
        def ace_extra_steps():
            yield ExtraStepsSpec(name="acme", target="ace_acme.steps:extra_steps", options=("depth",))
    """
    return ()


HOOKS: Final = {
    "execute_steps": "ExecuteStepSpec",
    "trace_converters": "TraceConverterSpec",
    "runners": "RunnerSpec",
    "llm_clients": "LLMClientSpec",
    "commands": "CommandSpec",
    "observers": "ObserverSpec",
    "stores": "StoreSpec",
    "embedders": "EmbedderSpec",
    "extra_steps": "ExtraStepsSpec",
}
"""The kinds of things that a plugin can provide, each with its spec; the hook of `runners` is `ace_runners`."""


def check_api(api: object, owner: str) -> None:
    """Check the `ACE_API` of a hook module.

    Args:
        api: The value; None if the module does not have one.
        owner: The names of the plugin and its distribution, for errors.

    Raises:
        PluginApiError: This version of ace-core does not support the value.

    Example:
        >>> check_api(CURRENT_API, "plugin 'acme' of ace-acme 1.0")
    """
    if type(api) is int and api in ACCEPTED_API:
        return
    if api is None:
        said, fix = "its hook module has no ACE_API", f"add ACE_API = {CURRENT_API}"
    elif type(api) is not int:
        said, fix = f"ACE_API must be a whole number, got {api!r}", f"write ACE_API = {CURRENT_API}"
    elif api > CURRENT_API:
        said, fix = f"it is written for plugin API {api}, newer than {CURRENT_API}", "update ace-core"
    else:
        said, fix = f"it is written for plugin API {api}, older than {min(ACCEPTED_API)}", "update the plugin"
    raise PluginApiError(f"{owner}: {said}; {fix}")


def hook_names() -> str:
    """Return the names of all hooks, for errors."""
    return ", ".join(f"ace_{kind}" for kind in HOOKS)


def unknown_hook(name: str) -> str:
    """Return the error for a function that is marked as a hook, but is not one.

    Example:
        >>> print(unknown_hook("ace_runner"))
        'ace_runner' is not a hook, did you mean 'ace_runners'? The hooks are ace_execute_steps, ...
    """
    from ace.arguments import closest_name  # only needed for an error

    near = closest_name(name, [f"ace_{kind}" for kind in HOOKS])
    meant = f", did you mean {near!r}?" if near else "."
    return f"{name!r} is not a hook{meant} The hooks are {hook_names()}"


def undecorated_hook(name: str) -> str:
    """Return the error for a function that has the name of a hook, but not the decorator."""
    return f"{name} is not marked as a hook; write @hookimpl above it"
