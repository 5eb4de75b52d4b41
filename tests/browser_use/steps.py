"""Runs the execute step of the tests."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from ace import Sample, Skillbook, SkillbookView
from ace_browser_use import BrowserExecuteStep, BrowserResult
from tests.browser_use import harbour
from tests.support.scripted_server import Answer


def book(*rules: str) -> SkillbookView:
    skillbook = Skillbook()
    for rule in rules:
        skillbook.add_skill("cookies", rule)
    return SkillbookView(skillbook)


def run(step: BrowserExecuteStep, task: str | Sample, skills: SkillbookView | None = None) -> BrowserResult:
    return asyncio.run(step.execute(task, skills or book()))


async def seen_from_a_thread(happened: Callable[[], bool]) -> None:
    def look() -> None:
        while not happened():
            time.sleep(0.01)

    await asyncio.to_thread(look)


def acting(*actions: dict[str, Any]) -> Answer:
    return Answer(json.dumps(harbour.answer("So be it.", *actions)))
