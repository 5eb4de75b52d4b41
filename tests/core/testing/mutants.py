"""Deliberately wrong plugins. Each is a correct one with one thing wrong, which one check sees."""

from __future__ import annotations

from dataclasses import dataclass

from tests.core.testing.correct_plugins import ASYNCHRONOUS, FRAMEWORK, LOGS, OTHER_KINDS, RUNNER, STORED, Edit

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True)
class Mutant:
    """A plugin that is wrong in one way."""

    check: str
    """The suite and the check that must fail, and no other."""
    wrong: str
    """What is wrong, for people."""
    edits: tuple[Edit, ...]
    based_on: tuple[Edit, ...] = ()
    """What makes of the template another correct plugin, of which this is the mutant."""


CAUGHT = "except PipelineCancelled:  # the run was cancelled: nothing is recorded, nothing is learned"
RECORDED = '            result = MutantResult(task, success=False, error=f"{type(error).__name__}: {error}")\n'

# What a method of the store does instead; each is written below the constructor of the correct store.
STORES = (
    (
        "test_new_store_is_empty",
        "a new store holds an answer already",
        "        self.record_answer('greeting', 'hello', '2026-01-01T00:00:00Z')\n",
    ),
    (
        "test_append_and_load",
        "decisions are not kept",
        "    def append(self, commit):\n        super().append(commit._replace(decisions=()))\n",
    ),
    (
        "test_events",
        "`until` is ignored",
        (
            "    def events(self, after=0, until=None):\n"
            "        yield from super().events(after, None if until == 3 else until)\n"
        ),
    ),
    (
        "test_version_conflict",
        "a batch on an older version overwrites the newer one",
        (
            "    def append(self, commit):\n"
            "        if commit.author == 'kit' and commit.expected_version < self.version() and commit.key is None:\n"
            "            version = self.version()\n"
            "            head = commit.head._replace(version=version + 1)\n"
            "            commit = commit._replace(expected_version=version, head=head)\n"
            "        super().append(commit)\n"
        ),
    ),
    (
        "test_each_sample_once",
        "the key of a sample is not looked at",
        (
            "    def append(self, commit):\n"
            "        key = commit.key\n"
            "        if key is not None and self.committed_version(key) is not None:\n"
            "            commit = commit._replace(key=None)\n"
            "        super().append(commit)\n"
        ),
    ),
    (
        "test_first_answer_counts",
        "the last answer is returned",
        (
            "    def record_answer(self, key, answer, at, details=None):\n"
            "        super().record_answer(key, answer, at, details)\n        return answer\n"
        ),
    ),
    (
        "test_progress",
        "notes of all runs are returned",
        (
            "    def progress(self, run):\n"
            "        return [row for id in ('b', run) for row in super(MutantStore, self).progress(id)]\n"
        ),
    ),
    (
        "test_threads",
        "from another thread than the first one, every third batch is lost",
        (
            "        import threading\n        self.home, self.count = threading.get_ident(), 0\n"
            "    def append(self, commit):\n        import threading\n        self.count += 1\n"
            "        if threading.get_ident() != self.home and self.count % 3 == 0:\n"
            "            commit = commit._replace(changed=(), operations='[]')\n"
            "        super().append(commit)\n"
        ),
    ),
    (
        "test_processes",
        "a process that learns has a file of its own",
        (
            "        import os, sys\n        if sys.argv[2:3] and sys.argv[2].startswith('process'):\n"
            "            super().__init__(f'{location}{os.getpid()}')\n"
        ),
    ),
    (
        "test_killed_process",
        "progress is written after the batch, in a transaction of its own",
        (
            "    def append(self, commit):\n        import sys, time\n"
            "        if sys.argv[0] != '-c' or commit.key is None:\n            return super().append(commit)\n"
            "        super().append(commit._replace(progress=None))\n        time.sleep(0.5)\n"
            "        self.note_progress(commit.key, commit.progress, commit.at)\n"
        ),
    ),
    (
        "test_odd_texts",
        "an answer ends at the first NUL",
        (
            "    def record_answer(self, key, answer, at, details=None):\n"
            "        return super().record_answer(key, answer.split('\\0')[0], at, details)\n"
        ),
    ),
    (
        "test_many_skills",
        "at most 1,000 rows are returned at a time",
        "    def rows(self, ids):\n        return super().rows(list(ids)[:1000])\n",
    ),
    (
        "test_rollback",
        "what a rollback replaces is not removed",
        "    def append(self, commit):\n        super().append(commit._replace(replaces_all=False))\n",
    ),
    (
        "test_cases",
        "of a skill, only the fields that the store knows are kept",
        (
            "    def append(self, commit):\n        import json\n"
            "        rows = [row for row in commit.changed if '\"cases\"' in row.data]\n"
            "        without = {row.id: {**json.loads(row.data), 'cases': []} for row in rows}\n"
            "        super().append(commit._replace(changed=[\n"
            "            row._replace(data=json.dumps(without[row.id])) if row.id in without else row\n"
            "            for row in commit.changed\n        ]))\n"
        ),
    ),
    (
        "test_forgotten_answers",
        "the answers of all runs are deleted",
        (
            "    def forget_answers(self, *runs):\n        with self._file.writing() as connection:\n"
            "            return connection.execute('DELETE FROM answer').rowcount\n"
        ),
    ),
    (
        "test_close_twice",
        "a second close is an error",
        (
            "        self.closed = 0\n    def close(self):\n        self.closed += 1\n        super().close()\n"
            "        if self.closed > 1:\n            raise RuntimeError('closed already')\n"
        ),
    ),
)

