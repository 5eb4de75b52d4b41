"""The prompts of the roles: their texts, and what goes into them.

The texts are data files of this package. `PromptTemplate` fills them, and `Fence` marks what is data in them.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Collection, Iterable, Mapping
from importlib.resources import files

from ace.protocols.errors import encodable
from ace.protocols.roles import SkillbookReader
from ace.skillbook.selection import estimate_tokens

__all__ = [
    "AGENT_PROMPT",
    "REFLECTOR_PROMPT",
    "SKILLBOOK_USAGE_INSTRUCTIONS",
    "SKILL_MANAGER_PROMPT",
    "SMALL_MODEL_AGENT_PROMPT",
    "SMALL_MODEL_REFLECTOR_PROMPT",
    "SMALL_MODEL_SKILL_MANAGER_PROMPT",
    "Fence",
    "PromptTemplate",
    "skillbook_for_prompt",
    "wrap_skillbook_context",
    "wrap_skillbook_for_external_agent",
]


def _text(name: str) -> str:
    return files("ace.implementations").joinpath("prompt_templates", name).read_text(encoding="utf-8")


AGENT_PROMPT = _text("agent.md")
"""Placeholders: question (needed), context, skillbook, reflection, current_date."""

REFLECTOR_PROMPT = _text("reflector.md")
"""Placeholders: question or trace (one is needed), reasoning, answer, ground_truth, feedback,
skillbook_excerpt."""

SKILL_MANAGER_PROMPT = _text("skill_manager.md")
"""Placeholders: reflection (needed), skillbook, stats, progress, question_context."""

SMALL_MODEL_AGENT_PROMPT = _text("small_model_agent.md")
"""As AGENT_PROMPT, for models of one or two billion parameters; `SmallModelAgent` omits the sections that are empty."""

SMALL_MODEL_REFLECTOR_PROMPT = _text("small_model_reflector.md")
"""As REFLECTOR_PROMPT, for models of one or two billion parameters; the trace is the record of one correction."""

SMALL_MODEL_SKILL_MANAGER_PROMPT = SKILL_MANAGER_PROMPT
"""The name of `SKILL_MANAGER_PROMPT` from when small models were asked for sections."""

SKILLBOOK_USAGE_INSTRUCTIONS = _text("skillbook_usage.md").strip()
"""Tells an agent of another framework how to use the skills that follow."""


def wrap_skillbook_for_external_agent(skillbook: SkillbookReader, budget_tokens: int | None = None) -> str:
    """Turn the skills of a book into text for the prompt of an agent of another framework.

    Args:
        skillbook: The skills.
        budget_tokens: The maximum size of the skills, in tokens; None takes all of them.

    Returns:
        Instructions and skills; an empty string if the book has no skills.
    """
    skills = skillbook.as_prompt() if budget_tokens is None else skillbook.as_prompt(budget_tokens=budget_tokens)
    return f"{SKILLBOOK_USAGE_INSTRUCTIONS}\n\n{skills}" if skills.strip() else ""


wrap_skillbook_context = wrap_skillbook_for_external_agent

_SECTION_START = re.compile(r"^(?=#+ )", re.MULTILINE)


class PromptTemplate:
    """A text with placeholders such as `{question}`. Literal braces are doubled.

    Values are put in as they are: braces in a value mean nothing.

    Args:
        text: The template.
        role: The role that it is for; named in errors.
        known: The placeholders that the role fills.
        needed: Placeholders of which at least one must be there.

    Raises:
        ValueError: A placeholder is unknown or malformed, or none of the needed ones is there.

    Example:
        >>> template = PromptTemplate("Q: {question}", role="Agent", known=["question"], needed=["question"])
        >>> template.fill({"question": "What is {x}?"})
        'Q: What is {x}?'
    """

    def __init__(self, text: str, *, role: str, known: Collection[str], needed: Collection[str]) -> None:
        self.text = text
        self._role = role
        self._pieces = _parsed(text, role)
        self.placeholders = frozenset(name for _, name in self._pieces if name is not None)
        unknown = sorted(self.placeholders.difference(known))
        if unknown:
            raise ValueError(
                f"the prompt template of {role} has the unknown placeholder "
                f"{_shown(unknown)}; it may use {_shown(known)}. Double literal braces: "
                "{{ and }}"
            )
        if not self.placeholders.intersection(needed):
            raise ValueError(
                f"the prompt template of {role} lacks the placeholder {_shown(needed, ' or ')}; "
                "without it the model would not see what to work on"
            )

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with every placeholder replaced, in a form that can be sent.

        Args:
            values: A text for each placeholder.
        """
        return encodable(_filled(self._pieces, values))

    def fill_needed(self, values: Mapping[str, str]) -> str:
        """Return the text filled like `fill`, without the sections that would say nothing.

        A section is a heading (a line that starts with `#` and a blank) and what follows up to the next one. Where all
        of its placeholders would be empty, it is omitted; in any other section, `(none)` is put in for an empty text.

        Args:
            values: A text for each placeholder; it may be empty.

        Example:
            >>> text = "Help.\\n# Notes\\n{context}\\n# Task\\n{question}"
            >>> template = PromptTemplate(text, role="Agent", known=["context", "question"], needed=["question"])
            >>> template.fill_needed({"context": "", "question": "2+2?"})
            'Help.\\n# Task\\n2+2?'
        """
        shown = {name: text or "(none)" for name, text in values.items()}
        sections = [_parsed(part, self._role) for part in _SECTION_START.split(self.text)]
        needed = (pieces for pieces in sections if _says_something(pieces, values))
        return encodable("".join(_filled(pieces, shown) for pieces in needed))


