"""Hostile code in a session: it reads, writes and sends nothing, is stopped at its limits, and the host survives."""

import importlib.util
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ace._internal.json_fields import JsonValue
from ace.protocols.llm import LLMResponse
from ace.rr import SandboxLimits, SubAgentLLM, TraceSandbox
from tests.core.rr.short_limits import ShortSandbox, ran
from tests.requirement import missing

SECRET = "the-secret-of-the-host"

READS_AND_WRITES = {
    "open a file": "print(open(SECRET_FILE).read())",
    "open a file for writing": "open(FOLDER + '/new', 'w').write('x')",
    "pathlib": "from pathlib import Path\nprint(Path(SECRET_FILE).read_text())",
    "pathlib writes": "from pathlib import Path\nPath(FOLDER + '/new').write_text('x')",
    "list a folder": "import os\nprint(os.listdir(FOLDER))",
    "iterate over a folder": "from pathlib import Path\nprint(list(Path(FOLDER).iterdir()))",
    "a relative path": "import os\nos.chdir(FOLDER)\nprint(open('secret').read())",
    "a path that goes up": "print(open('/../../../../..' + SECRET_FILE).read())",
    "the processes of the machine": "print(open('/proc/self/environ').read())",
    "environment": "import os\nprint(os.environ)\nprint(os.environ['ACE_TEST_SECRET'])",
    "getenv": "import os\nprint(os.getenv('ACE_TEST_SECRET'))",
    "a shell": "import os\nprint(os.system('touch ' + FOLDER + '/new'))",
    "popen": "import os\nprint(os.popen('cat ' + SECRET_FILE).read())",
    "a process": "import subprocess\nprint(subprocess.check_output(['cat', SECRET_FILE]))",
    "fork": "import os\nos.fork()",
    "kill": "import os\nos.kill(os.getppid(), 9)",
    "exec": "import os\nos.execv('/bin/sh', ['sh', '-c', 'touch ' + FOLDER + '/new'])",
    "a socket": "import socket\nsocket.create_connection(('127.0.0.1', PORT)).send(b'x')",
    "http": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:' + str(PORT))",
    "asyncio": "import asyncio\nasyncio.run(asyncio.open_connection('127.0.0.1', PORT))",
    "a library of the host": "import ctypes\nctypes.CDLL(None).system(b'true')",
    "the code of the host": "import ace\nprint(ace.__file__)",
    "a module by its name": "__import__('os').system('touch ' + FOLDER + '/new')",
    "a module in evaluated code": "eval(\"__import__('os').system('true')\")",
    "an import in executed code": "exec('import subprocess')",
    "all classes": "print(().__class__.__base__.__subclasses__())",
    "the globals of a function": "def f(): pass\nprint(f.__globals__)",
    "the code of a function": "print(TraceContext.__init__.__code__)",
    "the frames of a traceback": "try:\n    1 / 0\nexcept Exception as e:\n    print(e.__traceback__.tb_frame.f_back)",
    "the frame": "import sys\nprint(sys._getframe(0).f_back)",
    "modules of the interpreter": "import sys\nprint(sys.modules['os'].environ)",
    "attributes in a format": "print('{0.__class__.__init__.__globals__}'.format(trace))",
    "attributes of a module": "import statistics\nprint(statistics.__dict__, statistics.__loader__)",
    "attributes of a host function": "print(_host.__globals__)",
    "pickle": "import pickle\npickle.loads(b\"cos\\nsystem\\n(S'true'\\ntR.\")",
    "input": "print(input())",
    "a debugger": "breakpoint()",
    "the end of the process": "import sys\nsys.exit(3)",
    "the end of the process from os": "import os\nos._exit(3)",
    "an exception that ends programs": "raise SystemExit(3)",
    "an exception of the keyboard": "raise KeyboardInterrupt",
}

