"""Methods of other packages. Each is a program of its own, which asks the model through a server on loopback."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO

from ace import read_trace
from ace.cases import cases_of
from ace.environments import SimpleEnvironment
from ace.evaluation import JudgedAnswer
from ace.outputs import AgentOutput
from ace.protocols.llm import Usage
from ace.runners import RecordedTrace
from benchmarks.learning_quality.methods import Bench, Method
from benchmarks.learning_quality.model_server import ModelServer, model_server
from benchmarks.learning_quality.outcomes import Learned, Outcome
from benchmarks.learning_quality.programs.job import NOT_INSTALLED, Example
from benchmarks.learning_quality.sets import LearningSet

__all__ = ["ADAPTERS", "program_method"]

CALLS_PER_TRACE = 5
"""The budget of learning, the same as for ACE."""
ROOT = Path(__file__).parents[2]


class ProgramFailedError(RuntimeError):
    """The program of another method ended with an error; the text is the end of what it printed."""


def program_method(name: str, title: str, module: str, *arguments: str) -> Method:
    """Return a method that runs a program.

    Args:
        name: The name on the command line.
        title: The title in tables.
        module: The module of the program.
        *arguments: Its arguments.
    """

    def run(bench: Bench, learning_set: LearningSet, traces: Sequence[RecordedTrace], order: int) -> Outcome:
        with model_server(bench.client) as server:
            return _run(bench, learning_set, traces, order, name, (module, *arguments), server)

    return Method(name, title, run)


_PROGRAMS = "benchmarks.learning_quality.programs"
ADAPTERS = [
    program_method(
        "dspy-bootstrap",
        "DSPy, few-shot random search",
        f"{_PROGRAMS}.dspy_program",
        "bootstrap",
    ),
    program_method("dspy-gepa", "DSPy, GEPA", f"{_PROGRAMS}.dspy_program", "gepa"),
]


def _run(
    bench: Bench,
    learning_set: LearningSet,
    traces: Sequence[RecordedTrace],
    order: int,
    name: str,
    program_line: Sequence[str],
    server: ModelServer,
) -> Outcome:
    job = {
        "api_base": server.api_base,
        "examples": [asdict(example) for example in examples_of(traces)],
        "questions": [sample.question for sample in learning_set.questions],
        "max_calls": CALLS_PER_TRACE * len(traces),
    }
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        command = [bench.adapter_python, "-m", *program_line]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, encoding="utf-8"
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            _send(program.stdin, json.dumps(job))
            first = program.stdout.readline()
            learning = server.usage
            second = program.stdout.readline()
        said.seek(0)
        errors = said.read()
    if program.returncode == NOT_INSTALLED:
        return Outcome(name, learning_set.name, order, skipped=errors.strip().splitlines()[-1])
    if program.returncode or not second:
        raise ProgramFailedError(f"{program_line[0]} ended with {program.returncode}: {errors[-2000:]}")
    used = server.usage
    answering = Usage(
        calls=used.calls - learning.calls,
        input_tokens=used.input_tokens - learning.input_tokens,
        output_tokens=used.output_tokens - learning.output_tokens,
    )
    learned = Learned(
        calls=learning.calls,
        input_tokens=learning.input_tokens,
        output_tokens=learning.output_tokens,
        traces=len(traces),
        text=json.loads(first)["learned"],
    )
    return Outcome(
        name, learning_set.name, order, _judged(learning_set, json.loads(second)["answers"]), answering, learned
    )


def examples_of(traces: Sequence[RecordedTrace]) -> list[Example]:
    """Return the corrections of the traces with what a right answer has to hold. No model is asked."""
    found = []
    for trace in traces:
        for case in cases_of(read_trace(trace.record)):
            values = tuple(case.check.value.splitlines())
            found.append(Example(case.question, case.wrong, case.correction, case.expected, values))
    return found


def _judged(learning_set: LearningSet, answers: Sequence[str]) -> tuple[JudgedAnswer, ...]:
    environment, found = SimpleEnvironment("strict"), []
    for sample, answer in zip(learning_set.questions, answers, strict=True):
        result = environment.evaluate(sample=sample, agent_output=AgentOutput(reasoning="", final_answer=answer))
        found.append(
            JudgedAnswer(
                sample_id=sample.id or "",
                question=sample.question,
                correct=result.metrics["correct"],
                answer=answer,
                ground_truth=sample.ground_truth,
            )
        )
    return tuple(found)


def _send(stdin: IO[str], text: str) -> None:
    """Write the job; a program that has ended already without reading it says by its exit code why."""
    try:
        stdin.write(text)
        stdin.close()
    except BrokenPipeError:
        pass
