"""One rule for all suggestions: what is misspelt is recognised, and what is merely similar is not suggested."""

from __future__ import annotations

import difflib
import inspect
from pathlib import Path

import pytest

import ace
from ace._internal.arguments import closest_name
from ace.cli.settings import SETTINGS
from ace.plugins.hooks import HOOKS
from ace.providers import LiteLLMClient

ARGUMENTS = [*inspect.signature(LiteLLMClient.__init__).parameters, "skillbook", "skill_manager", "workers"]
OPTIONS = ["--timeout", "--version", "--model", "--workers", "--dry-run", "--json", "--skillbook", "--without-skills"]
IDS = ["maths-00001", "geography-00002", "boats-00012"]
HOOK_NAMES = [f"ace_{kind}" for kind in HOOKS]

MEANT = [
    ("temprature", ARGUMENTS, "temperature"),
    ("max_token", ARGUMENTS, "max_tokens"),
    ("maxTokens", ARGUMENTS, "max_tokens"),
    ("api-key", ARGUMENTS, "api_key"),
    ("apikey", ARGUMENTS, "api_key"),
    ("skill_book", ARGUMENTS, "skillbook"),
    ("workesr", ARGUMENTS, "workers"),
    ("temp", ARGUMENTS, "temperature"),
    ("manager", ARGUMENTS, "skill_manager"),
    ("modelling", ARGUMENTS, "model"),
    ("base_url", ARGUMENTS, "api_base"),
    ("--modle", OPTIONS, "--model"),
    ("--dryrun", OPTIONS, "--dry-run"),
    ("--dry-rnu", OPTIONS, "--dry-run"),
    ("--worker", OPTIONS, "--workers"),
    ("--time-out", OPTIONS, "--timeout"),
    ("--skils-book", OPTIONS, "--skillbook"),
    ("maths-0001", IDS, "maths-00001"),
    ("math-00001", IDS, "maths-00001"),
    ("ace_runner", HOOK_NAMES, "ace_runners"),
]
FAR_OFF = [
    ("opik", ["api_key", *ARGUMENTS]),
    ("out", ["timeout", "--timeout"]),
    ("--out", OPTIONS),
    ("--section", OPTIONS),
    ("--sort", OPTIONS),
    ("--limit", ["--list", *OPTIONS]),
    ("top_k", ARGUMENTS),
    ("zzz", IDS),
    ("history-00003", IDS),
    ("a", ARGUMENTS),
    ("-", OPTIONS),
    ("", ARGUMENTS),
    ("s", ["skillbook"]),
    ("skill", ["skillbook", "skill_manager"]),  # the beginning of two
]


@pytest.mark.parametrize(("name", "known", "meant"), MEANT)
def test_a_misspelt_name_is_recognised(name: str, known: list[str], meant: str) -> None:
    assert closest_name(name, known) == meant


@pytest.mark.parametrize(("name", "known"), FAR_OFF)
def test_a_name_that_is_only_similar_is_not_suggested(name: str, known: list[str]) -> None:
    assert closest_name(name, known) is None


def test_the_order_of_the_names_does_not_matter() -> None:
    assert closest_name("bat", ["cat", "hat"]) == closest_name("bat", ["hat", "cat"])


@pytest.mark.parametrize("name", sorted({*ARGUMENTS, *OPTIONS, *SETTINGS} - {"lag"}))
def test_every_single_mistake_in_a_name_is_recognised(name: str) -> None:
    for place in range(2, len(name)):
        wrong = {
            name[:place] + name[place + 1 :],
            name[:place] + "q" + name[place + 1 :],
            f"{name[:place]}q{name[place:]}",
        }
        assert {closest_name(typo, [name, "unrelated_words"]) for typo in wrong} == {name}


def test_there_is_no_second_rule() -> None:
    """Only the engine, which imports nothing of ace, and the sandbox have their own."""
    sources = Path(ace.__file__).parent.rglob("*.py")
    found = {path.name for path in sources if f"{difflib.get_close_matches.__name__}(" in path.read_text("utf-8")}
    assert found == {"session_difflib.py", "validation.py"}
