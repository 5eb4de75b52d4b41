"""The runners, which run inputs through a learning pipeline. Nothing is imported before it is used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.runners.ace import ACE
    from ace.runners.ace_litellm import ACELiteLLM, Answer
    from ace.runners.base import ACERunner
    from ace.runners.failures import FailedSample
    from ace.runners.integration import IntegrationRunner
    from ace.runners.learning_keywords import LearningOptions, StepOptions
    from ace.runners.learning_settings import LearningSettings, client_from_model, learning_client
    from ace.runners.run_keywords import RunOptions
    from ace.runners.run_record import (
        RunInUseError,
        RunSummary,
        SampleSummary,
        SkillUse,
        UnfinishedRun,
        give_up,
        has_run,
        run_summaries,
        skill_use,
        unfinished_runs,
    )
    from ace.runners.run_session import SkillbookNotWrittenError
    from ace.runners.samples import RecordedTrace, TraceGroup
    from ace.runners.spend import RunSpend, RunSpendCounter, Spend, SpendLedger, StepTimes, spend_of_days
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
    "RunSpend",
    "RunSpendCounter",
    "RunSummary",
    "SampleSummary",
    "SkillUse",
    "SkillbookNotWrittenError",
    "Spend",
    "SpendLedger",
    "StepOptions",
    "StepTimes",
    "TraceAnalyser",
    "TraceGroup",
    "UnfinishedRun",
    "client_from_model",
    "give_up",
    "has_run",
    "learning_client",
    "run_summaries",
    "skill_use",
    "spend_of_days",
    "unfinished_runs",
]

_INTEGRATIONS = frozenset({"BrowserUse", "ClaudeCode", "LangChain", "OpenClaw"})
"""Runners of plugins; `ace` finds them."""


_find, __dir__ = lazy_exports(
    __name__,
    {
        "ACE": "ace",
        "ACELiteLLM": "ace_litellm",
        "ACERunner": "base",
        "Answer": "ace_litellm",
        "FailedSample": "failures",
        "IntegrationRunner": "integration",
        "LearningOptions": "learning_keywords",
        "LearningSettings": "learning_settings",
        "RunOptions": "run_keywords",
        "RecordedTrace": "samples",
        "RunSpend": "spend",
        "RunSpendCounter": "spend",
        "RunSummary": "run_record",
        "SampleSummary": "run_record",
        "SkillUse": "run_record",
        "run_summaries": "run_record",
        "SkillbookNotWrittenError": "run_session",
        "Spend": "spend",
        "SpendLedger": "spend",
        "StepOptions": "learning_keywords",
        "StepTimes": "spend",
        "TraceAnalyser": "trace_analyser",
        "TraceGroup": "samples",
        "RunInUseError": "run_record",
        "UnfinishedRun": "run_record",
        "client_from_model": "learning_settings",
        "give_up": "run_record",
        "has_run": "run_record",
        "learning_client": "learning_settings",
        "skill_use": "run_record",
        "spend_of_days": "spend",
        "unfinished_runs": "run_record",
    },
)


def __getattr__(name: str) -> object:
    if name in _INTEGRATIONS:
        return getattr(importlib.import_module("ace"), name)
    return _find(name)
