"""Errors are recognised in what compilers and test runners print."""

from __future__ import annotations

import pytest

from ace.loop import errors_in

PYTEST = """\
____________________________ TestSum.test_add[a b] _____________________________
self = <test_sum.TestSum object at 0x7f>
tests/test_sum.py:8:
src/sums.py:3: in add
    raise ValueError("no: x")
src/sums.py:3: ValueError
_____________________ ERROR at setup of test_with_fixture ______________________
tests/test_sum.py:20: RuntimeError
____________________ ERROR collecting tests/test_broken.py _____________________
tests/test_broken.py:1: in <module>
=========================== short test summary info ============================
FAILED tests/test_sum.py::TestSum::test_add[a b] - ValueError: no: x
ERROR tests/test_sum.py::test_with_fixture - RuntimeError
ERROR tests/test_broken.py
FAILED tests/test_other.py::test_without_report
ERROR something that a program has logged
"""

TRACEBACK = """\
Starting
Traceback (most recent call last):
  File "/app/main.py", line 3, in <module>
    run()
    ~~~^^
  File "/app/steps.py", line 17, in run
    raise KeyError("x")
KeyError: 'x'
Done
"""


@pytest.mark.parametrize(
    ("output", "errors"),
    [
        ("src/a.c:3:7: error: expected ';'", ["src/a.c:3:7: error: expected ';' (make)"]),
        ("src/a.c:3:7: fatal error: a.h: No such file", ["src/a.c:3:7: error: a.h: No such file (make)"]),
        (
            "a.py:12: error: Name 'x' is not defined  [name-defined]",
            ["a.py:12: error: Name 'x' is not defined  [name-defined] (make)"],
        ),
        ("a.py:1: note: see\na.py:2: error: b", ["a.py:1: info: see (make)", "a.py:2: error: b (make)"]),
        (
            "src/app.ts(4,12): error TS2307: Cannot find module './b'.",
            ["src/app.ts:4:12: error: TS2307: Cannot find module './b'. (tsc)"],
        ),
        (
            "\x1b[96msrc/app.ts\x1b[0m:\x1b[93m4\x1b[0m:\x1b[93m12\x1b[0m - \x1b[91merror\x1b[0m TS2307: no './b'.",
            ["src/app.ts:4:12: error: TS2307: no './b'. (tsc)"],
        ),
        (
            PYTEST,
            [
                "tests/test_sum.py:8: error: TestSum::test_add[a b] - ValueError: no: x (pytest)",
                "tests/test_sum.py:20: error: test_with_fixture - RuntimeError (pytest)",
                "tests/test_broken.py:1: error: an error in this file (pytest)",
                "tests/test_other.py: error: test_without_report (pytest)",
            ],
        ),
        (TRACEBACK, ["/app/steps.py:17: error: KeyError: 'x' (python)"]),
        (TRACEBACK * 3, ["/app/steps.py:17: error: KeyError: 'x' (python)"]),
        ("make: *** [all] Killed\n\n", ["error: make: *** [all] Killed (make)"]),
        ("a.c:1: warning: unused", ["a.c:1: warning: unused (make)", "error: a.c:1: warning: unused (make)"]),
        ("", ["error: no output (make)"]),
    ],
)
def test_errors_are_recognised(output: str, errors: list[str]) -> None:
    assert [str(error) for error in errors_in(output, "make")] == errors


def test_a_command_that_passed_may_have_warnings_only() -> None:
    assert [str(error) for error in errors_in("a.c:1: warning: b\nok", "cc", status="pass")] == [
        "a.c:1: warning: b (cc)"
    ]
    assert errors_in("ok", status="pass") == []


def test_the_last_lines_are_the_error_if_none_is_recognised() -> None:
    [error] = errors_in("\n".join(f"line {number}" for number in range(100)))
    assert error.message.splitlines() == [f"line {number}" for number in range(90, 100)]


def test_very_many_errors_are_limited() -> None:
    found = errors_in("\n".join(f"a.c:{number}: error: b" for number in range(1, 5000)))
    assert [error.line for error in found] == list(range(1, 101))


def test_a_test_whose_fixture_is_missing_has_its_line_and_reason() -> None:
    output = """\
_________________________ ERROR at setup of test_error _________________________
file /srv/project/tests/test_more.py, line 6
  def test_error(missing): pass
E       fixture 'missing' not found
>       available fixtures: cache, capsys
/srv/project/tests/test_more.py:6
=========================== short test summary info ============================
ERROR tests/test_more.py::test_error
"""
    assert [str(error) for error in errors_in(output, "pytest")] == [
        "tests/test_more.py:6: error: test_error - fixture 'missing' not found (pytest)"
    ]
