"""Without LangChain, the package can be imported, converts stored records, and says what to install."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.subprocesses import run_python

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("langchain", "langgraph")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def test_stored_records_are_converted() -> None:
    record = [{"type": "human", "data": {"content": "2+2?"}}, {"type": "ai", "data": {"content": "4"}}]
    code = f"""
{BLOCKED}
import json
import ace_langchain
from ace.plugins import get_trace_converter
from ace.logs import runs_in

record = json.loads({json.dumps(record)!r})
trace = ace_langchain.result_to_trace(record)
assert get_trace_converter("langchain") is ace_langchain.LangChainToTrace
[run] = runs_in(record)
assert (run.task, run.answer) == (trace["question"], trace["answer"])
print(trace["question"], trace["answer"])
"""
    assert run_python(code).stdout == "2+2? 4\n"


@pytest.mark.parametrize(
    ("use", "needed_by", "requirement"),
    [
        ("LangChainExecuteStep(object())", "LangChainExecuteStep", "langchain-core>=1.6,<2"),
        ("LangChain.from_model(object())", "LangChainExecuteStep", "langchain-core>=1.6,<2"),
        ("LangChainLLMClient(object())", "LangChainLLMClient", "langchain-core>=1.6,<2"),
        ("LangChainLLMClient('openai:x')", "the model string 'openai:x'", "langchain>=1.4,<2"),
        ("skillbook_middleware()", "skillbook_middleware", "langchain>=1.4,<2"),
    ],
)
def test_using_it_says_what_to_install(use: str, needed_by: str, requirement: str) -> None:
    code = f"""
{BLOCKED}
import ace_langchain
from ace_langchain import *
try:
    {use}
except ImportError as error:
    print(error)
"""
    told = run_python(code).stdout
    assert told.startswith(f"{needed_by} needs 'langchain")
    assert told.endswith(f"install it with: python -m pip install '{requirement}'\n")


def test_the_hook_module_loads_no_framework_and_nothing_heavy() -> None:
    code = """
import sys
import ace_langchain.plugin
heavy = {"langchain", "langchain_core", "langgraph", "pydantic", "litellm", "openai", "asyncio"}
print(sorted(heavy & {name.partition(".")[0] for name in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout == "[]\n"
