"""What was renamed works under its old name until 0.2, and says at the place of the caller what it is called now."""

from __future__ import annotations

from pathlib import Path

import pytest

import ace
import ace.evaluation
import ace.steps
from tests.support.subprocesses import run_python

REPORTING = """
import warnings
def show(message, category, filename, lineno, file=None, line=None):
    assert category is DeprecationWarning
    print(filename, lineno, message)
warnings.showwarning = show
warnings.simplefilter("always")
"""
"""Code that prints each warning with its place, and does not suppress repeated ones."""

MODULES = {
    "durable_file": ("atomic_file", "replace_file"),
    "implementations": ("roles", "Reflector"),
    "marked_block": ("managed_block", "BEGIN_MARK"),
    "trace_heads": ("sniffing", "head_records"),
}
"""The old names of modules, each with the new one and a name inside it."""
SUBMODULES = {
    "agent": "Agent",
    "helpers": "extract_cited_skill_ids",
    "prompts": "AGENT_PROMPT",
    "reflector": "Reflector",
    "skill_manager": "SkillManager",
    "trace_reading": "read_trace",
}
"""Modules of `ace.implementations`, which is called `ace.roles` now, each with a name inside it."""
MOVED = {
    "ace.cli.learning.interruption": ("ace.cli.signals", "run_interruptibly"),
    "ace.cli.learning.log_lines": ("ace.cli.console", "warnings_shown"),
}
"""Modules that are part of another one now, each with that and a name inside it."""
NAMES = {
    "ace.CopyGuard": "ace.LeakageGuard",
    "ace.steps.CopyGuard": "ace.steps.LeakageGuard",
    "ace.evaluation.ValidationCourse": "ace.evaluation.ValidationSchedule",
    "ace.marked_block.MarkedBlockError": "ace.managed_block.ManagedBlockError",
    "ace.marked_block.read_marked_block": "ace.managed_block.read_managed_block",
    "ace.marked_block.replace_marked_block": "ace.managed_block.replace_managed_block",
    "ace.marked_block.write_marked_block": "ace.managed_block.write_managed_block",
}


def warnings_of(code: str) -> list[str]:
    """Run the code, and return each of its warnings after the number of its line."""
    printed = run_python(f"{REPORTING}exec(compile({code!r}, 'code', 'exec'))").stdout
    return [line.removeprefix("code ") for line in printed.splitlines()]


def now_called(line: int, old: str, new: str) -> str:
    return f"{line} {old} is called {new} now; the old name works until 0.2"


@pytest.mark.parametrize("old", NAMES)
def test_an_old_name_is_the_same_object_and_warns_once(old: str) -> None:
    new = NAMES[old]
    module, _, name = old.rpartition(".")
    new_module, _, new_name = new.rpartition(".")
    code = f"import {new_module} as new\nfrom {module} import (\n    {name},\n)\nassert {name} is new.{new_name}"
    loaded = module not in ("ace", "ace.steps", "ace.evaluation")
    assert warnings_of(code) == [now_called(2, *((module, new_module) if loaded else (old, new)))]


@pytest.mark.parametrize("old", MODULES)
@pytest.mark.parametrize(
    "statement",
    [
        "import ace.{old}",
        "import ace.{old} as old",
        "from ace.{old} import {name}",
        "from ace import {old}",
        "import ace; ace.{old}.{name}",
        "import importlib; importlib.import_module('ace.{old}')",
    ],
)
def test_an_old_module_warns_where_it_is_imported(old: str, statement: str) -> None:
    new, name = MODULES[old]
    assert warnings_of(statement.format(old=old, name=name)) == [now_called(1, f"ace.{old}", f"ace.{new}")]


@pytest.mark.parametrize("old", MODULES)
def test_all_names_of_an_old_module_are_those_of_the_new_one(old: str) -> None:
    new, name = MODULES[old]
    code = f"import ace.{old} as old\nimport ace.{new} as new\nassert old.{name} is new.{name} and dir(old) == dir(new)"
    told = now_called(1, f"ace.{old}", f"ace.{new}")
    assert warnings_of(code) == [told, told.replace("1 ", "3 ", 1)]


