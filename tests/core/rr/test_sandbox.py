"""The session of the recursive reflector: what code in it can do, and what comes back."""

import importlib.util
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ace._internal.json_fields import JsonValue
from ace.rr import SandboxError, SandboxLimits, TraceSandbox
from tests.core.rr.short_limits import ShortSandbox, ran
from tests.requirement import missing

TRACE: dict[str, object] = {
    "question": "Does it build?",
    "ground_truth": None,
    "feedback": "No.",
    "steps": [
        {"kind": "thought", "name": "", "content": "I try make.", "is_error": False, "place": "1"},
        {"kind": "call", "name": "bash", "content": "make", "is_error": False, "place": "2"},
        {"kind": "result", "name": "bash", "content": "cc: ok\nld: no such file", "is_error": True, "place": "3"},
    ],
}


@pytest.fixture(autouse=True)
def _needs_monty() -> None:
    if importlib.util.find_spec("pydantic_monty") is None:
        missing("rr", "pydantic-monty is not installed: pip install 'ace-core[rr]'")


def printed(code: str, trace: dict[str, object] = TRACE, **options: Any) -> str:
    with TraceSandbox(trace, **options) as sandbox:
        result = sandbox.execute(code)
    assert result.error == ""
    return result.stdout.strip()


def test_code_prints_and_variables_persist() -> None:
    with TraceSandbox(TRACE) as sandbox:
        first = sandbox.execute("found = [step.place for step in trace.get_errors()]")
        second = sandbox.execute("print(found)")
    assert (first.stdout, first.error, first.has_final, first.final, first.session_lost) == ("", "", False, None, False)
    assert second.stdout == "['3']\n"
    assert second.seconds > 0


def test_an_error_is_a_traceback_and_keeps_the_variables() -> None:
    with TraceSandbox(TRACE) as sandbox:
        failed = sandbox.execute("x = 5\nprint('before')\nx / 0\nprint('after')")
        after = sandbox.execute("print(x)")
    assert failed.stdout == "before\n"
    assert "line 3" in failed.error and failed.error.endswith("ZeroDivisionError: division by zero")
    assert not failed.session_lost
    assert after.stdout == "5\n"


@pytest.mark.parametrize(
    ("code", "construct"),
    [
        ("class Words(list): pass", "class inheritance"),
        ("def numbers():\n    yield 1", "yield"),
        ("x = 1\ndel x", "'del' statement"),
        ("from json import *", "Wildcard imports"),
        ("import socket", "No module named 'socket'"),
    ],
)
def test_an_unsupported_construct_is_named(code: str, construct: str) -> None:
    with TraceSandbox(TRACE) as sandbox:
        result = sandbox.execute(code)
        assert construct in result.error
        assert sandbox.execute("print(1)").stdout == "1\n"


def test_a_syntax_error_is_shown() -> None:
    with TraceSandbox(TRACE) as sandbox:
        assert "SyntaxError" in sandbox.execute("if True print(1)").error


def test_the_data_is_there_by_name() -> None:
    code = "print(traces['question'], traces['ground_truth'], len(traces['steps']), skillbook, batch_items, item_ids)"
    assert printed(code, skillbook="[a-1] Check.") == "Does it build? None 3 [a-1] Check. {} []"


@pytest.mark.parametrize("count", [15, 16, 17, 100])
def test_all_steps_of_a_long_trace_are_there_in_order(count: int) -> None:
    steps = [{"content": f"step {number}", "place": str(number)} for number in range(count)]
    with TraceSandbox({"question": "Why?", "steps": steps, "answer": "So."}) as sandbox:
        done = sandbox.execute(
            "print(list(traces), [step['place'] for step in traces['steps']] == [str(n) for n in range(len(trace))])\n"
            "print(len(trace), trace.steps[-1].content)"
        )
    assert done.stdout == f"['question', 'steps', 'answer'] True\n{count} step {count - 1}\n"


def test_a_batch_is_there_by_id() -> None:
    batch = {"run-1": TRACE, "run-2": {"question": "Again?"}}
    code = "print(item_ids, batch_items['run-2'], TraceContext(batch_items['run-1']).get_step(1).action)"
    assert printed(code, {}, batch=batch) == "['run-1', 'run-2'] {'question': 'Again?'} bash"


