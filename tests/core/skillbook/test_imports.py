"""What importing the skillbook loads."""

from __future__ import annotations

import json

from tests.core.skillbook.clocks import run_python


def test_nothing_heavy_is_loaded() -> None:
    script = """
import ace.skillbook, ace.marked_block, ace.retrieval, json, sys
print(json.dumps(sorted(sys.modules)))
"""
    loaded = set(json.loads(run_python(script)))
    heavy = {"sqlite3", "asyncio", "pydantic", "numpy", "litellm", "openai", "instructor", "random", "ssl"}
    assert "ace.skillbook.book" in loaded
    assert not loaded & heavy
