"""What importing and using deduplication loads."""

from __future__ import annotations

import json

from tests.support.subprocesses import run_python


def test_nothing_heavy_is_loaded_without_a_model() -> None:
    code = """
import json, sys
from ace.deduplication import DeduplicationManager
from ace.protocols import DeduplicationConfig
from ace.skillbook import Skillbook
book = Skillbook()
book.add_skill("a", "One text.")
book.add_skill("a", "one text")
assert len(DeduplicationManager(DeduplicationConfig(embedding_provider="lexical")).consolidate(book).applied) == 1
print(json.dumps([name for name in ("numpy", "litellm", "openai", "pydantic") if name in sys.modules]))
"""
    assert json.loads(run_python(code).stdout) == []