def test_the_trace_has_its_methods_length_and_iteration_in_the_session() -> None:
    code = """
print(len(trace), len(trace.steps), trace[-1].place, [step.index for step in trace], [s.kind for s in trace.steps[:2]])
print(trace.find_steps("NO SUCH")[0].index, trace.find_steps_regex("ld: .* file")[0].observation)
print(trace.get_actions("bash"), trace.get_errors(), trace.get_step(0).thought, trace.steps[0].preview(8))
print(trace.search_raw("no such"), 2 in [step.index for step in trace], trace)
print(trace.summary())
print(trace.to_markdown())
"""
    assert printed(code).splitlines()[:6] == [
        "3 3 3 [0, 1, 2] ['thought', 'call']",
        "2 cc: ok",
        "ld: no such file",
        "[<step 1: call bash, 4 characters>] [<step 2: result bash (failed), 23 characters>] I try make. I tr ...",
        "['steps[2].content: ld: no such file'] True <trace of 3 steps>",
        "3 steps (1 call, 1 result, 1 thought), 1 of them failed, 38 characters",
    ]


def test_a_submitted_value_comes_back_as_json() -> None:
    with TraceSandbox(TRACE) as sandbox:
        result = sandbox.execute("FINAL({'a': [1, 2.5, None, True, 'é'], 'b': (1,)})")
        later = sandbox.execute("print(1)")
    assert result.has_final and result.final == {"a": [1, 2.5, None, True, "é"], "b": [1]}
    assert not later.has_final


def test_a_variable_is_submitted_by_its_name() -> None:
    with TraceSandbox(TRACE) as sandbox:
        sandbox.execute("findings = {'why': 'no file'}")
        assert sandbox.execute("FINAL_VAR('findings')").final == {"why": "no file"}
        unknown = sandbox.execute("FINAL_VAR('finding')")
        value = sandbox.execute("FINAL_VAR(findings)")
    assert "no variable is named 'finding'; SHOW_VARS() lists the variables" in unknown.error
    assert "FINAL_VAR takes the name of a variable" in value.error
    assert not unknown.has_final and not value.has_final


def test_none_can_be_submitted() -> None:
    with TraceSandbox(TRACE) as sandbox:
        result = sandbox.execute("FINAL(None)")
    assert result.has_final and result.final is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("{1, 2}", "set is not JSON serializable"),
        ("float('nan')", "NaN is not JSON"),
        ("'x' * 1_000_000", "the limit is 1,000,000"),
    ],
)
def test_a_value_that_is_not_json_or_too_long_is_an_error_in_the_session(value: str, problem: str) -> None:
    with TraceSandbox(TRACE) as sandbox:
        result = sandbox.execute(f"FINAL({value})")
    assert problem in result.error
    assert not result.has_final


def test_variables_are_listed_without_what_was_given() -> None:
    code = "count = 3\nnames = ['a', 'b']\n_hidden = 1\nSHOW_VARS()"
    assert printed(code) == "count: int\nnames: list, length 2"
    assert printed("SHOW_VARS()") == "no variables"


def test_a_host_function_gets_and_returns_json_values() -> None:
    seen: list[object] = []

    def ask_llm(question: str, context: str = "", mode: str = "analysis") -> JsonValue:
        seen.append((question, context, mode))
        return {"answer": ["forty", 2]}

    code = "reply = ask_llm('How many?', mode='deep_dive')\nprint(reply['answer'][1])"
    assert printed(code, functions={"ask_llm": ask_llm}) == "2"
    assert seen == [("How many?", "", "deep_dive")]


def test_an_error_of_a_host_function_is_an_error_in_the_session() -> None:
    def ask_llm(question: str) -> JsonValue:
        raise TimeoutError("no answer within 60 s")

    code = "try:\n    ask_llm('a')\nexcept RuntimeError as error:\n    print(error)"
    with TraceSandbox(TRACE, functions={"ask_llm": ask_llm}) as sandbox:
        assert sandbox.execute(code).stdout == "ask_llm failed: TimeoutError: no answer within 60 s\n"
        uncaught = sandbox.execute("ask_llm('a')")
        assert uncaught.error.endswith("RuntimeError: ask_llm failed: TimeoutError: no answer within 60 s")
        assert not uncaught.session_lost
        assert "missing 1 required positional argument" in sandbox.execute("ask_llm()").error


