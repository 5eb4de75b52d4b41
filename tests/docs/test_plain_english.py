"""Docstrings, help texts, errors and pages are in plain technical English: phrases that once made them odd stay away.

The words to use instead are in CONTRIBUTING.md, under Language.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
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
    | \bas\ (the|its|their)\ [\w ]{1,30}?\ (has|have)\ (it|them)\b | \bsuch\ a\ one\b   # -> as in the source
    | \bwhere\ it\ stands\b | \bstands\ (there|here)\b                   # -> where it is
    | \bwhat\ (came|became|becomes)\ of\b                               # -> the outcome of
    | \blearned\ from\ when\ they\b | \breading\ of\ texts\b               # -> learns from each ... when it ends
    """,
    re.VERBOSE | re.IGNORECASE,
)

EXEMPT: dict[str, str] = {
    # These texts match what people type, or are sent to a small model with which each wording has been measured.
    "ace-core/src/ace/cases/values.py": "a list of words that carry no meaning",
    "ace-core/src/ace/roles/small_models.py": "a list of words that carry no meaning",
    "ace-core/src/ace/roles/prompt_templates/small_model_reflector.md": "the prompt of a small model",
}

REPEATS_NAME = re.compile(r"^ +(\w+): (?:The|A|An) ([\w ]+)\.$", re.MULTILINE)
NAMES_OF_PARTICIPLES = {"each", "told", "given", "held", "untold"}

FOUND = [
    "the file is no TOML",
    "A value that makes no sense",
    "the pages stand in a dictionary",
    "what stands below it",
    "the line where it stands",
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
    "what shall happen to the skills",
    "what became of the skills",
    "Why, in words for people.",
    "a key in the place of the login",
    "each operation is done whole or not at all",
    "the file is left as it is",
    "The longest answer, in tokens.",
    "there is no skillbook 'x'",
    "as its latest changes have it",
    "sessions are learned from when they end",
]
NOT_FOUND = [
    "There is no skillbook.",
    "None if there is no skillbook",
    "your own server",
    "it is no longer there",
    "The number of passes over the inputs.",
    "an amendment",
    "it has no history",
    "understood",
]


def places() -> Iterator[Path]:
    """Everything whose texts people read: the sources of the distributions, and the pages."""
    for folder in distributions():
        for ending in ("py", "md", "html"):
            yield from sorted((folder / "src").rglob(f"*.{ending}"))
        yield folder / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from sorted((ROOT / "examples").rglob("*.md"))
    yield ROOT / "README.md"
    yield ROOT / "CONTRIBUTING.md"


def texts_in(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file with their lines; for Python its text constants, docstrings included, and its comments."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from paragraphs(source)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, " ".join(node.value.split())
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def paragraphs(source: str) -> Iterator[tuple[int, str]]:
    """The paragraphs of a page, each on one line, since a phrase may be broken over two; without quoted code."""
    for found in re.finditer(r"[^\n]+(?:\n[^\n]+)*", source):
        yield source.count("\n", 0, found.start()) + 1, re.sub(r"`[^`]*`", "``", " ".join(found[0].split()))


def odd_phrases(path: Path) -> list[str]:
    name = path.relative_to(ROOT).as_posix()
    return [f"{name}:{line}: {found[0]}" for line, text in texts_in(path) for found in ODD.finditer(text)]


def odd_names(path: Path) -> Iterator[str]:
    """The variables, arguments and functions that a participle or a pronoun names."""
    name = path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES_OF_PARTICIPLES:
            yield f"{name}:{node.lineno}: the variable {node.id}"
        elif isinstance(node, ast.arg) and node.arg in NAMES_OF_PARTICIPLES:
            yield f"{name}:{node.lineno}: the argument {node.arg}"


def repeated_names(path: Path) -> Iterator[str]:
    """The lines of docstrings that say the same as the name before them."""
    for found in REPEATS_NAME.finditer(path.read_text(encoding="utf-8")):
        if found[1].replace("_", " ").lower() == found[2].lower():
            yield f"{path.relative_to(ROOT).as_posix()}: {found[0].strip()}"


def test_the_patterns_find_what_they_are_for_and_nothing_else() -> None:
    assert [phrase for phrase in FOUND if not ODD.search(phrase)] == []
    assert [phrase for phrase in NOT_FOUND if ODD.search(phrase)] == []


def test_texts_have_no_odd_phrases() -> None:
    exempt = {path: odd_phrases(ROOT / path) for path in EXEMPT}
    assert [path for path, found in exempt.items() if not found] == [], "free of odd phrases: remove them from EXEMPT"
    others = (path for path in places() if path.relative_to(ROOT).as_posix() not in EXEMPT)
    assert [phrase for path in others for phrase in odd_phrases(path)] == []


def test_names_say_what_a_variable_contains() -> None:
    sources = [path for path in places() if path.suffix == ".py"]
    assert [name for path in sources for name in odd_names(path)] == []


def test_docstrings_do_not_repeat_the_name_of_a_parameter() -> None:
    sources = [path for path in places() if path.suffix == ".py"]
    assert [line for path in sources for line in repeated_names(path)] == []
