"""The conformance kit: test suites for plugins, one for each kind of extension.

Authors subclass the suites in their own tests and override fixtures, never a check. The kit requires pytest, which is
part of the extra `testing` of ace-core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.testing.command import CommandConformance, ObserverConformance
    from ace.testing.execute_step import ExecuteStepConformance
    from ace.testing.extra_steps import ExtraStepsConformance
    from ace.testing.integration import IntegrationConformance
    from ace.testing.log_reader import LogReaderConformance
    from ace.testing.models import EmbedderConformance, LLMClientConformance
    from ace.testing.plugin import PluginConformance
    from ace.testing.runner import RunnerConformance
    from ace.testing.scripted_model import ScriptedModel
    from ace.testing.store import StoreConformance
    from ace.testing.suite import Conformance
    from ace.testing.trace_converter import TraceConverterConformance

__all__ = [
    "CommandConformance",
    "Conformance",
    "EmbedderConformance",
    "ExecuteStepConformance",
    "ExtraStepsConformance",
    "IntegrationConformance",
    "LLMClientConformance",
    "LogReaderConformance",
    "ObserverConformance",
    "PluginConformance",
    "RunnerConformance",
    "ScriptedModel",
    "StoreConformance",
    "TraceConverterConformance",
]

_find, __dir__ = lazy_exports(
    __name__,
    {
        "CommandConformance": "command",
        "Conformance": "suite",
        "EmbedderConformance": "models",
        "ExecuteStepConformance": "execute_step",
        "ExtraStepsConformance": "extra_steps",
        "IntegrationConformance": "integration",
        "LLMClientConformance": "models",
        "LogReaderConformance": "log_reader",
        "ObserverConformance": "command",
        "PluginConformance": "plugin",
        "RunnerConformance": "runner",
        "ScriptedModel": "scripted_model",
        "StoreConformance": "store",
        "TraceConverterConformance": "trace_converter",
    },
)


def __getattr__(name: str) -> object:
    try:
        return _find(name)
    except ModuleNotFoundError as error:
        if error.name != "pytest":
            raise
        raise ImportError(
            f"ace.testing.{name} needs pytest; install ace-core with its extra 'testing', or run: pip install pytest"
        ) from error