TOO_MUCH = {
    "a loop": "while True: pass",
    "a loop that swallows": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "a loop with finally": "def f():\n    try:\n        while True: pass\n    finally:\n        f()\nf()",
    "a loop in evaluated code": "exec('while True: pass')",
    "a sleep": "import time\nwhile True: time.sleep(1000000)",
    "an asynchronous sleep": "import asyncio\nasync def f():\n    while True: await asyncio.sleep(9)\nasyncio.run(f())",
    "a list": "x = []\nwhile True: x.append('a' * 100000)",
    "a text": "x = 'a'\nwhile True: x += x",
    "a large text": "x = 'a' * 10**12",
    "a dict": "x = {}\nfor i in range(10**9): x[i] = str(i)",
    "a list of a range": "x = list(range(10**18))",
    "a large number": "x = 10 ** 10 ** 8",
    "squares": "x = 7\nwhile True: x *= x",
    "a factorial": "import math\nprint(math.factorial(10**7))",
    "a shift": "x = 1 << 10**12",
    "the text of a number": "print(str(7 ** 3000000))",
    "permutations": "import itertools\nprint(len(list(itertools.permutations(range(20)))))",
    "a product": "import itertools\nprint(len(list(itertools.product(range(100), repeat=10))))",
    "replacing": "x = 'a' * 10000\nfor i in range(10): x = x.replace('a', x)",
    "joining": "x = ('a' * 100000).join(['b'] * 1000000)",
    "formatting": "print('%1000000000d' % 1)",
    "a format with a width": "print(f'{1:1000000000}')",
    "a nested expression": "import re\nprint(re.search('(a+)+$', 'a' * 5000 + 'b'))",
    "a reference in an expression": "import re\nprint(re.search(r'(a*)*\\1b', 'a' * 5000))",
    "a large expression": "import re\nre.compile('(((a{1,1000}){1,1000}){1,1000})')",
    "recursion": "def f(): return f()\nf()",
    "a deep list": "x = []\nfor i in range(10**7): x = [x]\nprint(x)",
    "a deep list as JSON": "x = []\nfor i in range(100000): x = [x]\nFINAL(x)",
    "deep JSON": "import json\nprint(json.loads('[' * 1000000))",
    "deep code": "eval('(' * 10000 + ')' * 10000)",
    "much output": "while True: print('x' * 10000)",
    "much output in small parts": "while True: print(1)",
    "similar texts": "import difflib\nprint(difflib.SequenceMatcher(None, 'a' * 100000, 'a' * 99999, False).ratio())",
    "sorting": "x = list(range(10**6))\nwhile True: x.sort(key=lambda i: -i)",
    "an endless iterator": "class I:\n    def __iter__(self): return self\n    def __next__(self): return 1\nsum(I())",
    "a long message": "raise ValueError('x' * 50000000)",
    "a long name": "exec('a' * 1000000 + ' = 1')",
    "an endless chain of errors": "def f():\n    try: 1 / 0\n    except Exception: f()\nf()",
    "objects of objects": "class A:\n    pass\nx = None\nwhile True:\n    y = A()\n    y.x = x\n    x = y",
}

AGAINST_THE_HOST = {
    "a deep list to the host": "x = []\nfor i in range(300000): x = [x]\n_host('FINAL', x)",
    "a chain of objects to the host": (
        "class A:\n    def __init__(self, n): self.n = n\nx = None\nfor i in range(60000): x = A(x)\n_host('FINAL', x)"
    ),
    "a deep dict to the host": "x = {}\nfor i in range(60000): x = {'a': x}\n_host(x, x)",
    "too many arguments": "_host('FINAL', '[[1], {}]', 3)",
    "no arguments": "_host()",
    "keywords": "_host(name='FINAL', arguments='[[1], {}]')",
    "deep JSON to the host": "_host('FINAL', '[[' + '[' * 900000 + ']' * 900000 + '], {}]')",
    "deep JSON below the limit": "_host('FINAL', '[[' + '[' * 400000 + ']' * 400000 + '], {}]')",
    "deep JSON with braces": "_host('FINAL', '{\"a\":' * 150000)",
    "a long text to the host": "_host('FINAL', 'x' * 30000000)",
    "a long number to the host": "_host('FINAL', '[[' + '9' * 900000 + '], {}]')",
    "constants that are not JSON": "_host('FINAL', '[[NaN], {}]')",
    "no JSON": "_host('FINAL', 'import os')",
    "a number for a list": "_host('FINAL', '3')",
    "a number of values": "_host('FINAL', '[[1, 2], {}]')",
    "a function that does not exist": "_host('__class__', '[[], {}]')",
    "attributes of a function": "_host('ask_llm.__globals__', '[[], {}]')",
    "keywords that are not names": "_host('ask_llm', '[[], {\"self\": 1, \"\": 2}]')",
    "a value that is returned": "x = []\nfor i in range(300000): x = [x]\nx",
    "an own host": "def _host(*a): return 'no JSON'\nask_llm('a')",
    "own functions": "FINAL = ask_llm = trace = traces = print = len = None",
    "own JSON": "_json = None\nFINAL(1)",
    "emptied modules": "_kept.clear()\nimport statistics\nstatistics.mean([1])",
    "changed functions": "_ModuleFunction.__call__ = 3\n_HostFunction.__call__ = 3",
    "a flood of calls": "while True:\n    try: ask_llm('a')\n    except BaseException: pass",
    "a flood of unknown names": "while True:\n    try: unknown_name\n    except BaseException: pass",
    "a flood of imports": "while True:\n    try: import unknown_module\n    except BaseException: pass",
    "a lone surrogate": "print('\\ud800')\nFINAL('\\ud800')\nask_llm('\\ud800')",
    "a zero byte": "print('a\\x00b')\nFINAL('a\\x00b')",
    "control characters": "print('\\x1b]0;title\\x07\\x1b[2J')",
}

