"""Correct plugins: what `ace plugins new` writes, and that with more in it. They are what mutants are made of."""

from __future__ import annotations

from dataclasses import dataclass

from ace.cli.plugin_template import names_of_plugin, plugin_files

__all__ = ["ASYNCHRONOUS", "CORRECT", "FRAMEWORK", "LOGS", "OTHER_KINDS", "RUNNER", "STORED", "Edit"]


@dataclass(frozen=True)
class Edit:
    """One change of one file."""

    file: str
    """The end of its path."""
    old: str
    """What stands there, exactly once; `*` takes the place of the whole file."""
    new: str


# Here, a module of the standard library is the framework. (Nothing that the kit itself needs imports it.)
FRAMEWORK = (
    Edit("test_conformance.py", "return ()  # the top-level packages of your framework", 'return ("sched",)'),
    Edit(
        "execute.py",
        "        self.agent = agent\n",
        "        import sched  # noqa: F401\n\n        self.agent = agent\n",
    ),
)
ASYNCHRONOUS = (
    Edit("plugin.py", '.execute:MutantExecuteStep",', '.execute:MutantExecuteStep",\n        is_async=True,'),
    Edit("execute.py", "    def __call__", "    async def __call__"),
    Edit("execute.py", "output = self.agent(", "output = await self.agent("),
    Edit("test_conformance.py", "MutantExecuteStep(model)", "MutantExecuteStep(model.ask)"),
    Edit("test_conformance.py", "from_roles(model, **", "from_roles(model.ask, **"),
)
RUNNER = (
    Edit(
        "plugin.py",
        "@hookimpl\ndef ace_trace_converters",
        '@hookimpl\ndef ace_runners():\n    yield RunnerSpec(name="mutant", target="ace_mutant.runner:Mutant")\n\n\n'
        "@hookimpl\ndef ace_trace_converters",
    ),
    Edit("plugin.py", "import ExecuteStepSpec, ", "import ExecuteStepSpec, RunnerSpec, "),
    Edit(
        "runner.py",
        "*",
        "from ace.runners import IntegrationRunner\n"
        "from ace_mutant.execute import MutantExecuteStep\n"
        "from ace_mutant.to_trace import MutantToTrace\n\n\n"
        "class Mutant(IntegrationRunner):\n"
        '    integration = "mutant"\n'
        "    execute_step = MutantExecuteStep\n"
        "    to_trace = MutantToTrace\n",
    ),
    Edit(
        "test_conformance.py",
        "class TestRunner(Mutant, RunnerConformance):\n",
        "class TestRunner(Mutant, RunnerConformance):\n    @pytest.fixture\n    def runner_class(self):\n"
        "        from ace_mutant.runner import Mutant\n\n        return Mutant\n\n",
    ),
)
STORED = (
    Edit("pyproject.toml", '    "ace-core>=0.1,<0.2",', '    "Ace_Core >=0.1, <0.2",'),
    Edit("plugin.py", '        accepts="', '        recognises="ace_mutant.stored:score",\n        accepts="'),
    Edit(
        "stored.py",
        "*",
        'def score(record):\n    return 0.9 if isinstance(record, dict) and "mutant_task" in record else 0\n',
    ),
    Edit(
        "to_trace.py",
        '        """Put the standard trace on the context.',
        '        if isinstance(ctx.trace, dict) and "mutant_task" in ctx.trace:\n'
        '            stored = MutantResult(ctx.trace["mutant_task"], success=True)\n'
        "            return ctx.replace(trace=_standard_trace(stored))\n"
        '        """Put the standard trace on the context.',
    ),
    Edit(
        "test_conformance.py",
        "class TestTraceConverter(Mutant, TraceConverterConformance):\n",
        "class TestTraceConverter(Mutant, TraceConverterConformance):\n    @pytest.fixture\n"
        '    def stored_records(self):\n        return ({"mutant_task": "2 + 2"},)\n\n',
    ),
)

_WITH_LOGS = {path.name: text for path, text in plugin_files(names_of_plugin("mutant"), ("logs",)).items()}
_TESTED = _WITH_LOGS["test_conformance.py"]
LOGS = (
    *FRAMEWORK,
    Edit("logs.py", "*", _WITH_LOGS["logs.py"]),
    Edit("plugin.py", "*", _WITH_LOGS["plugin.py"]),
    Edit("test_conformance.py", "from typing import Any\n", "from pathlib import Path\nfrom typing import Any\n"),
    Edit("test_conformance.py", "    PluginConformance,\n", "    LogReaderConformance,\n    PluginConformance,\n"),
    Edit(
        "test_conformance.py",
        "class TestTraceConverter(",
        f"{_TESTED[_TESTED.index('class TestLogReader(') :]}\n\nclass TestTraceConverter(",
    ),
)

