"""What counts as a repair: a command that passes because it leaves out what failed is not one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace_sleep.repairs import changes_where_it_failed
from ace_sleep.sandbox import Place
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
    """Two sessions about different settings, whose errors differ, show the same."""
    check = "check:\n\t@sed 's/^/# /' api.txt | diff - client.py > found || { grep '^>' found; exit 1; }\n"
    both = "{0}price 3\n{0}weight 3\n"
    makefile = GENERATED["Makefile"].partition("check:")[0] + check
    machine.repo.commit({"api.txt": both.format(""), "client.py": both.format("# "), "Makefile": makefile})
    for agent, name in ((machine.claude, "price"), (machine.codex, "weight")):
        old, new = f"{name} 3", f"{name} 4"
        failed = Shell("make check", f"> # {new}\nmake: *** [Makefile:4: check] Error 1", 2)
        repair = (Replace("api.txt", old, new), Shell("make gen"), Shell("make check"))
        agent(Replace("client.py", f"# {old}", f"# {new}"), failed, Shell("ls"), *repair)
    [lesson] = machine.sleep()["lessons"]
    assert lesson["text"] == "Do not edit `client.py`, which `make gen` writes: change `api.txt`, then run `make gen`."
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


PLACES = {
    "python": 'Traceback (most recent call last):\n  File "{0}/run.py", line 1, in <module>\n'
    '  File "{0}/a/test_x.py", line 2, in test\nAssertionError: wrong',
    "python below make": '  File "{0}/a/test_x.py", line 2, in test\nAssertionError: wrong\n'
    "make: *** [Makefile:1: check] Error 1",
    "pytest": ">       assert x == 4\nE       AssertionError: wrong\n\na/test_x.py:2: AssertionError",
    "node": "{0}/a/test_x.py:2\n    throw\n\nError: wrong\n    at test ({0}/a/test_x.py:2:9)\n    at {0}/run.py:1:1",
    "go": "--- FAIL: TestX (0.00s)\n    a/test_x.py:2: wrong",
    "rust": "thread 'x' panicked at a/test_x.py:2:5:\nassertion failed: wrong\nnote: run with `RUST_BACKTRACE=1`",
}


@pytest.mark.parametrize("name", PLACES)
def test_the_place_of_a_failure_is_found_in_the_output_of_many_programs(tmp_path: Path, name: str) -> None:
    root, tree = tmp_path / "shop", tmp_path / "copy" / "tree"
    for path, text in {"run.py": "main(1)\n", "a/test_x.py": "x = 3\nassert x == 4\n", "Makefile": "a: 1\n"}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text, encoding="utf-8")
    output = PLACES[name].replace("{0}", str(root))
    found = changes_where_it_failed(output, "wrong", Place(root=root, tree=tree, objects=tree), "")
    assert {change.path for change in found} == {"a/test_x.py"}
    assert [change.text for change in found] == ["assert x != 4\n", "assert x == 5\n"]


def test_a_place_outside_of_the_repository_is_not_changed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tmp_path / "private.py").write_text("x = 1\n", encoding="utf-8")
    (tree / "link.py").symlink_to(tmp_path / "private.py")
    place = Place(root=tree, tree=tree, objects=tree)
    (tree / "own.py").write_text("x = 1\n", encoding="utf-8")
    names = ("../private.py:1", "link.py:1", f"{tmp_path}/private.py:1", "missing.py:1", "own.py:0", "own.py:2")
    for named in (*names, f"own.py:{'9' * 5000}", f"{'own.py' * 100_000}:1"):
        assert changes_where_it_failed(f"{named}: wrong", "wrong", place, "") == []


def test_the_rest_of_a_file_that_is_changed_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "own.c").write_bytes(b"\xff\x0c\r\nx = 1;\xe9\r\n" + b"9" * 5000)
    place = Place(root=tmp_path, tree=tmp_path, objects=tmp_path)
    [change] = changes_where_it_failed("own.c:2: wrong", "wrong", place, "")
    change.apply(tmp_path)
    assert (tmp_path / "own.c").read_bytes() == b"\xff\x0c\r\nx = 2;\xe9\r\n" + b"9" * 5000
    assert changes_where_it_failed("own.c:3: wrong", "wrong", place, "") == []
