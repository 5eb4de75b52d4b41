"""Reads a folder of prompt templates, which replace the built-in ones of the roles."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ace.cli.errors import UsageError

if TYPE_CHECKING:
    from ace.protocols.llm import LLMClientLike

__all__ = ["PromptTemplates", "read_templates"]

_PLACEHOLDER: Final = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class PromptTemplates:
    """The templates in a folder; None for a role without one."""

    agent: str | None = None
    """The template of the agent."""
    reflector: str | None = None
    """The template of the reflector."""
    skill_manager: str | None = None
    """The template of the skill manager."""


def read_templates(folder: str | None, client: LLMClientLike) -> PromptTemplates:
    """Return the templates `agent.md`, `reflector.md` and `skill_manager.md` of a folder, each of which may be missing.

    Args:
        folder: The folder; None for no templates.
        client: The client of the roles, whose model decides which roles check the templates.

    Raises:
        UsageError: The folder or a template cannot be read, a Markdown file has another name, or a role cannot use its
            template. The text names the file and, where it is known, the line.
    """
    if folder is None:
        return PromptTemplates()
    from ace.roles import agent_for, reflector_for, skill_manager_for  # slow to import

    checks: dict[str, Callable[[str], object]] = {
        "agent": lambda text: agent_for(client, text),
        "reflector": lambda text: reflector_for(client, text),
        "skill_manager": lambda text: skill_manager_for(client, text),
    }
    try:
        files = sorted(file for file in Path(folder).iterdir() if file.suffix.lower() == ".md")
    except OSError as error:
        raise UsageError(f"prompts: {folder!r} cannot be read: {error.strerror}; give a folder of templates") from error
    names = ", ".join(f"{role}.md" for role in checks)
    if not files:
        raise UsageError(f"prompts: {folder!r} contains no template; it may contain {names}")
    templates: dict[str, str] = {}
    for file in files:
        if file.stem not in checks:
            raise UsageError(f"prompts: {file}: not the template of a role; the folder may contain {names}")
        templates[file.stem] = text = _text(file)
        try:
            checks[file.stem](text)
        except ValueError as error:
            raise UsageError(f"prompts: {file}{_line_of(text, str(error))}: {error}") from error
    return PromptTemplates(**templates)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"prompts: {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"prompts: {file} cannot be read: it is not UTF-8") from error


def _line_of(text: str, problem: str) -> str:
    """Return the line that an error is about, as it is appended to the name of the file; empty if it is not known."""
    lines = text.splitlines()
    named = _PLACEHOLDER.search(problem)
    for number, line in enumerate(lines, 1):
        if not _is_parsable("\n".join(lines[:number])) or (named is not None and named[0] in line):
            return f", line {number}"
    return ""


def _is_parsable(text: str) -> bool:
    try:
        list(string.Formatter().parse(text))
    except ValueError:
        return False
    return True
