"""Procedures as skill folders after the Agent Skills specification, in the folders that coding agents read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ace.skill import Skill
from ace.skillbook import SKILL_FILE, as_skill_folders
from ace_sleep.projects import LessonFacts
from ace_sleep.shell import harm_of

__all__ = ["SCRIPT", "SKILL_FOLDERS", "files_of"]

SKILL_FOLDERS: Final = (".agents/skills", ".claude/skills")
"""Where agents look for skills. Claude Code only reads the second one."""
SCRIPT: Final = "scripts/run.sh"
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


def files_of(skill: Skill, facts: LessonFacts, root: Path) -> Mapping[str, bytes]:
    """Return the files of the skill folders of a procedure, by their paths in the repository.

    Args:
        skill: The procedure.
        facts: Its steps.
        root: The folder of the repository.

    Raises:
        ValueError: It has no valid name.
    """
    [folder] = as_skill_folders([skill])
    if not _NAME.match(folder.name):
        raise ValueError(f"{folder.name!r} is not a valid name for a skill folder")
    files = {SKILL_FILE: folder.text().encode()}
    if facts.steps and not any(harm_of(step, str(root)) for step in facts.steps):
        files[SCRIPT] = _script(facts.steps).encode()
    return {f"{place}/{folder.name}/{name}": data for place in SKILL_FOLDERS for name, data in files.items()}


def _script(steps: tuple[str, ...]) -> str:
    """Return a script that runs the steps in the folder of the repository, four folders above its own."""
    lines = ["#!/bin/sh", "set -eu", 'cd "$(dirname "$0")/../../../.."', *(f"({step})" for step in steps)]
    return "".join(f"{line}\n" for line in lines)