class Stopped(BaseException):
    """What a budget or a cancellation raises."""


@pytest.mark.parametrize("stop", [Stopped("budget"), KeyboardInterrupt()], ids=["own", "keyboard"])
def test_what_is_not_an_ordinary_error_reaches_the_caller_unchanged(stop: BaseException) -> None:
    def ask_llm(question: str) -> JsonValue:
        raise stop

    swallowing = "while True:\n    try:\n        ask_llm('a')\n    except BaseException:\n        pass"
    with TraceSandbox(TRACE, functions={"ask_llm": ask_llm}) as sandbox:
        with pytest.raises(type(stop)) as caught:
            sandbox.execute(swallowing)
        assert caught.value is stop
        assert sandbox.execute("print(len(trace))").stdout == "3\n"


def test_a_host_function_may_use_another_sandbox() -> None:
    def nested(text: str) -> JsonValue:
        return printed(f"print({text!r})")

    assert printed("print(nested('inner'))", functions={"nested": nested}) == "inner"


def test_the_time_limit_ends_the_session_and_the_next_code_has_a_fresh_one() -> None:
    begun = threading.Event()
    limits = SandboxLimits(seconds=0.5)
    endless = "print('begun')\ntell()\nwhile True:\n    try: pass\n    except BaseException: pass"
    with ShortSandbox(TRACE, limits=limits, functions={"tell": begun.set}) as sandbox:
        while not begun.is_set():  # on a busy machine, the limit may be reached before that
            ran(sandbox, "x = 1")
            result = sandbox.execute(endless)
        after = ran(sandbox, "print(len(trace))\nprint(x)")
    assert result.session_lost and result.error == "TimeoutError: the code ran longer than 0.5 seconds"
    assert result.stdout == "begun\n"
    assert after.stdout == "3\n" and "NameError: name 'x' is not defined" in after.error
    assert not after.session_lost


def test_the_memory_limit_ends_the_session() -> None:
    with TraceSandbox(TRACE, limits=SandboxLimits(memory=32 * 1024 * 1024)) as sandbox:
        result = sandbox.execute("x = []\nwhile True:\n    x.append('a' * 1000000)")
        assert result.session_lost
        assert result.error == "MemoryError: the session needed more than 33,554,432 bytes of memory"
        assert sandbox.execute("print(1)").stdout == "1\n"


def test_recursion_is_an_error_of_the_code() -> None:
    with TraceSandbox(TRACE, limits=SandboxLimits(recursion=60)) as sandbox:
        result = sandbox.execute("def f(n):\n    return f(n + 1)\nf(0)")
        assert "RecursionError" in result.error and not result.session_lost


def test_the_depth_of_recursion_is_limited() -> None:
    code = "def f(n):\n    return n and f(n - 1)\nprint(f({depth}))"
    for limits, depth in ((SandboxLimits(recursion=60), 40), (SandboxLimits(), 350)):
        with TraceSandbox(TRACE, limits=limits) as sandbox:
            assert sandbox.execute(code.replace("{depth}", str(depth))).stdout == "0\n"
            assert "RecursionError" in sandbox.execute(code.replace("{depth}", str(depth + 60))).error


def test_errors_that_the_code_raises_itself_are_not_limits() -> None:
    with TraceSandbox(TRACE) as sandbox:
        assert not sandbox.execute("raise TimeoutError('own')").session_lost
        assert not sandbox.execute("raise MemoryError('own')").session_lost


def test_output_is_cut_off_at_the_limit_and_the_code_continues() -> None:
    with TraceSandbox(TRACE, limits=SandboxLimits(output_characters=10)) as sandbox:
        result = sandbox.execute("for i in range(100): print(i)\ndone = True")
        assert result.stdout == "0\n1\n2\n3\n4\n\n[output cut off at 10 characters]\n"
        assert sandbox.execute("print(done)").stdout == "True\n"
        assert sandbox.execute("print('a' * 9)").stdout == "a" * 9 + "\n"


