"""Learn from recorded traces and answer with what was learned, on this machine and without a key.

The first part takes seconds and does not need a model. The second part names the model, downloads it without asking,
and shows its answers as they are. Run it from the root of the checkout:

    python -m examples.demo            # both parts
    python -m examples.demo tour       # only the part without a model
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

from ace import Skill, Skillbook
from ace.providers.local import DEFAULT_MODEL, catalogued_model

ACE = Path(sys.executable).with_name("ace")
TRACES = Path(__file__).parent / "traces"
SHIPPED = Path(__file__).parent / "house_skills.json"
NEW_QUESTIONS = Path(__file__).with_name("new_questions.jsonl")
"""Questions named after the traces from which their answers are learned; their ground truths are patterns."""
MARKS = {True: " (right)", False: " (wrong)"}
WRONG_USAGE = 2


def tour(folder: Path) -> None:
    """Read, import, search and change a shipped skillbook."""
    shipped = Skillbook.load_from_file(SHIPPED)
    print(f"1. {SHIPPED.name} has {len(shipped)} skills:")
    for skill in shipped.skills():
        print(f"   [{skill.id}] {skill.content}")

    book = Skillbook.open(folder / "house.db")
    for skill in shipped.skills():
        book.add_skill(skill.section, skill.content, skill.id)
    print(f"\n2. Imported into a store with history, which is at version {book.version}.")

    print("\n3. The skills for 'How do I name the branch of a ticket?', as a model would get them, in 60 tokens:")
    print(book.as_prompt(budget_tokens=60, query="How do I name the branch of a ticket?"))

    before = len(book.history())
    first = book.skills()[0]
    book.update_skill(first.id, content=f"{first.content} Ask where a ticket has no number.")
    print(f"\n4. What changed from version {before} to {before + 1}:")
    for old, new in book.diff(before, before + 1).changed:
        print(f"   - {old.content}\n   + {new.content}")


def learn_and_ask(folder: Path) -> int:
    """Learn from corrections, test what was learned, and ask new questions without and with it."""
    skillbook = folder / "skills.db"
    code = 0
    if "ACE_MODEL" not in os.environ:
        model = catalogued_model(DEFAULT_MODEL)
        print(f"\nNow with a model: {model.name} by {model.maker}, {model.size / 1e9:.1f} GB, licence {model.licence}.")
        print("Two idle cores take about a minute to fetch it the first time, and about two minutes for the rest.")
        code = ace("models", "pull", model.name, "--yes")
    if code != WRONG_USAGE:
        print("\nIn some of these traces a person corrects the agent. In one, a call of a tool fails and another")
        print(
            "succeeds, and no person says anything. Each becomes a rule, which is proven: the question is asked again,"
        )
        print("with the rule.")
        code = ace("learn", os.path.relpath(TRACES), "--skillbook", str(skillbook))
    if code == WRONG_USAGE:
        return code
    print("\nEach skill, the trace that taught it, and whether it is proven:")
    skills = Skillbook.load_from_file(skillbook).skills()
    for skill in skills:
        print(f"   [{skill.id}] {skill.content}")
        for source in skill.sources:
            print(f"      from {Path(source.trace_id).name}, {skill.proof}")
    print("\nNow questions that it has never seen, without and with these skills:")
    return print_new_answers(skillbook, skills)


def ace(*arguments: str) -> int:
    """Run a command of `ace`, and return its exit code."""
    print(f"\n$ ace {subprocess.list2cmdline(arguments)}", flush=True)
    return subprocess.run([ACE, *arguments], check=False).returncode


def print_new_answers(skillbook: Path, skills: Sequence[Skill]) -> int:
    """Ask the new questions, and print the answers before and after learning."""
    options = ["--environment", "regex", "--workers", "4", "--skillbook", str(skillbook)]
    arguments = ["eval", os.path.relpath(NEW_QUESTIONS), *options]
    print(f"\n$ ace {subprocess.list2cmdline(arguments)}", flush=True)
    asked = subprocess.run([ACE, *arguments, "--json"], check=False, stdout=subprocess.PIPE)
    if asked.returncode == WRONG_USAGE:
        return asked.returncode
    samples = json.loads(asked.stdout)["samples"]
    trace_of = {line["question"]: line["id"] for line in map(json.loads, NEW_QUESTIONS.read_text("utf-8").splitlines())}
    rows = []
    for sample in samples:
        sides = ("baseline", "learned")
        before, after = (sample[side][0]["answer"] + MARKS[sample[f"{side}_correct"] == 1] for side in sides)
        trace = trace_of[sample["question"]]
        taught = [skill for skill in skills if any(source.trace_id.endswith(trace) for source in skill.sources)]
        is_proven = bool(taught) and all(skill.proof == "proven" for skill in taught)
        rows.append((sample["question"], before, after, "yes" if is_proven else "no"))
    print_table(("question", "before", "after", "proven"), rows)
    right = [sum(sample[f"{side}_correct"] == 1 for sample in samples) for side in ("baseline", "learned")]
    print(f"\nRight: {right[0]} of {len(rows)} before, {right[1]} of {len(rows)} after.")
    print("\nTo learn from your own logs:")
    print("   ace inspect --all     # the logs of known agents on this machine; calls no model, writes nothing")
    print("   ace learn FOLDER      # files and folders in any format")
    print("   ace review            # decide what your agents are shown")
    return 0


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose cells are wrapped to the width of the terminal."""
    last = max(map(len, [columns[-1], *(row[-1] for row in rows)]))
    width = max(16, (shutil.get_terminal_size((100, 24)).columns - last - 12) // 3)
    widths = [width] * (len(columns) - 1) + [last]
    rule = "-+-".join("-" * width for width in widths)
    for row in (columns, *rows):
        cells = [textwrap.wrap(" ".join(cell.split()), width) or [""] for cell, width in zip(row, widths, strict=True)]
        for lines in itertools.zip_longest(*cells, fillvalue=""):
            print(" | ".join(line.ljust(width) for line, width in zip(lines, widths, strict=True)).rstrip())
        print(rule)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ace-demo-") as name:
        folder = Path(name)
        tour(folder)
        if "tour" in sys.argv[1:]:
            return 0
        return learn_and_ask(folder)


if __name__ == "__main__":
    sys.exit(main())