SOURCES = {
    "a lone surrogate in the code": "print('\ud800')",
    "a zero byte in the code": "print(1)\x00",
    "deep parentheses": "(" * 100_000 + ")" * 100_000,
    "deep lists": "x = " + "[" * 100_000 + "]" * 100_000,
    "many minus signs": "x = " + "-" * 100_000 + "1",
    "a long sum": "x = " + "1+" * 200_000 + "1",
    "many lines": "x = 1\n" * 500_000,
    "deep indentation": "\n".join(" " * depth + "if 1:" for depth in range(2_000)),
    "many arguments": "print(" + ", ".join(["1"] * 200_000) + ")",
    "a long attribute chain": "x = trace" + ".a" * 200_000,
    "a very long number": "x = " + "9" * 1_000_000,
    "an unfinished string": "x = '''" + "a" * 100_000,
    "an unfinished line": "x = 1 + \\",
    "empty code": "",
}

ALL = {**READS_AND_WRITES, **TOO_MUCH, **AGAINST_THE_HOST, **SOURCES}


@pytest.fixture(autouse=True)
def _needs_monty() -> None:
    if importlib.util.find_spec("pydantic_monty") is None:
        missing("rr", "pydantic-monty is not installed: pip install 'ace-core[rr]'")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.mark.parametrize("code", ALL.values(), ids=ALL.keys())
def test_hostile_code_has_no_effect_outside_and_the_host_survives(
    code: str, tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACE_TEST_SECRET", SECRET)
    secret_file = tmp_path / "secret"
    secret_file.write_text(SECRET, encoding="utf-8")
    names = (
        f"SECRET_FILE = {json.dumps(str(secret_file))}; FOLDER = {json.dumps(str(tmp_path))}; "
        f"PORT = {listener.getsockname()[1]}"
    )

    def ask_llm(question: JsonValue) -> JsonValue:
        return "yes"

    limits = SandboxLimits(seconds=0.5, memory=64 * 1024 * 1024, output_characters=1_000, host_calls=1_000)
    with ShortSandbox({"question": "a"}, limits=limits, functions={"ask_llm": ask_llm}) as sandbox:
        assert ran(sandbox, names).error == ""
        result = sandbox.execute(code)
        # Whatever it did to its own session, the next code runs, in the same or in a fresh one.
        assert ran(sandbox, "1 + 1").error == ""
    with TraceSandbox({"question": "b"}) as other:
        assert other.execute("print(traces['question'])").stdout == "b\n"

    said = repr(result)
    assert SECRET not in said
    assert len(result.stdout) < 1_100 and len(result.error) < 1_100
    assert len(json.dumps(result.final)) <= 1_000_000
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert secret_file.read_text(encoding="utf-8") == SECRET
    with pytest.raises(BlockingIOError):  # no connection is waiting
        listener.accept()


@pytest.mark.parametrize(
    "code",
    [TOO_MUCH[name] for name in ("a loop that swallows", "a list", "a text", "squares", "much output")],
)
def test_code_without_end_loses_its_session(code: str) -> None:
    with ShortSandbox({}, limits=SandboxLimits(seconds=0.5, memory=32 * 1024 * 1024)) as sandbox:
        result = sandbox.execute(code)
    assert result.session_lost and result.error


def test_reading_fails_with_an_error_that_the_model_can_understand() -> None:
    with TraceSandbox({}) as sandbox:
        errors = [sandbox.execute(code).error for code in ("open('/etc/passwd')", "import os\nos.environ['HOME']")]
    assert all(errors), errors


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("_host('FINAL', '[[\"' + 'x' * 1_000_000 + '\"], {}]')", "the limit is 1,000,000"),
        ("_host('open', '[[\"/etc/passwd\"], {}]')", "NameError: no function of the host is named 'open'"),
        ("_host('FINAL')", "values leave the session as JSON text only"),
        ("_host('FINAL', '[[NaN], {}]')", "FINAL takes JSON values: NaN is not JSON"),
        ("_host('FINAL', '[[1e999], {}]')", "FINAL takes JSON values: 1e999 is not a finite number"),
        ("_host('FINAL', '{}')", "FINAL takes JSON values"),
    ],
)
def test_code_that_calls_the_host_by_itself_gets_no_further(code: str, problem: str) -> None:
    with TraceSandbox({}) as sandbox:
        result = sandbox.execute(code)
    assert problem.removeprefix("NameError: ") in result.error
    assert not result.has_final


