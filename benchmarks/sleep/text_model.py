"""A scripted model of texts: it does what a prompt asks for, and knows only what is in the prompt.

As a program, it takes the place of `claude -p`, which SkillOpt-Sleep calls: `python -m benchmarks.sleep.text_model
... -- PROMPT`. It is as good as a model can be that reads exactly: it finds what the person and the agent said to use,
proposes the rule that a failed check asks for, and obeys a rule that it is shown.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence

from benchmarks.sleep.literal import wishes_of

__all__ = ["answer_to", "wording_of"]


def answer_to(prompt: str) -> str:
    """Return the answer to a prompt of SkillOpt-Sleep."""
    if prompt.startswith("You are mining a user's past"):
        return json.dumps(_mined(prompt))
    if "You are SkillOpt's optimizer" in prompt:
        return json.dumps(_edits(prompt))
    if prompt.startswith("Complete the following task"):
        return _attempted(prompt)
    return json.dumps({"score": 0.0, "reason": "nothing to compare with"})


def _mined(prompt: str) -> list[dict[str, object]]:
    """Return the task of a session, with a check for each thing that was said to be used."""
    said, _, rest = prompt.partition("user prompts:\n")[2].partition("\nassistant final (last):\n")
    final = rest.partition("\nfeedback signals:")[0]
    prompts = [line.strip().removeprefix("- ") for line in said.splitlines()]
    wanted = wishes_of("\n".join([*prompts[1:], final])).wanted
    if not prompts or not wanted:
        return []
    checks = [{"op": "contains", "arg": name} for name in wanted]
    return [{"intent": prompts[0], "checks": checks, "rubric": "", "satisfied": False}]


def _edits(prompt: str) -> list[dict[str, str]]:
    """Return a rule for each failing check."""
    wanted = re.findall(r"the response must contain the text '(.+?)'  \[contains=", prompt)
    return [{"op": "add", "content": f"Use `{name}`.", "rationale": "the checks ask for it"} for name in wanted]


def _attempted(prompt: str) -> str:
    """Return an answer that uses what the skill and the memory want."""
    guidance = prompt.partition("# Skill\n")[2].partition("# Task\n")[0]
    used = ", ".join(f"`{name}`" for name in wishes_of(guidance).wanted)
    return f"Done. I used {used}." if used else "Done."


def wording_of(prompt: str) -> str:
    """Return the lesson that a prompt of `ace sleep` asks for, from what the prompt shows."""
    error, failed, worked = (_shown(prompt, name) for name in ("Its error", "What failed", "What worked"))
    if failed and not worked.startswith(failed):
        return f"Run `{worked}`, never `{failed}`, because of this error: {error}"
    steps = worked.partition(", after ")[2].replace("an edit of", "change")
    if written := re.search(r"^The agent had edited (?P<made>`.+`), which `(?P<by>.+)` writes", prompt, re.MULTILINE):
        return f"Never edit {written['made']}, because `{written['by']}` writes it; {steps}."
    if not steps.startswith("change"):
        return f"Run {steps} before `{failed}`, because of this error: {error}"
    requirement = error.rpartition("error: ")[2]
    return f"In every file, {requirement}, because {failed} checks it." if requirement != error else ""


def _shown(prompt: str, name: str) -> str:
    found = re.search(rf"^{name}:\s*(.+)$", prompt, re.MULTILINE)
    return found[1].strip() if found else ""


def main(arguments: Sequence[str]) -> int:
    """Print the answer to the last argument."""
    print(answer_to(arguments[-1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
