"""An option that is declared as CONTRIBUTING.md shows works everywhere: nothing else has to be changed for it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAIN = "import sys; from ace.cli import main; sys.exit(main())"
TYPED = """
from ace.runners import LearningOptions, TraceAnalyser
from ace.steps import learning_tail

def use(roles: object) -> None:
    right: LearningOptions = {"example_limit": 5}
    wrong: LearningOptions = {"example_limit": "five"}
    misspelt: LearningOptions = {"exampel_limit": 5}
    TraceAnalyser.from_roles(reflector=roles, skill_manager=roles, example_limit="five")  # type: ignore[arg-type]
"""
RUN_TIME = """
from ace import LiteLLMClient, TraceAnalyser
client = LiteLLMClient("gpt-4o-mini")
runner = TraceAnalyser.from_client(client, example_limit=5)
print([step.settings.example_limit for step in runner.pipeline.steps if hasattr(step, "settings")])
for keywords in ({"example_limit": 10}, {"exampel_limit": 5}):
    try:
        TraceAnalyser.from_client(client, **keywords)
    except (TypeError, ValueError) as error:
        print(error)
"""


class Tree:
    """A copy of the sources and the documentation, with the diff of CONTRIBUTING.md."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "tree", folder / "home"
        self.home.mkdir()
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for part in ("ace-core/src", "docs"):
            shutil.copytree(ROOT / part, self.root / part, ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", self.root)
        found = re.search(r"```diff\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
        assert found is not None
        self.changed = re.findall(r"^\+\+\+ b/(.+)$", found[1], re.MULTILINE)
        self.run(["git", "apply", "-"], given=found[1], check=True)
        for program in ("docs.generated_options", "docs.command_line_page"):
            self.run([sys.executable, "-m", program], check=True)

    def run(
        self,
        command: list[str],
        *,
        given: str = "",
        folder: Path | None = None,
        check: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> str:
        """Run a program with the sources of the copy, and return what it prints, errors included."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ACE_", "XDG_"))}
        sources = os.pathsep.join((str(self.root / "ace-core/src"), str(self.root)))
        # A copy inside a checkout would otherwise be taken for a part of it by git.
        own = {"PYTHONPATH": sources, "HOME": str(self.home), "GIT_CEILING_DIRECTORIES": str(self.root.parent)}
        done = subprocess.run(
            command,
            input=given,
            cwd=folder or self.root,
            env={**kept, **own, **(variables or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=check,
        )
        return done.stdout

    def ace(self, *arguments: str, settings: str = "", variables: Mapping[str, str] | None = None) -> str:
        """Run a command in a folder with one trace and an `ace.toml`."""
        folder = self.home / "work"
        folder.mkdir(exist_ok=True)
        (folder / "ace.toml").write_text(settings, encoding="utf-8")
        (folder / "trace.json").write_text('{"question": "What?", "answer": "That."}', encoding="utf-8")
        return self.run([sys.executable, "-c", MAIN, *arguments], folder=folder, variables=variables)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return Tree(tmp_path_factory.mktemp("added_option"))


def test_only_its_declaration_and_its_use_are_written_by_hand(tree: Tree) -> None:
    assert tree.changed == ["ace-core/src/ace/steps/tail_settings.py", "ace-core/src/ace/steps/update.py"]


def test_it_is_in_the_help_and_on_the_pages(tree: Tree) -> None:
    assert "--example-limit INT" in tree.ace("learn", "--help-all")
    assert "--example-limit" not in tree.ace("learn", "--help")
    assert "--example-limit INT" in (tree.root / "docs/reference/command-line.md").read_text(encoding="utf-8")
    page = (tree.root / "docs/reference/options.md").read_text(encoding="utf-8")
    assert "`example_limit: int` (a whole number from 1 to 9)" in page and "`ACE_EXAMPLE_LIMIT`" in page


def test_each_source_sets_it_and_is_named_by_ace_config(tree: Tree) -> None:
    def shown(settings: str = "", **variables: str) -> tuple[int, str]:
        found = json.loads(tree.ace("config", "--json", settings=settings, variables=variables))
        setting = found["settings"]["example_limit"]
        return setting["value"], setting["from"].rpartition("/")[2]

    assert shown() == (3, "default")
    assert shown("[learning]\nexample_limit = 4\n") == (4, "ace.toml, line 2")
    assert shown("example_limit = 4\n", ACE_EXAMPLE_LIMIT="5") == (5, "variable ACE_EXAMPLE_LIMIT")


def test_a_value_out_of_range_is_refused_in_the_name_of_its_source(tree: Tree) -> None:
    wanted = "must be a whole number from 1 to 9, got 10"
    assert f"the option --example-limit {wanted}" in tree.ace("learn", "trace.json", "--example-limit", "10")
    assert f"the option --set example_limit {wanted}" in tree.ace("learn", "trace.json", "--set", "example_limit=10")
    assert f"ace.toml, line 1: the setting 'example_limit' {wanted}" in tree.ace(
        "config", settings="example_limit = 10"
    )
    assert f"the variable ACE_EXAMPLE_LIMIT {wanted}" in tree.ace("config", variables={"ACE_EXAMPLE_LIMIT": "10"})


def test_a_misspelt_name_gets_a_hint(tree: Tree) -> None:
    assert "did you mean '--example-limit'?" in tree.ace("learn", "trace.json", "--exampel-limit", "5")
    assert "did you mean 'example_limit'?" in tree.ace("learn", "trace.json", "--set", "exampel_limit=5")
    assert "did you mean 'example_limit'?" in tree.ace("config", settings="exampel_limit = 5")


def test_a_runner_takes_it_as_a_keyword(tree: Tree) -> None:
    lines = tree.run([sys.executable, "-c", RUN_TIME]).splitlines()
    assert lines[0] == "[5, 5, 5]"
    assert lines[1] == "example_limit must be at most 9, got 10"
    assert "unexpected keyword argument 'exampel_limit'; did you mean 'example_limit'?" in lines[2]


def test_mypy_sees_the_keyword_and_its_type(tree: Tree) -> None:
    (tree.home / "use.py").write_text(TYPED, encoding="utf-8")
    variables = {"MYPYPATH": str(tree.root / "ace-core/src")}
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, "--follow-imports", "silent"]
    found = tree.run([*command, "use.py"], folder=tree.home, variables=variables)
    errors = re.findall(r"^use\.py:(\d+): error: (.+)$", found, re.MULTILINE)
    assert [int(line) for line, _ in errors] == [7, 8], found
    assert "example_limit" in errors[0][1] and "exampel_limit" in errors[1][1]


def test_the_generated_modules_and_pages_are_up_to_date() -> None:
    from docs.generated_options import MODULES, PAGE, SOURCE, module, page

    old = [name for name in MODULES if (SOURCE / name).read_text(encoding="utf-8") != module(name)]
    assert (old, PAGE.read_text(encoding="utf-8")) == ([], page()), "run `python -m docs.generated_options`"