_BIG = "'x' * 100_000_000"


@pytest.mark.parametrize(
    "code",
    [
        _BIG,
        f"text = {_BIG}\ntext",
        f"def make():\n    return {_BIG}\nmake()",
        "list(range(10_000_000))",
        f"class Holder:\n    pass\nheld = Holder()\nheld.value = {_BIG}\nheld",
        f"FINAL({_BIG})",
        f"text = {_BIG}\nFINAL_VAR('text')",
    ],
)
def test_a_huge_value_stays_out_of_the_memory_of_the_host(code: str) -> None:
    """The process that runs the sessions grows by less than half of the value, which has some 100 MB."""
    (growth,) = growths([code], memory=1024**3)
    assert growth < 50_000_000


def growths(codes: list[str], *, memory: int | None = None) -> list[int]:
    """Return by how many bytes the largest size of a process has grown with each piece of code."""
    limits = [] if memory is None else [str(memory)]
    command = [sys.executable, "-m", "tests.core.rr.host_memory_process", *limits]
    done = subprocess.run(command, input=json.dumps(codes), capture_output=True, encoding="utf-8", check=True)
    found: list[int] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "code",
    [
        "_host('FINAL', 'x' * {size})",
        "_host('FINAL', list(range({size} // 50)))",
        "_host(name='x' * {size})",
        "unknown_function('x' * {size})",
        "unknown_function(list(range({size} // 50)))",
        "raise ValueError('x' * {size})",
        "open('x' * {size})",
        "from pathlib import Path\nPath('x' * {size}).exists()",
    ],
)
def test_what_code_sends_past_the_functions_of_the_session_is_bounded_by_its_memory(code: str) -> None:
    """The host has to take it in before it can refuse it. The largest text that fits is less than half the memory."""
    mebibyte = 1024 * 1024
    sizes = [30 * mebibyte, 60 * mebibyte, 100 * mebibyte, 200 * mebibyte]
    assert sum(growths([code.format(size=size) for size in sizes])) < 160 * mebibyte


class Parrot:
    """A model that answers with a few words, and counts the questions."""

    def __init__(self) -> None:
        self.asked = 0

    def complete_messages(self, messages: Any, **settings: Any) -> LLMResponse:
        self.asked += 1
        return LLMResponse("yes " * 10)


_REPEATED = "\nfor i in range(3000):\n    try: {}\n    except RuntimeError: pass"
HOST_WORK = {
    "refused questions": "t='[[['+','.join(['\"\"']*300000)+']],{}]'" + _REPEATED.format("_host('ask_llm_many', t)"),
    "unknown functions": _REPEATED.format("_host('a' * 900000, '[[],{}]')"),
    "final values": "for i in range(3000): FINAL('x' * 900000)",
}


@pytest.mark.parametrize("code", HOST_WORK.values(), ids=HOST_WORK)
def test_what_the_host_does_for_the_code_is_limited(code: str) -> None:
    model = Parrot()
    sub_agent = SubAgentLLM(model)
    functions: Any = {"ask_llm_many": sub_agent.ask_many}
    with TraceSandbox({}, limits=SandboxLimits(seconds=20), functions=functions) as sandbox:
        result = sandbox.execute(code)
        assert "exchanged more than 10,000,000 characters with the host" in result.error
        assert model.asked == 0
        assert sandbox.execute("print(1)").stdout == "1\n"


def test_the_time_of_the_host_counts() -> None:
    def slow_text() -> Any:
        return ["x"] * 200_000  # which takes time to write as JSON, for every call

    limits = SandboxLimits(seconds=0.3, host_characters=2**40)
    with TraceSandbox({}, limits=limits, functions={"read": slow_text}) as sandbox:
        result = sandbox.execute("for i in range(9000): read()")
    assert result.session_lost and "Error: the code" in result.error
