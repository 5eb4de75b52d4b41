"""What learning from a trace costs grows with the length of its texts only, whatever they contain."""

from __future__ import annotations

import time

import pytest

from ace.runners import TraceAnalyser
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager

REPEATED = [
    *(" ", "\n", "a", "a ", "a_", "a.", "a@", "a-", "A", "é", "0", "1 ", "0,", "1.", "1/", "+1 ", "$1 ", "1% "),
    *("-", "=", ".", ", ", ": ", "; ", "/a", "\\", "`", "|", "# ", "* ", "(", "[", "{", "<", '"', "'", "eyJ", "not "),
    *("a or b ", "http://a", "The answer is 12, not 13. ", "x/y.py:12: error: z\n", "user: a\n"),
]
SHORT, LONG = 1_000, 6_000


def seconds(field: str, text: str) -> float:
    """Return the CPU seconds of learning from a trace with a text in one of its fields."""
    trace: dict[str, object] = {"question": "2+2?", "answer": "5", "feedback": "Wrong, it is 4."}
    trace |= {"steps": [{"action": text, "observation": text}]} if field == "steps" else {field: text}
    runner = TraceAnalyser.from_roles(reflector=ScriptedReflector(), skill_manager=ScriptedSkillManager())
    started = time.process_time()
    [result] = runner.run([trace])
    took = time.process_time() - started
    assert result.error is None
    return took


@pytest.mark.parametrize("field", ["question", "answer", "feedback", "ground_truth", "steps"])
def test_the_cost_grows_with_the_length_only(field: str) -> None:
    def grows_too_fast(unit: str, before: str) -> bool:
        short, long = (before + unit * (length // len(unit)) for length in (SHORT, LONG))
        return all(seconds(field, long) > 3 * LONG / SHORT * seconds(field, short) for _ in range(3))

    seconds(field, "a")  # loads what is needed
    assert [(unit, before) for unit in REPEATED for before in ("", "1") if grows_too_fast(unit, before)] == []
