"""Books in a store with a clock of their own, and what is done to them."""

from __future__ import annotations

from pathlib import Path

from ace.skill import InsightSource
from ace.skillbook import Skillbook
from ace.updates import UpdateOperation
from tests.core.skillbook.clocks import ticking


def opened(path: Path) -> Skillbook:
    return Skillbook.open(path, clock=ticking())


def add(content: str) -> UpdateOperation:
    return UpdateOperation("ADD", section="a", content=content, insight_source=InsightSource("t1", "Which?"))
