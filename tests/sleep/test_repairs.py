"""What counts as a repair: a command that passes because it leaves out what failed is not one."""

from __future__ import annotations

import pytest

from tests.sleep.conftest import Machine
from tests.support.agent_sessions import (
    DIRECTLY,
    RIGHT,
    RULE,
    Replace,
    Shell,
)

BROKEN = "assert shop.price == 4, 'the price is wrong'"
WRONG_PRICE = "AssertionError: the price is wrong"
SWITCHES = """\
ifdef SKIP
check:
\t@echo ok
else
check:
\t@test -n "$$SKIPPED" || python3 run_tests.py
endif
quick:
\t@echo 0 tests
"""
SWITCHED = {"shop.py": "price = 3\n", "run_tests.py": f"import shop\n{BROKEN}\nprint('ok')\n", "Makefile": SWITCHES}
CASE = "import shop, unittest\n\nclass Case(unittest.TestCase):\n    def test_price(self):\n        "
OTHER = "import unittest\n\nclass Other(unittest.TestCase):\n    def test_other(self):\n        pass\n"
UNITTEST = {"shop.py": "price = 3\n", "test_shop.py": f"{CASE}{BROKEN}\n", "test_other.py": OTHER}
TESTS = "python3 -m unittest -q"


def test_a_check_that_is_switched_off_is_not_repaired(machine: Machine) -> None:
    machine.repo.commit(SWITCHED)
    others = [
        "make check SKIP=1",
        "SKIPPED=1 make check",
        "make check || true",
        "make check >/dev/null 2>&1 || echo checked",
        "make check || cat Makefile shop.py",
        "make check --touch",
        "make --ignore-errors check",
        "make quick",
    ]
    machine.claude(Shell("make check", WRONG_PRICE, 2), *(Shell(other, "ok") for other in others))
    found = machine.sleep()
    assert (found["reasons"], found["lessons"]) == ({"bypass": len(others)}, [])


def test_a_switch_that_the_check_itself_reads_is_seen(machine: Machine) -> None:
    """Both commands read the same files, so only a change of what failed shows that it is not looked at anymore."""
    machine.repo.commit({**SWITCHED, "run_tests.py": f"import os, shop\nif 'SKIP' not in os.environ:\n    {BROKEN}\n"})
    machine.claude(Shell(DIRECTLY, WRONG_PRICE, 1), Shell(f"SKIP=1 {DIRECTLY}"))
    assert machine.sleep()["reasons"] == {"bypass": 1}


def test_a_run_without_the_test_that_failed_is_no_repair(machine: Machine) -> None:
    machine.repo.commit(UNITTEST)
    others = [Shell(f"{TESTS} {options}", "OK") for options in ("-k other", "test_other", "test_o*.py")]
    machine.claude(Shell(TESTS, WRONG_PRICE, 1), *others)
    found = machine.sleep()
    assert (found["reasons"], found["lessons"]) == ({"bypass": 3}, [])


def test_a_setting_with_which_the_same_tests_pass_is_a_repair(machine: Machine) -> None:
    """Nothing more is read than by the command that failed: the tests ran there, too."""
    test = "import os, unittest\n\nclass Case(unittest.TestCase):\n    def test_zone(self):\n"
    test += "        assert os.environ.get('ZONE') == 'UTC', 'the zone is wrong'\n"
    machine.repo.commit({"test_zone.py": test})
    machine.claude(Shell(TESTS, "AssertionError: the zone is wrong", 1), Shell(f"ZONE=UTC {TESTS}", "OK"))
    assert [lesson["text"] for lesson in machine.sleep()["lessons"]] == [
        f"Run `ZONE=UTC {TESTS}`; `{TESTS}` fails here: AssertionError: the zone is wrong."
    ]


def test_what_only_fails_with_the_edits_of_the_session_is_no_rule(machine: Machine) -> None:
    """The agent broke it, and ran something else; in the commit, the command that failed works."""
    machine.repo.commit({**SWITCHED, "shop.py": "price = 4\n", "smoke.py": "print('1 passed')\n"})
    broken = Replace("shop.py", "price = 4", "price = 3")
    machine.claude(broken, Shell(DIRECTLY, WRONG_PRICE, 1), Shell("python3 smoke.py"))
    assert machine.sleep()["reasons"] == {"obsolete": 1}


