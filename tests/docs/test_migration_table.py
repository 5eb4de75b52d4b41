"""Every name in the right column of the migration table resolves."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "come-from-another-framework.md"
NAMES = sorted(
    {
        name
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
        for name in re.findall(r"`(ace\.[\w.]+)`", line.split("|")[2])
    }
)


def test_the_table_is_found() -> None:
    assert len(NAMES) > 10


@pytest.mark.parametrize("name", NAMES)
def test_a_new_name_resolves(name: str) -> None:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            fields = getattr(found, "model_fields", {})  # a field of pydantic is no attribute of its class
            found = fields[part] if part in fields else getattr(found, part)
        return
    pytest.fail(f"there is no module of {name}")


def test_old_names_in_italics_still_work() -> None:
    from ace import ACERunner
    from ace.outputs import AgentOutput
    from ace.roles import prompts

    assert ACERunner.save_skillbook is ACERunner.save
    assert ACERunner.load_skillbook is ACERunner.load
    assert ACERunner.wait_for_learning is ACERunner.wait_for_background
    assert prompts.wrap_skillbook_context is prompts.wrap_skillbook_for_external_agent
    assert AgentOutput.model_validate({"reasoning": "", "final_answer": "", "bullet_ids": ["a"]}).skill_ids == ["a"]
