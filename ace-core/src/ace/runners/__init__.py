"""The runners: they take inputs through a learning pipeline. Nothing is imported before it is used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ace.runners.ace import ACE
    from ace.runners.base import ACERunner
    from ace.runners.clients import client_from_model, learning_client
    from ace.runners.failures import FailedSample
    from ace.runners.integration import IntegrationRunner
    from ace.runners.litellm import ACELiteLLM, Answer
    from ace.runners.run_options import RunOptions
    from ace.runners.run_record import (
        RunInUseError,
        SkillUse,
        UnfinishedRun,
        give_up,
        has_run,
        skill_use,
        unfinished_runs,
    )
    from ace.runners.run_session import SkillbookNotWrittenError
    from ace.runners.samples import RecordedTrace
    from ace.runners.settings import LearningOptions, LearningSettings, StepOptions
    from ace.runners.spend import Spend, SpendLedger, spend_of_days
    from ace.runners.trace_analyser import TraceAnalyser

__all__ = [
    "ACE",
    "ACELiteLLM",
    "ACERunner",
    "Answer",
    "FailedSample",
    "IntegrationRunner",
    "LearningOptions",
    "LearningSettings",
    "RecordedTrace",
    "RunInUseError",
    "RunOptions",
    "SkillUse",
    "SkillbookNotWrittenError",
    "Spend",
    "SpendLedger",
    "StepOptions",
    "TraceAnalyser",
    "UnfinishedRun",
    "client_from_model",
    "give_up",
    "has_run",
    "learning_client",
    "skill_use",
    "spend_of_days",
    "unfinished_runs",
]

_HOMES = {
    "ACE": "ace",
    "ACELiteLLM": "litellm",
    "ACERunner": "base",
    "Answer": "litellm",
    "FailedSample": "failures",
    "IntegrationRunner": "integration",
    "LearningOptions": "settings",
    "LearningSettings": "settings",
    "RunOptions": "run_options",
    "RecordedTrace": "samples",
    "SkillUse": "run_record",
    "SkillbookNotWrittenError": "run_session",
    "Spend": "spend",
    "SpendLedger": "spend",
    "StepOptions": "settings",
    "TraceAnalyser": "trace_analyser",
    "RunInUseError": "run_record",
    "UnfinishedRun": "run_record",
    "client_from_model": "clients",
    "give_up": "run_record",
    "has_run": "run_record",
    "learning_client": "clients",
    "skill_use": "run_record",
    "spend_of_days": "spend",
    "unfinished_runs": "run_record",
}


_INTEGRATIONS = frozenset({"BrowserUse", "ClaudeCode", "LangChain", "OpenClaw"})
"""Runners of plugins, which `ace` looks up."""


def __getattr__(name: str) -> object:
    if name in _INTEGRATIONS:
        return getattr(importlib.import_module("ace"), name)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