OTHER_KINDS = (
    Edit(
        "execute.py",
        "agent: Callable[[str], str]) -> None:\n",
        "agent: Callable[[str], str], skill_budget_tokens: int | None = None) -> None:\n"
        "        self.most_tokens = skill_budget_tokens\n",
    ),
    Edit("execute.py", "external_agent(ctx.skillbook)", "external_agent(ctx.skillbook, self.most_tokens)"),
    Edit(
        "to_trace.py",
        '        "schema": 1,\n',
        '        "schema": 1,\n        "metadata": {"integration": "mutant"},\n',
    ),
    Edit(
        "plugin.py",
        "@hookimpl\ndef ace_trace_converters",
        "@hookimpl\ndef ace_llm_clients():\n"
        '    yield LLMClientSpec(name="mutant", target="ace_mutant.llm:MutantClient")\n\n\n'
        "@hookimpl\ndef ace_embedders():\n"
        '    yield EmbedderSpec(name="mutant", target="ace_mutant.embed:MutantEmbedder")\n\n\n'
        "@hookimpl\ndef ace_observers():\n"
        '    yield ObserverSpec(name="mutant", target="ace_mutant.observe:count")\n\n\n'
        "@hookimpl\ndef ace_extra_steps():\n"
        '    yield ExtraStepsSpec(name="mutant", target="ace_mutant.notes:notes", options=("depth",))\n\n\n'
        "@hookimpl\ndef ace_stores():\n"
        '    yield StoreSpec(name="mutant", target="ace_mutant.store:MutantStore", suffixes=(".mutant",))\n\n\n'
        "@hookimpl\ndef ace_commands():\n"
        '    yield CommandSpec(name="mutant", target="ace_mutant.cli:command", summary="Count words")\n\n\n'
        "@hookimpl\ndef ace_trace_converters",
    ),
    Edit(
        "plugin.py",
        "import ExecuteStepSpec, ",
        "import CommandSpec, EmbedderSpec, ExecuteStepSpec, ExtraStepsSpec, LLMClientSpec, ObserverSpec, StoreSpec, ",
    ),
    Edit(
        "llm.py",
        "*",
        """import asyncio
from ace.protocols import LLMCallError, LLMResponse, UnusableAnswerError


class MutantClient:
    def __init__(self, model, *, max_tokens=None, temperature=None, backend=None):
        self.backend = backend

    def complete(self, prompt, *, max_tokens=None):
        try:
            return LLMResponse(self.backend(prompt))
        except RuntimeError as error:
            raise LLMCallError(str(error)) from error

    def complete_structured(self, prompt, response_model, **settings):
        text = self.complete(prompt, **settings).text
        try:
            return response_model.model_validate_json(text)
        except ValueError as error:
            raise UnusableAnswerError("it does not validate", raw_answers=[text]) from error

    async def acomplete(self, prompt, **settings):
        return await asyncio.to_thread(self.complete, prompt, **settings)
""",
    ),
    Edit(
        "embed.py",
        "*",
        """import zlib


class MutantEmbedder:
    def __init__(self, model=None):
        self.size = 512

    def embed(self, texts):
        return [self.vector(text) for text in texts]

    def vector(self, text):
        numbers = [0.0] * self.size
        for word in text.lower().split():
            numbers[zlib.crc32(word.encode()) % self.size] += 1.0
        return numbers
""",
    ),
    Edit(
        "observe.py",
        "*",
        """import threading

from ace.protocols.observers import RunEnded

_lock = threading.Lock()
_ended = 0


def count(event):
    global _ended
    if isinstance(event, RunEnded):
        with _lock:
            _ended += 1
""",
    ),
    Edit(
        "notes.py",
        "*",
        """class Note:
    requires = frozenset({"skillbook"})
    provides = frozenset()

    def __call__(self, ctx):
        return ctx


def notes(depth=1):
    return [Note() for _ in range(depth)]
""",
    ),
    Edit(
        "store.py",
        "*",
        """from ace.skillbook.sqlite_store import SqliteStore


class MutantStore(SqliteStore):
    def __init__(self, location):
        super().__init__(location)
""",
    ),
    Edit(
        "cli.py",
        "*",
        """import json
from typing import Annotated

from cyclopts import Parameter


def command(text: str, *, as_json: Annotated[bool, Parameter(name="--json", negative="")] = False) -> int:
    \"\"\"Count words.

    Args:
        text: Any text.
        as_json: Print one JSON object.
    \"\"\"
    words = len(text.split())
    print(json.dumps({"words": words}) if as_json else words)
    return 0
""",
    ),
    Edit(
        "test_conformance.py",
        "class TestRunner(Mutant, RunnerConformance):\n",
        """from ace.testing import (
    CommandConformance, EmbedderConformance, ExtraStepsConformance, IntegrationConformance, LLMClientConformance,
    ObserverConformance, StoreConformance,
)


class TestIntegration(Mutant, IntegrationConformance):
    @pytest.fixture
    def make_step(self):
        return lambda model, **options: MutantExecuteStep(model, **options)

    @pytest.fixture
    def successful_result(self):
        return MutantResult("What is 2 + 2?", success=True, output="4, by [maths-00001].", skill_ids=("maths-00001",))

    @pytest.fixture
    def has_timeout(self):
        return False


class TestLLMClient(Mutant, LLMClientConformance):
    @pytest.fixture
    def make_client(self):
        from ace_mutant.llm import MutantClient

        return lambda model: MutantClient("any", backend=model)


class TestEmbedder(Mutant, EmbedderConformance):
    pass


class TestObserver(Mutant, ObserverConformance):
    pass


class TestExtraSteps(Mutant, ExtraStepsConformance):
    @pytest.fixture
    def options(self):
        return {"depth": 2}


class TestStore(Mutant, StoreConformance):
    @pytest.fixture
    def location(self, tmp_path):
        return str(tmp_path / "skills.mutant")


class TestCommand(Mutant, CommandConformance):
    @pytest.fixture
    def arguments(self):
        return ["some words", "--json"]


class TestRunner(Mutant, RunnerConformance):
""",
    ),
)

CORRECT = {
    "as_the_template_has_it": (),
    "with_a_framework": FRAMEWORK,
    "asynchronous": ASYNCHRONOUS,
    "with_a_runner": RUNNER,
    "with_stored_records": STORED,
    "with_a_log_reader": LOGS,
    "with_every_other_kind": OTHER_KINDS,
}
"""Plugins with which nothing is wrong."""
