"""What importing the skillbook loads."""

from __future__ import annotations

import json
from pathlib import Path

from tests.core.skillbook.clocks import run_python


def test_nothing_heavy_is_loaded() -> None:
    script = """
import ace.skillbook, ace._internal.managed_block, ace.retrieval, json, sys
print(json.dumps(sorted(sys.modules)))
"""
    loaded = set(json.loads(run_python(script)))
    heavy = {"sqlite3", "asyncio", "pydantic", "numpy", "litellm", "openai", "instructor", "random", "ssl"}
    assert "ace.skillbook.book" in loaded
    assert not loaded & heavy


def test_the_code_of_a_store_is_loaded_when_one_is_opened(tmp_path: Path) -> None:
    script = """
import sys
from ace.skillbook import Skillbook
Skillbook().add_skill("a", "One.")
parts = ["sqlite_store", "sqlite_file", "text_formats", "timeline"]
assert not [part for part in parts if f"ace.skillbook.{part}" in sys.modules]
Skillbook.open(sys.argv[1])
assert "ace.skillbook.sqlite_store" in sys.modules
from ace.skillbook import *
assert SampleKey("run", 1, "sample").epoch == 1
"""
    run_python(script, str(tmp_path / "skills.db"))