def test_code_that_prints_very_much_loses_its_session() -> None:
    with TraceSandbox(TRACE, limits=SandboxLimits(output_characters=100)) as sandbox:
        result = sandbox.execute("for i in range(11): print('ab' * 500_000)")
    assert result.session_lost and result.error == "RuntimeError: the code printed more than 10,000,400 bytes"
    assert result.stdout == "ab" * 50 + "\n[output cut off at 100 characters]\n"


def test_a_long_error_is_cut_in_the_middle() -> None:
    with TraceSandbox(TRACE, limits=SandboxLimits(output_characters=100)) as sandbox:
        error = sandbox.execute("raise ValueError('a' * 1000 + 'end')").error
    assert error.startswith("Traceback") and error.endswith("aend") and len(error) < 120


def test_host_calls_are_limited_in_each_execution() -> None:
    count = itertools.count()
    with TraceSandbox(TRACE, limits=SandboxLimits(host_calls=10), functions={"f": lambda: next(count)}) as sandbox:
        for _ in range(3):
            assert not sandbox.execute("for i in range(9): f()").session_lost
        result = sandbox.execute("for i in range(1000): f()")
        assert result.session_lost and result.error == "RuntimeError: the code called the host more than 10 times"
        assert sandbox.execute("print(f())").session_lost is False
    assert next(count) < 9 * 3 + 10 + 2


def test_the_time_of_a_host_function_does_not_count() -> None:
    waited = threading.Event()
    with ShortSandbox(
        TRACE, limits=SandboxLimits(seconds=1.0), functions={"wait": lambda: waited.wait(1.5)}
    ) as sandbox:
        result = ran(sandbox, "wait()\nprint('done')")
    assert result.stdout == "done\n" and result.seconds > 1.4


def test_a_trace_that_does_not_fit_is_an_error_that_says_so() -> None:
    large: dict[str, object] = {"steps": ["a" * 1000] * 30_000}
    with (
        pytest.raises(
            SandboxError, match=r"the trace of 30,1\d\d,\d\d\d characters within 30 seconds and 16,777,216 bytes"
        ),
        TraceSandbox(large, limits=SandboxLimits(memory=16 * 1024 * 1024)),
    ):
        pass


def test_eight_sessions_at_once_do_not_wait_for_each_other() -> None:
    barrier = threading.Barrier(8)

    def meet() -> JsonValue:  # returns only when all eight sessions are inside it
        return barrier.wait(60)

    results: list[str] = []

    def run() -> None:
        results.append(printed("print(meet() < 8)", functions={"meet": meet}))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["True"] * 8


def test_two_sessions_of_the_same_code_print_the_same() -> None:
    code = """
import datetime, random, time
def f(): pass
print(random.random(), time.time(), datetime.datetime.now(), {'b', 'a', 'c'}, hash('a'), f, id(trace))
"""
    program = f"from ace.rr import TraceSandbox\nwith TraceSandbox({{}}) as s: print(s.execute({code!r}))"
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True) for _ in range(2)]
    first, second = (run.stdout.split("seconds=")[0] for run in runs)
    assert first == second
    assert "2000-01-01" in first


def test_traces_of_odd_values_can_be_loaded() -> None:
    class Custom:
        pass

    trace: dict[str, object] = {"bad": "a\ud800b", "set": {2, 1}, "object": Custom(), "number": float("inf")}
    assert printed("print(traces)", trace) == ("{'bad': 'a?b', 'set': [1, 2], 'object': '<Custom>', 'number': inf}")


def test_a_sandbox_is_only_usable_in_its_with_statement() -> None:
    sandbox = TraceSandbox(TRACE)
    with pytest.raises(RuntimeError, match="inside its 'with' statement"):
        sandbox.execute("print(1)")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SandboxLimits(seconds=0), "seconds must be a finite number above 0, got 0"),
        (lambda: SandboxLimits(seconds=float("nan")), "seconds must be a finite number above 0, got nan"),
        (lambda: SandboxLimits(memory=5), "memory must be at least 1048576"),
        (lambda: SandboxLimits(output_characters=0), "output_characters must be at least 1"),
        (lambda: SandboxLimits(host_calls=0), "host_calls must be at least 1"),
        (lambda: SandboxLimits(recursion=1), "recursion must be at least 50"),
        (lambda: TraceSandbox({}, functions={"_f": lambda: 1}), "without a leading '_', got '_f'"),
    ],
)
def test_wrong_arguments_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
