"""Plugins: extensions of ace in other distributions, found by entry points and called through hooks.

Users request what a plugin provides by the plugin's name; authors write a hook module with `hookimpl` and specs.
"""

from __future__ import annotations

from ace.plugins.access import get_execute_step, get_llm_client, get_runner, get_trace_converter, temporary
from ace.plugins.catalogue import PluginInfo, list_plugins
from ace.plugins.discovery import Discovery, InstalledPlugin, discover
from ace.plugins.errors import (
    MissingFrameworkError,
    PluginApiError,
    PluginConflictError,
    PluginError,
    PluginLoadError,
    UnknownPluginError,
)
from ace.plugins.hooks import hookimpl
from ace.plugins.kept import FileChange, KeptSkillbook, kept_skillbooks
from ace.plugins.specs import (
    CommandSpec,
    EmbedderSpec,
    ExecuteStepSpec,
    ExtraStepsSpec,
    LLMClientSpec,
    LogReaderSpec,
    ObserverOption,
    ObserverSpec,
    RunnerSpec,
    SkillbooksSpec,
    StoreSpec,
    TraceConverterSpec,
)

__all__ = [
    "CommandSpec",
    "Discovery",
    "EmbedderSpec",
    "ExecuteStepSpec",
    "ExtraStepsSpec",
    "FileChange",
    "InstalledPlugin",
    "KeptSkillbook",
    "LLMClientSpec",
    "LogReaderSpec",
    "MissingFrameworkError",
    "ObserverOption",
    "ObserverSpec",
    "PluginApiError",
    "PluginConflictError",
    "PluginError",
    "PluginInfo",
    "PluginLoadError",
    "RunnerSpec",
    "SkillbooksSpec",
    "StoreSpec",
    "TraceConverterSpec",
    "UnknownPluginError",
    "discover",
    "get_execute_step",
    "get_llm_client",
    "get_runner",
    "get_trace_converter",
    "hookimpl",
    "kept_skillbooks",
    "list_plugins",
    "temporary",
]
