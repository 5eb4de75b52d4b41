"""What is noted of a learned turn holds neither keys nor personal data."""

from __future__ import annotations

from pathlib import Path

from ace.context import ACEStepContext
from ace.skillbook import Skillbook
from ace_claude_code.sessions.learned import NoteLearnedStep, read_learned

TOKEN = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_a_key_in_a_prompt_is_not_noted(tmp_path: Path) -> None:
    path = tmp_path / "learned.jsonl"
    step = NoteLearnedStep(path, Skillbook())
    for name, question in (("t1", f"Push with {TOKEN} for jane@acme.com."), ("t2", "x " * 35 + TOKEN)):
        step(ACEStepContext(trace={"trace_id": name, "question": question}))
    text = path.read_text(encoding="utf-8")
    assert TOKEN[:12] not in text and "jane" not in text
    assert read_learned(path)[0].question == "Push with [hidden: secret] for [hidden: email_address]."
