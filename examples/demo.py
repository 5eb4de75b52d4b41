"""The main job on this machine, without a key: learn from recorded traces, then answer with what was learned.

The first part takes seconds and needs no model. The second part says which model it fetches, and fetches it without
asking. What the model says is shown as it comes. Run it from the root of the checkout:

    python -m examples.demo            # both parts
    python -m examples.demo tour       # only the part without a model
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from ace import Skillbook
from ace.providers.local import DEFAULT_MODEL, catalogued_model

ACE = Path(sys.executable).with_name("ace")
TRACES = Path(__file__).parent / "traces"
SHIPPED = Path(__file__).parent / "house_skills.json"
QUESTION = "Table orders has one order today: (id 9, day 2026-04-02, amount 8450). What is today's revenue in euros?"


def tour(folder: Path) -> None:
    """Read, import, search and compare a shipped skillbook."""
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
    """Learn with the model of this machine, then ask without and with what was learned."""
    model = catalogued_model(DEFAULT_MODEL)
    print(f"\nNow with a model: {model.name} by {model.maker}, {model.size / 1e9:.1f} GB, licence {model.licence}.")
    print("Two idle cores take about a minute to fetch it the first time, and about two minutes for the rest.")
    skillbook = folder / "skills.db"
    for arguments in (
        ["models", "pull", model.name, "--yes"],
        ["learn", str(TRACES), "--skillbook", str(skillbook)],
        ["ask", QUESTION, "--without-skills"],
        ["ask", QUESTION, "--skillbook", str(skillbook)],
    ):
        print(f"\n$ ace {subprocess.list2cmdline(arguments)}", flush=True)
        code = subprocess.run([ACE, *arguments], check=False).returncode
        if code == 2:
            return code
    print("\nEach skill, and the trace that taught it:")
    for skill in Skillbook.load_from_file(skillbook).skills():
        print(f"   [{skill.id}] {skill.content}")
        for source in skill.sources:
            print(f"      from trace {source.trace_id}: {source.sample_question}")
    return 0


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ace-demo-") as name:
        folder = Path(name)
        tour(folder)
        if "tour" in sys.argv[1:]:
            return 0
        return learn_and_ask(folder)


if __name__ == "__main__":
    sys.exit(main())
