"""Measures learning from tasks: what insights, the counter gate and artifacts add to a commit, and reading the log.

It prints the ratios to a commit alone and to a bare loop of `json.loads`, each measured in turns with its baseline. The
steps are measured in wall time, because most of a commit is waiting for the disk: the quicker that is, the larger the
ratio. The goal concerns the sum of the three steps, without the commit. It exits with 1 if a result is wrong, never
because of time.

Creating a file takes 0.02 ms on a fresh file system. On one without a journal, it takes up to 0.4 ms for some minutes
after many files were deleted nearby: `--folder` names a folder on a quiet file system, which is not deleted afterwards.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType

from ace.context import ACEStepContext, SkillbookView
from ace.evaluation import CounterGate
from ace.loop import ExecutionTrace, InsightLog, TraceLog, execution_to_trace
from ace.outputs import ReflectorOutput
from ace.skillbook import SampleKey, Skillbook
from ace.steps import (
    ApplyStep,
    ArtifactDraftStep,
    ArtifactStep,
    GateStep,
    InsightOutcomeStep,
    InsightStep,
    ReflectStep,
    artifacts_in,
)
from ace.updates import UpdateBatch, UpdateOperation
from benchmarks.options import add_markdown, add_quick, parser_of
from benchmarks.ratios import Ratio, cpu_ms, show

SKILLS, TRACES, LINES = 10_000, 100, 100_000
WHOLE = 2000
"""The number of skills up to which each folder contains all of them."""
PROBLEMS: list[str] = []

READER = """
import json, sys
from pathlib import Path
from ace.loop import TraceLog
found = sum(1 for _ in TraceLog(sys.argv[1]).read(["bd-7"]))
[most] = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(json.dumps([found, int(most) / 1024]))
"""


def check(right: bool, what: str) -> None:
    if not right:
        PROBLEMS.append(what)


def filled(path: Path, size: int) -> Skillbook:
    book = Skillbook.open(path)
    with book.deferred_commits():
        for number in range(size):
            text = f"When case {number} comes up, check each candidate by trial division before you answer."
            book.add_skill(f"section {number % 20}", text, metadata={"helpful": number % 3})
    return book


class Reflector:
    """Returns the same lesson for all traces, with the number of the step that the question names."""

    def reflect(self, *, question: str, **_: object) -> ReflectorOutput:
        text = lesson(question.rpartition(" ")[2])
        return ReflectorOutput.model_validate(
            {"reasoning": "", "correct_approach": "", "key_insight": text, "extracted_learnings": [{"learning": text}]}
        )


def lesson(number: int | str) -> str:
    return f"Before step {number} of the build, compile the module that it needs."


def sample(book: Skillbook, number: int, run: str, *, keep_read: bool = False) -> ACEStepContext:
    """Return the context of a trace after the reflection and the update."""
    trace = ExecutionTrace(
        task_id=f"bd-{number}", trace_id=f"t{number}", outcome="failure", task_description=f"Build step {number}"
    )
    batch = UpdateBatch("", [UpdateOperation("ADD", section=f"section {number % 20}", content=lesson(number))])
    metadata = {
        "trace_id": f"{number:016x}@{trace.place}",
        "place": trace.place,
        "sample_key": SampleKey(run, 1, trace.place),
    }
    ctx = ACEStepContext(
        sample=trace,
        trace=execution_to_trace(trace),
        skillbook=SkillbookView(book),
        skill_manager_output=batch,
        metadata=MappingProxyType(metadata),
    )
    return ReflectStep(Reflector(), keep_read=keep_read)(ctx)


def per_trace(folder: Path, skills: int, traces: int) -> Iterator[Ratio]:
    """Measure the steps of the loop around a commit, in turns with the commit alone."""
    folder.mkdir()
    alone, looped = filled(folder / "alone.db", skills), filled(folder / "looped.db", skills)
    log = InsightLog(folder / "logs" / "insights.jsonl")
    artifacts = folder / "logs" / "artifacts"
    apply = ApplyStep(looped)
    steps: list[tuple[str, Callable[[ACEStepContext], ACEStepContext]]] = [
        ("insights", InsightStep(log, looped)),
        ("counter gate", GateStep(CounterGate(), looped, apply=apply)),
        ("artifacts", ArtifactDraftStep(artifacts, looped, apply=apply)),
        ("commit", apply),
        ("insights", InsightOutcomeStep(log, looped)),
        ("artifacts", ArtifactStep(artifacts, looped)),
    ]
    plain = ApplyStep(alone)
    bases: list[float] = []
    three = ("insights", "counter gate", "artifacts")
    times: dict[str, list[float]] = {name: [] for name in (*three, "commit", "the three")}
    with alone.deferred_commits(), looped.deferred_commits():
        for number in range(traces):
            other = sample(alone, number, "alone")
            bases.append(wall_ms(lambda other=other: plain(other))[0])  # type: ignore[misc]
            taken = dict.fromkeys(times, 0.0)
            ctx = sample(looped, number, "looped", keep_read=True)
            for name, step in steps:
                spent, ctx = wall_ms(lambda ctx=ctx, step=step: step(ctx))  # type: ignore[misc]
                taken[name] += spent
                taken["the three"] += spent if name in three else 0.0
            for name, spent in taken.items():
                times[name].append(spent)
    for name in three:
        yield Ratio(f"{name}, {skills:,} skills", quick(times[name]), "commit alone", quick(bases))
    goal = 1.5 if skills > WHOLE else None
    yield Ratio("insights + counter gate + artifacts", quick(times["the three"]), "commit alone", quick(bases), goal)
    everything = [sum(pair) for pair in zip(times["the three"], times["commit"], strict=True)]
    yield Ratio("the same with their commit", quick(everything), "commit alone", quick(bases))
    check(len(looped) == len(alone) == skills + traces, "a skill is missing")
    check(len(artifacts_in(artifacts)) == traces, "a folder is missing")
    check({insight.status for insight in log.insights()} == {"accepted"}, "an insight has no outcome")
    check(len(log.insights()) == traces, "an insight is missing")
    newest = (artifacts_in(artifacts)[-1].folder / "playbook.md").read_text(encoding="utf-8")
    changed = None if len(looped) <= WHOLE else [f"section {(traces - 1) % 20}"]
    check(newest.endswith(f"{looped.as_markdown(sections=changed)}\n"), "the newest folder is not the book")
    alone.close()
    looped.close()


def wall_ms(action: Callable[[], ACEStepContext]) -> tuple[float, ACEStepContext]:
    """Return the wall milliseconds of one call, and its result: most of a commit is waiting for the disk."""
    start = time.perf_counter_ns()
    ctx = action()
    return (time.perf_counter_ns() - start) / 1e6, ctx


def quick(times: list[float]) -> float:
    """Return the time that a quarter of the calls takes at most: other programs disturb the others."""
    return sorted(times)[len(times) // 4]


def reading(folder: Path, lines: int) -> Iterator[Ratio]:
    """Measure reading the attempts at one task from a long log."""
    path = folder / "execution_traces.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            trace = ExecutionTrace(
                task_id=f"bd-{number % 100}",
                trace_id=str(number),
                outcome="success",
                task_description="Fix the imports of the module, and see that the tests pass",
            )
            file.write(f"{json.dumps(trace.as_record())}\n" if number % 100 else "nonsense\n")
    log = TraceLog(path)
    found: list[int] = []

    def bare() -> int:
        count = 0
        with path.open("rb") as file:
            for line in file:
                try:
                    count += json.loads(line)["bead_id"] == "bd-7"
                except ValueError:
                    continue
        return count

    times, bases = [], []
    for _ in range(3):
        times.append(cpu_ms(lambda: found.append(sum(1 for _ in log.read(["bd-7"])))))
        bases.append(cpu_ms(bare))
    check(set(found) == {bare()} == {lines // 100}, "an attempt is missing")
    check(log.problem_count == lines // 100, "a problem is missing")
    yield Ratio(f"attempts at one task in {lines:,} lines", min(times), "json.loads of each line", min(bases), 1.5)
    done = subprocess.run([sys.executable, "-c", READER, str(path)], capture_output=True, text=True, check=True)
    count, megabytes = json.loads(done.stdout)
    check(count == lines // 100, "an attempt is missing in a process of its own")
    yield Ratio("memory of a process that does so", megabytes, "64 MB", 64.0, most_measured=64.0, unit="MB")


def main() -> int:
    parser = parser_of("loop", __doc__)
    add_quick(parser, "200 skills, 4 traces, 1,000 lines")
    add_markdown(parser)
    parser.add_argument("--folder", type=Path, help="the parent of the files, which are not deleted afterwards")
    options = parser.parse_args()
    skills, traces, lines = (200, 4, 1000) if options.quick else (SKILLS, TRACES, LINES)
    with contextlib.ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory
        folder = Path(tempfile.mkdtemp(dir=options.folder) if options.folder else stack.enter_context(temporary()))
        rows = [
            *per_trace(folder / "ordinary", min(skills, WHOLE - traces), traces),
            *per_trace(folder / "large", skills, traces),
            *reading(folder, lines),
        ]
    show(rows, markdown=options.markdown)
    for problem in PROBLEMS:
        print(f"wrong: {problem}", file=sys.stderr)
    return 1 if PROBLEMS else 0


if __name__ == "__main__":
    sys.exit(main())