MUTANTS = (
    Mutant(
        "PluginConformance.test_entry_point",
        "the entry point is in a group of a similar name",
        (Edit("pyproject.toml", '"ace.plugins"', '"ace.plugin"'),),
    ),
    Mutant(
        "PluginConformance.test_api_version",
        "`ACE_API` is a number of the future",
        (Edit("plugin.py", "ACE_API = 1", "ACE_API = 99"),),
    ),
    Mutant(
        "PluginConformance.test_hooks",
        "a hook is misspelt",
        (Edit("plugin.py", "def ace_trace_converters", "def ace_trace_converter"),),
    ),
    Mutant(
        "PluginConformance.test_hooks",
        "a hook yields the spec of another",
        (
            Edit("plugin.py", "yield TraceConverterSpec(", "yield ExecuteStepSpec("),
            Edit("plugin.py", "accepts", "produces"),
        ),
    ),
    Mutant(
        "PluginConformance.test_names",
        "a spec has another name than the entry point",
        (
            Edit(
                "plugin.py", 'TraceConverterSpec(\n        name="mutant"', 'TraceConverterSpec(\n        name="mutate"'
            ),
        ),
    ),
    Mutant(
        "PluginConformance.test_targets",
        "the model client that a hook names is not there",
        (
            Edit("plugin.py", "import ExecuteStepSpec, ", "import ExecuteStepSpec, LLMClientSpec, "),
            Edit(
                "plugin.py",
                "@hookimpl\ndef ace_trace_converters",
                "@hookimpl\ndef ace_llm_clients():\n"
                '    yield LLMClientSpec(name="mutant", target="ace_mutant.llm:X")\n\n\n'
                "@hookimpl\ndef ace_trace_converters",
            ),
        ),
    ),
    Mutant(
        "PluginConformance.test_range_of_ace_core",
        "any release of ace-core is taken",
        (Edit("pyproject.toml", '    "ace-core>=0.1,<0.2",', '    "ace-core",'),),
    ),
    Mutant(
        "PluginConformance.test_range_of_ace_core",
        "the range ends before the release that is tested",
        (Edit("pyproject.toml", '    "ace-core>=0.1,<0.2",', '    "ace-core>=0.0.1,<0.0.9",'),),
    ),
    Mutant(
        "PluginConformance.test_hook_module_without_framework",
        "the hook module imports the framework",
        (Edit("plugin.py", "ACE_API = 1", "import sched\n\nACE_API = 1"),),
        FRAMEWORK,
    ),
    Mutant(
        "PluginConformance.test_hook_module_is_light",
        "the package imports its steps, and they half of ace",
        (Edit("__init__.py", "*", "from ace_mutant.execute import MutantExecuteStep\n"),),
    ),
    Mutant(
        "PluginConformance.test_hook_module_is_silent",
        "the hook module greets",
        (Edit("plugin.py", "ACE_API = 1", 'ACE_API = 1\nprint("mutant is ready")'),),
    ),
    Mutant(
        "ExecuteStepConformance.test_protocol",
        "the step does not declare that it reads the skillbook",
        (Edit("execute.py", 'frozenset({"sample", "skillbook"})', 'frozenset({"sample"})'),),
    ),
    Mutant(
        "ExecuteStepConformance.test_sync_or_async_as_declared",
        "the spec says that the step is asynchronous, and it is not",
        (Edit("plugin.py", '.execute:MutantExecuteStep",', '.execute:MutantExecuteStep",\n        is_async=True,'),),
    ),
    Mutant(
        "ExecuteStepConformance.test_result_as_declared",
        "the spec names another class than that of the results",
        (
            Edit("plugin.py", 'produces="ace_mutant.result:MutantResult"', 'produces="ace_mutant.result:Planned"'),
            Edit("result.py", "@dataclass(frozen=True)\n", "class Planned:\n    pass\n\n\n@dataclass(frozen=True)\n"),
        ),
    ),
    Mutant(
        "ExecuteStepConformance.test_skills_are_injected",
        "the skills are cut to their ids, so that only those of learned words get through",
        (
            Edit(
                "execute.py",
                "skills = wrap_skillbook_for_external_agent(ctx.skillbook)",
                'skills = "\\n".join(skill.content for skill in ctx.skillbook if "learned" in skill.content)',
            ),
        ),
    ),
    Mutant(
        "ExecuteStepConformance.test_context_is_not_changed",
        "the step writes into the context that it was given",
        (
            Edit(
                "execute.py",
                "        return ctx.replace(trace=result)",
                '        object.__setattr__(ctx, "trace", result)\n        return ctx',
            ),
        ),
    ),
    Mutant(
        "ExecuteStepConformance.test_context_is_not_changed",
        "the step drops the metadata of others",
        (Edit("execute.py", "ctx.replace(trace=result)", 'ctx.replace(trace=result, metadata={"seen": True})'),),
    ),
    Mutant(
        "ExecuteStepConformance.test_context_is_not_changed",
        "the step changes a field that it does not declare",
        (Edit("execute.py", "ctx.replace(trace=result)", "ctx.replace(trace=result, epoch=7)"),),
    ),
    Mutant(
        "ExecuteStepConformance.test_failure_is_recorded",
        "what the framework raises is raised",
        (Edit("execute.py", RECORDED, "            raise\n"),),
    ),
    Mutant(
        "ExecuteStepConformance.test_failure_is_recorded",
        "what the framework raises is swallowed: the run counts as a success without an answer",
        (Edit("execute.py", RECORDED, "            result = MutantResult(task, success=True)\n"),),
    ),
    Mutant(
        "ExecuteStepConformance.test_failure_is_recorded",
        "a failed run does not tell its error",
        (Edit("execute.py", RECORDED, "            result = MutantResult(task, success=False)\n"),),
    ),
    Mutant(
        "ExecuteStepConformance.test_eight_at_once",
        "the step keeps the task of a run in itself",
        (
            Edit("execute.py", "        skills = wrap", "        self.task = task\n        skills = wrap"),
            Edit("execute.py", "MutantResult(task, success=True,", "MutantResult(self.task, success=True,"),
        ),
    ),
    Mutant(
        "ExecuteStepConformance.test_cancelled_run",
        "a cancelled run is recorded as a failed one",
        (Edit("execute.py", f"        {CAUGHT}\n            raise\n", ""),),
    ),
    Mutant(
        "ExecuteStepConformance.test_cancelled_task",
        "a cancelled task is recorded as a failed one",
        (Edit("execute.py", "except Exception as error:", "except BaseException as error:"),),
        ASYNCHRONOUS,
    ),
    Mutant(
        "TraceConverterConformance.test_accepts_results",
        "the spec names another class than that of the results",
        (
            Edit("plugin.py", 'accepts="ace_mutant.result:MutantResult"', 'accepts="ace_mutant.result:Planned"'),
            Edit("result.py", "@dataclass(frozen=True)\n", "class Planned:\n    pass\n\n\n@dataclass(frozen=True)\n"),
        ),
    ),
    Mutant(
        "TraceConverterConformance.test_accepts_results",
        "the spec names no class",
        (Edit("plugin.py", '        accepts="ace_mutant.result:MutantResult",\n', ""),),
    ),
    Mutant(
        "TraceConverterConformance.test_success_and_failure",
        "every run is told as a success",
        (Edit("to_trace.py", '"success": result.success,', '"success": True,'),),
    ),
    Mutant(
        "TraceConverterConformance.test_error_is_told",
        "the trace of a failed run only tells that it failed",
        (Edit("to_trace.py", 'f"failed: {result.error}"', '"failed"'),),
    ),
    Mutant(
        "TraceConverterConformance.test_refuses_anything_else",
        "anything is converted",
        (
            Edit(
                "to_trace.py",
                "            raise TypeError(",
                '            return ctx.replace(trace={"question": repr(ctx.trace)})\n            raise TypeError(',
            ),
        ),
    ),
    Mutant(
        "TraceConverterConformance.test_keys",
        "the answer has another name",
        (Edit("to_trace.py", '"answer": result.output,', '"reply": result.output,'),),
    ),
    Mutant(
        "TraceConverterConformance.test_keys",
        "the steps do not tell their place",
        (Edit("to_trace.py", ', "place": "1"}', "}"),),
    ),
    Mutant(
        "TraceConverterConformance.test_keys",
        "the ids of the cited skills are one text",
        (Edit("to_trace.py", "list(result.skill_ids)", '", ".join(result.skill_ids)'),),
    ),
    Mutant(
        "TraceConverterConformance.test_keys",
        "a run without an answer has none in its trace",
        (Edit("to_trace.py", '"answer": result.output,', '"answer": result.output or None,'),),
    ),
    Mutant(
        "TraceConverterConformance.test_json",
        "the trace holds an object",
        (Edit("to_trace.py", '        "schema": 1,\n', '        "schema": 1,\n        "result": result,\n'),),
    ),
    Mutant(
        "TraceConverterConformance.test_deterministic",
        "the trace gets a new id each time",
        (
            Edit(
                "to_trace.py",
                '        "schema": 1,\n',
                '        "schema": 1,\n        "id": __import__("uuid").uuid4().hex,\n',
            ),
        ),
    ),
    Mutant(
        "TraceConverterConformance.test_deterministic",
        "the words of the answer are in the order of a set",
        (
            Edit(
                "to_trace.py",
                '        "schema": 1,\n',
                '        "schema": 1,\n        "words": list({*"the order of a set differs", *result.task.split()}),\n',
            ),
        ),
    ),
    Mutant(
        "TraceConverterConformance.test_without_framework",
        "the converter imports the framework",
        (Edit("to_trace.py", "\n__all__", "import sched  # noqa: F401\n\n__all__"),),
        FRAMEWORK,
    ),
    Mutant(
        "TraceConverterConformance.test_without_framework",
        "the result holds something that lives",
        (
            Edit(
                "result.py",
                "    skill_ids: tuple[str, ...] = ()\n",
                "    skill_ids: tuple[str, ...] = ()\n    again: object = lambda: None\n",
            ),
        ),
    ),
    Mutant(
        "TraceConverterConformance.test_stored_records",
        "the recogniser claims every small dict",
        (
            Edit(
                "stored.py",
                '0.9 if isinstance(record, dict) and "mutant_task" in record',
                "0.9 if isinstance(record, dict) and len(record) < 5",
            ),
        ),
        STORED,
    ),
    Mutant(
        "TraceConverterConformance.test_stored_records",
        "the recogniser is surer than sure",
        (Edit("stored.py", "0.9", "9"),),
        STORED,
    ),
    Mutant(
        "LogReaderConformance.test_attributes",
        "the places are one text",
        (Edit("logs.py", '("~/.mutant/*.jsonl",)', '"~/.mutant/*.jsonl"'),),
        LOGS,
    ),
    Mutant(
        "LogReaderConformance.test_recognises_its_logs",
        "the reader is surer than sure",
        (Edit("logs.py", "return 0.9 if", "return 9 if"),),
        LOGS,
    ),
    Mutant(
        "LogReaderConformance.test_claims_nothing_else",
        "the reader claims a little of everything",
        (Edit("logs.py", "else 0.0", "else 0.1"),),
        LOGS,
    ),
    Mutant(
        "LogReaderConformance.test_runs",
        "the outcome of a run is a word",
        (
            Edit(
                "logs.py",
                "        if builder.steps:\n            yield builder.run(id=current)",
                '        if builder.steps:\n            yield builder.run(id=current, success="yes")',
            ),
        ),
        LOGS,
    ),
    Mutant(
        "LogReaderConformance.test_reads_twice_the_same",
        "runs are numbered on and on",
        (
            Edit("logs.py", '    note = ""\n', '    note = ""\n    number = 0\n'),
            Edit(
                "logs.py", '        current, builder = "",', '        self.number += 1\n        current, builder = "",'
            ),
            Edit(
                "logs.py",
                "        if builder.steps:\n            yield builder.run(id=current)",
                "        if builder.steps:\n            yield builder.run(id=str(self.number))",
            ),
        ),
        LOGS,
    ),
    Mutant(
        "LogReaderConformance.test_survives_damage",
        "every record is taken for an object",
        (Edit("logs.py", "if not isinstance(record, dict) or ", "if "),),
        LOGS,
    ),
    Mutant(
        "LogReaderConformance.test_without_framework",
        "the reader imports the framework",
        (
            Edit(
                "logs.py",
                "from collections.abc import Iterator\n",
                "import sched\nfrom collections.abc import Iterator\n",
            ),
        ),
        LOGS,
    ),
    Mutant(
        "RunnerConformance.test_same_class",
        "users import another class than the hook names",
        (
            Edit("plugin.py", "ace_mutant.runner:Mutant", "ace_mutant.runner:Other"),
            Edit(
                "runner.py",
                "    to_trace = MutantToTrace\n",
                "    to_trace = MutantToTrace\n\n\nclass Other(Mutant):\n    pass\n",
            ),
        ),
        RUNNER,
    ),
    Mutant(
        "RunnerConformance.test_learning_tail",
        "the runner omits TagStep",
        (
            Edit(
                "runner.py",
                "    to_trace = MutantToTrace\n",
                "    to_trace = MutantToTrace\n\n    @classmethod\n"
                "    def _composed(cls, steps, skillbook, settings):\n"
                '        steps = [step for step in steps if type(step).__name__ != "TagStep"]\n'
                "        return super()._composed(steps, skillbook, settings)\n",
            ),
        ),
        RUNNER,
    ),
    Mutant(
        "RunnerConformance.test_run_and_learn",
        "the runner learns into a skillbook of its own, not into the given one",
        (
            Edit(
                "runner.py",
                "    to_trace = MutantToTrace\n",
                "    to_trace = MutantToTrace\n\n    @classmethod\n"
                "    def from_roles(cls, *args, skillbook=None, **options):\n"
                "        return super().from_roles(*args, **options)\n",
            ),
        ),
        RUNNER,
    ),
    Mutant(
        "RunnerConformance.test_save_and_load",
        "after `load` the steps still write the old skillbook",
        (
            Edit(
                "runner.py",
                "    to_trace = MutantToTrace\n",
                "    to_trace = MutantToTrace\n\n    def load(self, path):\n        from ace import Skillbook\n\n"
                "        self.skillbook = Skillbook.load_from_file(path)\n",
            ),
        ),
        RUNNER,
    ),
    Mutant(
        "ObserverConformance.test_takes_every_event",
        "the target of an observer is a class, which is instantiated for each event",
        (
            Edit(
                "observe.py",
                "def count(event):\n    global _ended\n",
                "class count:\n  def __init__(self, event):\n    global _ended\n",
            ),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "ExtraStepsConformance.test_options",
        "the spec of extra steps declares an option that the target does not take",
        (Edit("plugin.py", 'options=("depth",)', 'options=("depth", "width")'),),
        OTHER_KINDS,
    ),
    Mutant(
        "ExtraStepsConformance.test_options",
        "an option of extra steps has no default",
        (Edit("notes.py", "def notes(depth=1)", "def notes(depth)"),),
        OTHER_KINDS,
    ),
    Mutant(
        "ExtraStepsConformance.test_options",
        "an option of extra steps cannot be given by name",
        (Edit("notes.py", "def notes(depth=1)", "def notes(depth=1, /)"),),
        OTHER_KINDS,
    ),
    Mutant(
        "ExtraStepsConformance.test_steps",
        "the extra steps are one step instead of a list",
        (Edit("notes.py", "return [Note() for _ in range(depth)]", "return Note()"),),
        OTHER_KINDS,
    ),
    Mutant(
        "ExtraStepsConformance.test_steps",
        "an extra step does not say what it requires",
        (Edit("notes.py", '    requires = frozenset({"skillbook"})\n', ""),),
        OTHER_KINDS,
    ),
    Mutant(
        "ExtraStepsConformance.test_whole_run",
        "an extra step needs the answer of an agent, which a recorded trace lacks",
        (Edit("notes.py", "        return ctx\n", "        ctx.agent_output.final_answer\n        return ctx\n"),),
        OTHER_KINDS,
    ),
    Mutant(
        "ExtraStepsConformance.test_whole_run",
        "an extra step returns nothing",
        (Edit("notes.py", "        return ctx\n", "        return None\n"),),
        OTHER_KINDS,
    ),
    Mutant(
        "ExtraStepsConformance.test_prints_nothing",
        "an extra step prints",
        (Edit("notes.py", "        return ctx\n", "        print(ctx)\n        return ctx\n"),),
        OTHER_KINDS,
    ),
    Mutant(
        "LLMClientConformance.test_made_from_a_model_string",
        "the client takes no settings",
        (Edit("llm.py", "model, *, max_tokens=None, temperature=None, backend=None", "model, backend=None"),),
        OTHER_KINDS,
    ),
    Mutant(
        "LLMClientConformance.test_complete",
        "a call cannot set `max_tokens`",
        (
            Edit("llm.py", "def complete(self, prompt, *, max_tokens=None)", "def complete(self, prompt)"),
            Edit("llm.py", "self.complete(prompt, **settings)", "self.complete(prompt)"),
            Edit("llm.py", "self.complete, prompt, **settings", "self.complete, prompt"),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "LLMClientConformance.test_complete_structured",
        "the structured answer is a dict",
        (
            Edit(
                "llm.py",
                "return response_model.model_validate_json(text)",
                "return response_model.model_validate_json(text).model_dump()",
            ),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "LLMClientConformance.test_unusable_answer",
        "an answer that does not validate is built from the valid fields",
        (
            Edit(
                "llm.py",
                'raise UnusableAnswerError("it does not validate", raw_answers=[text]) from error',
                "return response_model.model_construct()",
            ),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "LLMClientConformance.test_failure_is_told",
        "a provider that fails gives an empty answer",
        (Edit("llm.py", "raise LLMCallError(str(error)) from error", 'return LLMResponse("")'),),
        OTHER_KINDS,
    ),
    Mutant(
        "LLMClientConformance.test_eight_at_once",
        "the prompt is kept on the client while its answer is awaited",
        (
            Edit("llm.py", "self.backend = backend", "self.backend = backend\n        self.answer = None"),
            Edit(
                "llm.py",
                "return LLMResponse(self.backend(prompt))",
                "self.answer = self.backend(prompt)\n            import time; time.sleep(0.2)\n"
                "            return LLMResponse(self.answer)",
            ),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "LLMClientConformance.test_async_twins",
        "the asynchronous method is not asynchronous",
        (
            Edit(
                "llm.py",
                "    async def acomplete(self, prompt, **settings):\n"
                "        return await asyncio.to_thread(self.complete, prompt, **settings)\n",
                "    def acomplete(self, prompt, **settings):\n        return self.complete(prompt, **settings)\n",
            ),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "EmbedderConformance.test_one_vector_for_each_text",
        "the vector of an empty text is shorter",
        (Edit("embed.py", "numbers = [0.0] * self.size\n", "numbers = [0.0] * (self.size if text else 1)\n"),),
        OTHER_KINDS,
    ),
    Mutant(
        "EmbedderConformance.test_deterministic",
        "words are numbered as they come",
        (
            Edit("embed.py", "self.size = 512", "self.size, self.words = 512, {}"),
            Edit(
                "embed.py",
                "numbers[zlib.crc32(word.encode()) % self.size]",
                "numbers[self.words.setdefault(word, len(self.words)) % self.size]",
            ),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "EmbedderConformance.test_similar_texts_are_near",
        "a text is a hash",
        (Edit("embed.py", "for word in text.lower().split():", "for word in [text]:"),),
        OTHER_KINDS,
    ),
    Mutant(
        "EmbedderConformance.test_eight_at_once",
        "the numbers of all calls are one list",
        (
            Edit("embed.py", "self.size = 512", "self.size, self.numbers = 512, []"),
            Edit(
                "embed.py",
                "numbers = [0.0] * self.size\n",
                "self.numbers[:] = [0.0] * self.size\n"
                "        import time; time.sleep(0.02)\n        numbers = self.numbers\n",
            ),
            Edit("embed.py", "        return numbers\n", "        time.sleep(0.02)\n        return list(numbers)\n"),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "ObserverConformance.test_takes_every_event",
        "the cost of a call is taken for a number",
        (
            Edit(
                "observe.py",
                "    global _ended\n",
                '    global _ended\n    if hasattr(event, "cost"):\n        float(event.cost)\n',
            ),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "ObserverConformance.test_takes_unknown_events",
        "an event of a later release is an error",
        (
            Edit(
                "observe.py",
                "    global _ended\n",
                '    global _ended\n    if not type(event).__module__.startswith("ace.protocols"):\n'
                "        raise TypeError(event)\n",
            ),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "ObserverConformance.test_many_threads",
        "events are taken on one thread only",
        (
            Edit("observe.py", "_ended = 0", "_ended, _home = 0, threading.get_ident()"),
            Edit(
                "observe.py",
                "    global _ended\n",
                '    global _ended\n    if _home != threading.get_ident() and event.run_id == "kit-run":\n'
                '        raise RuntimeError("another thread")\n',
            ),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "ObserverConformance.test_prints_nothing",
        "the end of a run is printed",
        (Edit("observe.py", "        with _lock:\n", '        print("ended")\n        with _lock:\n'),),
        OTHER_KINDS,
    ),
    Mutant(
        "ObserverConformance.test_whole_run",
        "a run without a well-known name is refused",
        (
            Edit(
                "observe.py",
                "    if isinstance(event, RunEnded):\n",
                '    if isinstance(event, RunEnded):\n        assert event.run_id == "kit-run"\n',
            ),
        ),
        OTHER_KINDS,
    ),
    *(
        Mutant(
            f"StoreConformance.{check}",
            wrong,
            (Edit("store.py", "super().__init__(location)\n", f"super().__init__(location)\n{code}"),),
            OTHER_KINDS,
        )
        for check, wrong, code in STORES
    ),
    Mutant(
        "StoreConformance.test_location_finds_the_store",
        "the spec claims other files",
        (Edit("plugin.py", 'suffixes=(".mutant",)', 'suffixes=(".mutants",)'),),
        OTHER_KINDS,
    ),
    Mutant(
        "IntegrationConformance.test_names_of_parts",
        "the converter is called Reader",
        (
            Edit("plugin.py", ".to_trace:MutantToTrace", ".to_trace:Reader"),
            Edit(
                "to_trace.py",
                "def _standard_trace(",
                "class Reader(MutantToTrace):\n    pass\n\n\ndef _standard_trace(",
            ),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "IntegrationConformance.test_options_of_the_step",
        "the option is called max_skill_tokens",
        (
            Edit("execute.py", "skill_budget_tokens: int | None = None", "max_skill_tokens: int | None = None"),
            Edit("execute.py", "self.most_tokens = skill_budget_tokens", "self.most_tokens = max_skill_tokens"),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "IntegrationConformance.test_skill_budget",
        "the limit is taken, and ignored",
        (Edit("execute.py", "self.most_tokens = skill_budget_tokens", "self.most_tokens = None"),),
        OTHER_KINDS,
    ),
    Mutant(
        "IntegrationConformance.test_result",
        "the result keeps the ids as a text",
        (
            Edit("test_conformance.py", 'skill_ids=("maths-00001",)', 'skill_ids="maths-00001"'),
            Edit("to_trace.py", "list(result.skill_ids)", "[result.skill_ids] if result.skill_ids else []"),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "IntegrationConformance.test_trace",
        "the metadata name another integration",
        (Edit("to_trace.py", '"integration": "mutant"', '"integration": "other"'),),
        OTHER_KINDS,
    ),
    Mutant(
        "CommandConformance.test_help",
        "an option has no description",
        (Edit("cli.py", "        as_json: Print one JSON object.\n", ""),),
        OTHER_KINDS,
    ),
    Mutant(
        "CommandConformance.test_summary",
        "the spec has no summary",
        (Edit("plugin.py", 'cli:command", summary="Count words"', 'cli:command"'),),
        OTHER_KINDS,
    ),
    Mutant(
        "CommandConformance.test_wrong_usage",
        "every word is taken, options that it does not have too",
        (
            Edit(
                "cli.py",
                "def command(text: str, *,",
                "def command(*texts: Annotated[str, Parameter(allow_leading_hyphen=True)],",
            ),
            Edit("cli.py", "        text: Any text.", "        texts: Any texts."),
            Edit("cli.py", "len(text.split())", 'len(" ".join(texts).split())'),
        ),
        OTHER_KINDS,
    ),
    Mutant(
        "CommandConformance.test_success",
        "a line for people is printed before the JSON object",
        (Edit("cli.py", "    words = len(", '    print("counting")\n    words = len('),),
        OTHER_KINDS,
    ),
)