def test_a_command_that_works_again_later_did_not_need_another_one(machine: Machine) -> None:
    machine.claude(Shell(DIRECTLY, f"RuntimeError: {RULE}", 1), Shell(RIGHT, "1 passed"), Shell(DIRECTLY, "1 passed"))
    assert machine.sleep()["lessons"] == []


def test_the_first_variant_that_is_proven_is_the_lesson(machine: Machine) -> None:
    """What the agent tried to narrow the failure down does not hide the repair, and one failure is one lesson."""
    narrowed = [Shell(f"{DIRECTLY} || true"), Shell("python3 -c pass")]
    machine.claude(
        Shell(DIRECTLY, f"RuntimeError: {RULE}", 1), *narrowed, Shell(RIGHT, "1 passed"), Shell(f"{RIGHT} -s")
    )
    assert [lesson["text"] for lesson in machine.sleep()["lessons"]] == [
        f"Run `{RIGHT}`; `{DIRECTLY}` fails here: RuntimeError: {RULE}."
    ]


GENERATED = {
    "api.txt": "price 3\n",
    "client.py": "# price 3\n",
    "Makefile": "gen:\n\t@sed 's/^/# /' api.txt > client.py\n"
    "check:\n\t@sed 's/^/# /' api.txt | cmp - client.py || { echo 'error: client.py is old'; exit 1; }\n",
}
OLD = Shell("make check", "error: client.py is old", 2)


def test_a_generated_file_that_was_edited_by_hand_is_named_with_its_command(machine: Machine) -> None:
    machine.repo.commit(GENERATED)
    by_hand = Replace("client.py", "price 3", "price 4")
    repair = (Replace("api.txt", "price 3", "price 4"), Shell("make gen"), Shell("make check"))
    machine.claude(by_hand, OLD, Shell("ls"), *repair)
    machine.codex(by_hand, OLD, *repair)
    [lesson] = machine.sleep()["lessons"]
    assert lesson["text"] == (
        "Do not edit `client.py`, which `make gen` writes: change `api.txt`, then run `make gen`."
    )
    assert "grade B" in lesson["evidence"][0]
    assert "seen in 2 sessions" in lesson["evidence"][0]


def test_an_edit_that_needs_a_command_afterwards_is_a_lesson(machine: Machine) -> None:
    machine.repo.commit({**GENERATED, "client.py": "# price 2\n"})
    machine.claude(OLD, Replace("api.txt", "price 3", "price 4"), Shell("make gen"), Shell("make check"))
    [lesson] = machine.sleep()["lessons"]
    # The edit itself was not needed, so the lesson does not name it.
    assert lesson["text"] == "Run `make gen` before `make check`, which otherwise fails: error: client.py is old."


def test_commands_that_were_not_needed_are_not_part_of_the_lesson(machine: Machine) -> None:
    machine.repo.commit(GENERATED)
    acts = (Shell("make -n gen"), Replace("api.txt", "price 3", "price 4"), Shell("make gen"), Shell("mkdir out"))
    machine.claude(Replace("client.py", "price 3", "price 4"), OLD, *acts, Shell("make check"))
    [lesson] = machine.sleep()["lessons"]
    assert lesson["text"].endswith("change `api.txt`, then run `make gen`.")


@pytest.mark.parametrize(
    ("command", "reason"),
    [("rm test_shop.py", "bypass"), ("git checkout shop.py", "bypass"), ("pip install shop", "harmful")],
)
def test_a_command_that_removes_what_failed_or_undoes_the_edits_is_no_repair(
    machine: Machine, command: str, reason: str
) -> None:
    machine.repo.commit({**UNITTEST, "shop.py": "price = 4\n"})
    broken = Replace("shop.py", "price = 4", "price = 3")
    machine.claude(broken, Shell(TESTS, WRONG_PRICE, 1), Shell(command), Shell(TESTS, "OK"))
    assert machine.sleep()["reasons"] == {reason: 1}


def test_an_edit_that_leaves_out_a_test_is_no_repair(machine: Machine) -> None:
    machine.repo.commit({**SWITCHED, "skipped.mk": "\n", "Makefile": f"include skipped.mk\n{SWITCHES}"})
    leaves_out = Replace("skipped.mk", "\n", "SKIP = 1\n")
    machine.claude(Shell("make check", WRONG_PRICE, 2), leaves_out, Shell("make check", "ok"))
    assert machine.sleep()["reasons"] == {"bypass": 1}
