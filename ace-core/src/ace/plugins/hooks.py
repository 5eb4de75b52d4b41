"""The hooks: what a plugin can provide. They take no arguments and return data; see `ace.plugins.specs`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pluggy

from ace.plugins.specs import (
    CommandSpec,
    EmbedderSpec,
    ExecuteStepSpec,
    ExtraStepsSpec,
    LLMClientSpec,
    LogReaderSpec,
    ObserverSpec,
    RunnerSpec,
    SkillbooksSpec,
    Spec,
    StoreSpec,
    TraceConverterSpec,
)

__all__ = ["ENTRY_POINT_GROUP", "HOOKS", "hookimpl"]

ENTRY_POINT_GROUP: Final = "ace.plugins"
"""The group of entry points; the name of an entry point is the name of the plugin."""

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
def ace_log_readers() -> Iterable[LogReaderSpec]:
    """Provide a reader of the logs that a tool leaves.

    Example:
        @hookimpl
        def ace_log_readers():
            yield LogReaderSpec(name="acme", target="ace_acme.logs:AcmeLogs", summary="Sessions of Acme agents")
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
def ace_skillbooks() -> Iterable[SkillbooksSpec]:
    """Provide the skillbooks that the plugin keeps for a folder, so that `ace review` shows what is pending in them.

    Example:
        @hookimpl
        def ace_skillbooks():
            yield SkillbooksSpec(name="acme", target="ace_acme.books:skillbooks_of")
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


HOOKS: Final[Mapping[str, type[Spec]]] = {
    "execute_steps": ExecuteStepSpec,
    "trace_converters": TraceConverterSpec,
    "log_readers": LogReaderSpec,
    "runners": RunnerSpec,
    "llm_clients": LLMClientSpec,
    "commands": CommandSpec,
    "observers": ObserverSpec,
    "stores": StoreSpec,
    "skillbooks": SkillbooksSpec,
    "embedders": EmbedderSpec,
    "extra_steps": ExtraStepsSpec,
}
"""The kinds of things that a plugin can provide, each with the class of its specs. The hook of `runners` is
`ace_runners`."""
