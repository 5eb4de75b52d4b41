"""Correct plugins: what `ace plugins new` writes, and that with more in it. They are what mutants are made of."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ASYNCHRONOUS", "CORRECT", "FRAMEWORK", "RUNNER", "STORED", "Edit"]


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

CORRECT = {
    "as_the_template_has_it": (),
    "with_a_framework": FRAMEWORK,
    "asynchronous": ASYNCHRONOUS,
    "with_a_runner": RUNNER,
    "with_stored_records": STORED,
}
"""Plugins with which nothing is wrong."""
