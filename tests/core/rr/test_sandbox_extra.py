"""Without the extra, the package can be imported, and an error names what to install."""

import subprocess
import sys


def output(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_without_the_extra_the_package_can_be_imported_and_the_error_names_the_extra() -> None:
    assert "pip install 'ace-core[rr]'" in output(
        "import sys; sys.modules['pydantic_monty'] = None\n"
        "import ace.rr\n"
        "from ace.rr import TraceContext, TraceSandbox\n"
        "print(len(TraceContext({'steps': ['a']})))\n"
        "try: TraceSandbox({})\n"
        "except ImportError as error: print(error)"
    )


def test_the_sandbox_is_loaded_when_a_session_is_used() -> None:
    program = "import sys, ace, ace.rr; from ace.rr import TraceSandbox; print('pydantic_monty' in sys.modules)"
    assert output(program) == "False\n"
    assert output("import sys, ace; print([name for name in sys.modules if name.startswith('ace.rr')])") == "[]\n"