_Pieces = list[tuple[str, str | None]]
"""Pairs of literal text and the placeholder that follows it."""


def _filled(pieces: _Pieces, values: Mapping[str, str]) -> str:
    return "".join(literal + (values[name] if name is not None else "") for literal, name in pieces)


def _says_something(pieces: _Pieces, values: Mapping[str, str]) -> bool:
    names = [name for _, name in pieces if name is not None]
    return not names or any(values[name] for name in names)


def _parsed(text: str, role: str) -> _Pieces:
    try:
        parsed = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ValueError(
            f"the prompt template of {role} cannot be parsed: {error}. Double literal braces: {{{{ and }}}}"
        ) from error
    pieces: _Pieces = []
    for literal, name, form, conversion in parsed:
        if name is not None and (form or conversion or not name.isidentifier()):
            raise ValueError(
                f"the prompt template of {role} has the placeholder {_written(name, form, conversion)}; only plain "
                "names such as {question} are allowed. Double literal braces: {{ and }}"
            )
        pieces.append((literal, name))
    return pieces


def _written(name: str, form: str | None, conversion: str | None) -> str:
    """Return a placeholder as it is written in the template."""
    return f"{{{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}}}"


def _shown(names: Collection[str], joint: str = ", ") -> str:
    return joint.join(f"{{{name}}}" for name in names)


class Fence:
    """Marks texts as data. The mark occurs in none of them, so none can close its fence.

    The mark is made from the texts: equal texts get equal prompts.

    Args:
        texts: Every text that will be fenced.
        shortest: The least number of hexadecimal digits in the mark; it grows until no text has it.

    Example:
        >>> Fence(["hello"]).around("hello")
        '<data-2cf24dba>\\nhello\\n</data-2cf24dba>'
    """

    def __init__(self, texts: Iterable[str], *, shortest: int = 8) -> None:
        held = list(texts)
        digest = hashlib.sha256("\0".join(held).encode("utf-8", "backslashreplace")).hexdigest()
        length = shortest
        while any(digest[:length] in text for text in held) and length < len(digest):
            length += 1
        self.tag = f"data-{digest[:length]}"

    def around(self, text: str) -> str:
        """Return the text between an opening and a closing mark.

        Args:
            text: One of the texts that the fence was made for.
        """
        return f"<{self.tag}>\n{text}\n</{self.tag}>"


_MOST_TOKENS = 20_000
_LONGEST_QUERY = 2000


def skillbook_for_prompt(skillbook: SkillbookReader, query: str) -> str:
    """Return all skills, or, of a book that is too large, the ones that fit the query best.

    Args:
        skillbook: The skills.
        query: What the skills are needed for.
    """
    whole = skillbook.as_prompt()
    if estimate_tokens(whole) <= _MOST_TOKENS:
        return whole
    return skillbook.as_prompt(budget_tokens=_MOST_TOKENS, query=query[:_LONGEST_QUERY])