@pytest.mark.parametrize("module", SUBMODULES)
@pytest.mark.parametrize(
    "statement",
    [
        "from ace.implementations.{module} import {name}",
        "import ace.implementations.{module}; ace.implementations.{module}.{name}",
        "from ace.implementations import {module}; {module}.{name}",
    ],
)
def test_a_module_inside_of_an_old_package_warns_once_and_has_the_same_objects(module: str, statement: str) -> None:
    name = SUBMODULES[module]
    code = f"{statement.format(module=module, name=name)}\nfrom ace.implementations.{module} import {name} as old"
    code += f"\nfrom ace.roles.{module} import {name} as new\nassert old is new"
    assert warnings_of(code) == [
        now_called(1, "ace.implementations", "ace.roles"),
        now_called(2, f"ace.implementations.{module}", f"ace.roles.{module}"),
    ]


@pytest.mark.parametrize("old", MOVED)
def test_a_module_that_is_part_of_another_one_warns_and_has_the_same_objects(old: str) -> None:
    new, name = MOVED[old]
    code = f"from {old} import {name}\nfrom {new} import {name} as new\nassert {name} is new"
    assert warnings_of(code) == [now_called(1, old, new)]


def test_the_remains_of_a_renamed_package_are_not_taken_for_it(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    (shop / "carts" / "__pycache__").mkdir(parents=True)
    (shop / "baskets.py").write_text("total = 3\n", encoding="utf-8")
    (shop / "__init__.py").write_text(
        "from ace.lazy_exports import old_modules\nold_modules({'shop.carts': 'shop.baskets'})\n", encoding="utf-8"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom shop.carts import total; assert total == 3"
    assert warnings_of(code) == [now_called(2, "shop.carts", "shop.baskets")]


def test_every_use_is_told_of_also_when_the_module_is_loaded() -> None:
    code = "import ace.durable_file\ndef later():\n    from ace.durable_file import replace_file\nlater()"
    told = now_called(1, "ace.durable_file", "ace.atomic_file")
    assert warnings_of(code) == [told, told.replace("1 ", "3 ", 1)]


def test_a_changed_name_of_a_loaded_module_is_told_of_by_itself() -> None:
    code = "import ace.marked_block\nace.marked_block.write_marked_block"
    assert warnings_of(code)[1:] == [
        now_called(2, "ace.marked_block.write_marked_block", "ace.managed_block.write_managed_block")
    ]


def test_a_name_that_an_old_module_never_had_is_named_in_the_error() -> None:
    code = "try:\n    from ace.durable_file import nonsense\nexcept ImportError as error:\n    print(error)"
    assert "cannot import name 'nonsense' from 'ace.durable_file'" in warnings_of(code)[-1]


def test_a_module_that_never_was_is_not_found_under_an_old_name() -> None:
    code = "try:\n    import ace.durable_file.nonsense\nexcept ModuleNotFoundError as error:\n    print(error)"
    assert warnings_of(code)[-1] == "No module named 'ace.durable_file.nonsense'"


def test_old_names_are_not_shown() -> None:
    assert "CopyGuard" not in dir(ace)
    assert "CopyGuard" not in dir(ace.steps)
    assert "ValidationCourse" not in dir(ace.evaluation)


def test_the_main_program_is_told_by_default() -> None:
    # The default filters of Python show the deprecation warnings of __main__, and no others.
    done = run_python("from ace import CopyGuard\nfrom ace.durable_file import replace_file")
    told = [line for line in done.stderr.splitlines() if "DeprecationWarning" in line]
    assert [line.partition(" is called ")[0] for line in told] == [
        "<string>:1: DeprecationWarning: ace.CopyGuard",
        "<string>:2: DeprecationWarning: ace.durable_file",
    ]
