"""A book as the folder that coding agents load: `SKILL.md` with a head of name and description."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ace.durable_file import replace_file

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


def skill_file_text(markdown: str, name: str, description: str) -> str:
    """Return the text of a `SKILL.md`.

    Args:
        markdown: The skills as Markdown.
        name: Lower case letters, digits and single hyphens, at most 64 characters.
        description: What the skills are for, on one line of at most 1,024 characters.

    Raises:
        ValueError: If the name or the description is none that agents accept.
    """
    if len(name) > LONGEST_NAME or not _NAME.match(name):
        raise ValueError(f"{name!r} is no name for a skill folder: use lower case letters, digits and single hyphens")
    line = " ".join(description.split())
    if not line or len(line) > LONGEST_DESCRIPTION:
        raise ValueError(f"a description has 1 to {LONGEST_DESCRIPTION} characters, and this has {len(line)}")
    head = f"---\nname: {name}\ndescription: {json.dumps(line, ensure_ascii=False)}\n---\n"
    introduction = "Strategies learned from earlier runs. Cite the ones you use by their ids."
    return f"{head}\n# {name}\n\n{introduction}\n\n{markdown}\n"


def write_skill_folder(folder: str | Path, markdown: str, name: str, description: str) -> Path:
    """Write `SKILL.md` into a folder, which is made if it is missing. Returns the file."""
    target = Path(folder) / "SKILL.md"
    replace_file(target, skill_file_text(markdown, name, description).encode("utf-8"))
    return target
