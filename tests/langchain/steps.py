"""Runs the execute step of the tests."""

from __future__ import annotations

import asyncio
from typing import Any

from ace.context import SkillbookView
from ace.skillbook import Skillbook
from ace_langchain import LangChainExecuteStep, LangChainResult

SKILL = "Say which tide it is."


def book(*contents: str) -> Skillbook:
    skillbook = Skillbook()
    for content in contents:
        skillbook.add_skill("sea", content)
    return skillbook


def run(runnable: Any, item: Any, skillbook: Skillbook | None = None, **options: Any) -> LangChainResult:
    """Run one input, as a step in a pipeline would."""
    step = LangChainExecuteStep(runnable, **options)
    view = SkillbookView(book(SKILL) if skillbook is None else skillbook)
    return asyncio.run(step.execute(item, view))
