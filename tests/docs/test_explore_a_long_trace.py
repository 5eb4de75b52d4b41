"""The table of the guide has the figures that the tutorial prints."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_table_of_the_guide_has_the_figures_of_the_tutorial() -> None:
    tutorial = (DOCS / "tutorials" / "explore-a-long-trace.md").read_text(encoding="utf-8")
    guide = (DOCS / "how-to" / "explore-long-traces.md").read_text(encoding="utf-8")
    printed = re.findall(r"^.+?(\d+) calls +(\d+) thousand tokens$", tutorial, re.MULTILINE)
    stated = re.findall(r"^\|[^|]+\|[^|]+\| (\d+) \| (\d+),000 \|", guide, re.MULTILINE)
    assert len(printed) == 4
    assert stated == printed
