"""Docstrings, help texts, errors and pages are in plain technical English: phrases that once made them odd stay away.

The words to use instead are in CONTRIBUTING.md, under Language.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.layer_drawing import ROOT
from tests.workspace.project import distributions

ODD = re.compile(
    r"""
    (?<!there\ )\b(is|are|was|were)\ no\ (?!longer\b|more\b|less\b|one\b)[a-z`]   # X is no Y -> is not a Y
    | \bmakes?\ no\ sense\b                                               # -> say which values are allowed
    | \b(some|no)body\b | \bwhoever\b                                     # -> the caller, no one, a passive
    | \bfor\ ever\b                                                       # -> indefinitely
    | \b(go|goes|going|went)\ on\b                                        # -> continue, resume
    | \b(take|takes|taken|took)\ back\b | \btaken\ up\ again\b            # -> roll back, resume
    | \bpass(es|ed|ing)?\ over\b(?!\ (all|the|its|them)\b)                   # -> skip; "passes over the inputs" is fine
    | \b(broken|breaks|break)\ off\b                                      # -> interrupted
    | \b(left|leave|leaves|leaving)\ out\b                                # -> omitted, skipped, rejected
    | \bmend(s|ed|ing)?\b                                                 # -> fix
    | \b(stand|stands|standing|stood)\ (in|below|at|above|beside|behind|before|after|for|under|alone)\b | \bstood\b
    | \bin\ sight\b                                                        # -> in the prompt
    | \bso\ (many|much)\ [\w ]+\bat\ most\b | \bbegin\ nothing\b          # -> at most N, stop starting
    | \bwhat\ there\ is\b | \bwants?\ (a|an|whole)\b | \ban\ own\b         # -> a name, requires, your own
    | \btakes?\ (them|it)\ out\b | \bmarked\ invalid\b     # -> read, removed
    | \bthis\ must\ be\b | \bis\ there\ twice\b                             # -> FIELD: must be X, got Y; appears twice
    | \bshall\b | \banybody\b | \bmade\ anew\b | \bin\ one\ go\b           # -> must, anyone, created again
    | \bin\ words\ for\ people\b | \bwhole\ or\ not\ at\ all\b              # -> as text, atomically
    | \bin\ the\ place\ of\b | \bha(s|ve)\ no\ place\b                     # -> instead of, is not supported
    | \bleft\ as\ (it|they)\ (is|are|was|were)\b                        # -> is not changed
    | (?-i:\A\W*there\ (is|are|was|were)\ no\b)                           # an error -> no such file: 'x'
    | \b(longest|most)\ (answer|wait|tokens)\b                           # -> the maximum length, delay, number
    """,
    re.VERBOSE | re.IGNORECASE,
)

EXEMPT: dict[str, str] = {
    "CONTRIBUTING.md": "the table of these phrases",
    # The texts below are part of a prompt or an expression for what people type; models are measured with them.
    "ace-core/src/ace/cases/corrections.py": "words of people that the pattern of a correction matches",
    "ace-core/src/ace/cases/values.py": "a list of words that carry no meaning",
    "ace-core/src/ace/roles/prompt_templates": "prompts: a change of wording has to be measured",
    "ace-core/src/ace/roles/small_models.py": "a list of words that carry no meaning",
    "ace-core/src/ace/deduplication/operations.py": "the prompt that asks about similar skills",
    "ace-core/src/ace/outputs.py": "descriptions of fields, which are part of the prompt",
    "ace-core/src/ace/providers/structured_answers.py": "the prompt that asks for an answer again",
    "ace-core/src/ace/steps/prove.py": "what the reflector is told of a rule that lost a value",
}


def places() -> Iterator[Path]:
    """Everything whose texts people read: the sources of the distributions, and the pages."""
    for folder in distributions():
        yield from sorted((folder / "src").rglob("*.py"))
        yield from sorted((folder / "src").rglob("*.md"))
        yield folder / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from sorted((ROOT / "examples").rglob("*.md"))
    yield ROOT / "README.md"
    yield ROOT / "CONTRIBUTING.md"


def texts_in(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file with their lines; for Python its text constants, docstrings included."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from paragraphs(source)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, " ".join(node.value.split())


def paragraphs(source: str) -> Iterator[tuple[int, str]]:
    """The paragraphs of a page, each on one line, since a phrase may be broken over two."""
    for found in re.finditer(r"[^\n]+(?:\n[^\n]+)*", source):
        yield source.count("\n", 0, found.start()) + 1, " ".join(found[0].split())


def odd_phrases(path: Path) -> list[str]:
    name = path.relative_to(ROOT).as_posix()
    return [f"{name}:{line}: {found[0]}" for line, text in texts_in(path) for found in ODD.finditer(text)]


def exemption_of(path: Path) -> str | None:
    """The entry of `EXEMPT` that holds for a file: its own, or that of a folder above it."""
    name = path.relative_to(ROOT).as_posix()
    return next((place for place in EXEMPT if name == place or name.startswith(f"{place}/")), None)


def test_the_patterns_find_what_they_are_for() -> None:
    phrases = [
        "the file is no TOML",
        "A value that makes no sense",
        "the pages stand in a dictionary",
        "what stands below it",
        "an evaluation goes on where it stopped",
        "so that nobody is asked",
        "whoever reads the file",
        "None waits for ever",
        "an evaluation that was broken off",
        "the changes are taken back",
        "blank lines are passed over",
        "an operation that was left out",
        "mend the marks",
        "with the skills in sight",
        "`ace --help` lists what there is",
        "wants a whole number from 1",
        "with --api-base for an own server",
        "helpful: this must be a whole number",
        "what shall become of the skills",
        "Why, in words for people.",
        "a key in the place of the login",
        "each operation is done whole or not at all",
        "the file is left as it is",
        "The longest answer, in tokens.",
        "there is no skillbook 'x'",
    ]
    assert [phrase for phrase in phrases if not ODD.search(phrase)] == []


def test_the_patterns_leave_plain_english_alone() -> None:
    phrases = [
        "There is no skillbook.",
        "None if there is no skillbook",
        "your own server",
        "it is no longer there",
        "The number of passes over the inputs.",
        "an amendment",
        "it has no history",
        "understood",
    ]
    assert [phrase for phrase in phrases if ODD.search(phrase)] == []


def test_no_text_has_an_odd_phrase_and_every_exemption_is_still_needed() -> None:
    odd = []
    needed = set()
    for path in places():
        if found := odd_phrases(path):
            exemption = exemption_of(path)
            if exemption is None:
                odd += found
            else:
                needed.add(exemption)
    assert odd == []
    assert EXEMPT.keys() - needed == set(), "these are free of odd phrases: remove them from EXEMPT"
