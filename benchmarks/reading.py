"""Counts the files and functions that a reader opens to follow a path through the code, by tracing it.

A function counts once, however often it is entered; the bodies of modules and classes, comprehensions and generated
methods do not count. This is a report, not a gate: a path may grow for a good reason.

It prints a table; `--files` also lists the files of each path with the number of their functions.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import ace
from ace.pipeline import Pipeline
from benchmarks.learning import InstantClient
from benchmarks.options import parser_of

ROOT = Path(ace.__file__).parent

CodePath = Callable[[Path], Callable[[], object]]
"""Prepares a path through the code in a folder, and returns what is traced."""


@contextmanager
def entered_functions() -> Iterator[tuple[set[CodeType], set[CodeType]]]:
    """Collect the functions that are entered inside the block, on this thread and on those that are started there."""
    here: set[CodeType] = set()
    elsewhere: set[CodeType] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            here.add(frame.f_code)

    def profile_elsewhere(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            elsewhere.add(frame.f_code)

    threading.setprofile(profile_elsewhere)
    sys.setprofile(profile)
    try:
        yield here, elsewhere
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def files_of(entered: set[CodeType]) -> Counter[str]:
    """Return the number of functions entered in each file of `ace`, by its path below it."""
    return Counter(
        str(Path(code.co_filename).relative_to(ROOT))
        for code in entered
        if code.co_filename.startswith(f"{ROOT}/")
        and code.co_flags & inspect.CO_OPTIMIZED  # the body of a module or class is not
        and not code.co_name.startswith("<")
    )


def pipeline_run(folder: Path) -> Callable[[], object]:
    """`Pipeline.run` with one synchronous step."""
    from ace.pipeline import StepContext

    class Step:
        requires = provides = frozenset({"sample"})

        def __call__(self, ctx: StepContext) -> StepContext:
            return ctx

    pipeline = Pipeline([Step()])
    return lambda: pipeline.run([StepContext("a")])


def add_skill(folder: Path) -> Callable[[], object]:
    """`Skillbook.add_skill` into SQLite."""
    from ace.skillbook import Skillbook

    book = Skillbook.open(folder / "skills.db")
    return lambda: book.add_skill("maths", "Check the units.")


def ace_run(folder: Path) -> Callable[[], object]:
    """`ACE.run` of one sample into a store."""
    from ace.environments import Sample, SimpleEnvironment
    from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
    from ace.runners import ACE
    from ace.updates import UpdateBatch, UpdateOperation

    class Roles:
        def generate(self, **arguments: Any) -> AgentOutput:
            return AgentOutput(reasoning="", final_answer="5")

        def reflect(self, **arguments: Any) -> ReflectorOutput:
            return ReflectorOutput(reasoning="", correct_approach="", key_insight="Add carefully.")

        def update_skills(self, **arguments: Any) -> SkillManagerOutput:
            operation = UpdateOperation("ADD", section="maths", content="Add carefully.")
            return SkillManagerOutput(update=UpdateBatch("", [operation]))

    roles = Roles()
    runner = ACE.from_roles(
        agent=roles,
        reflector=roles,
        skill_manager=roles,
        environment=SimpleEnvironment(),
        skillbook_path=folder / "skills.db",
    )
    return lambda: runner.run([Sample("2+2?", ground_truth="4")])


def learn_file(folder: Path) -> Callable[[], object]:
    """`ace learn FILE` of one trace, with a model that answers at once."""
    from ace.cli import main as ace_command
    from ace.protocols import register_model_prefix

    trace = folder / "trace.json"
    trace.write_text(json.dumps({"question": "case 0", "answer": "5", "feedback": "Wrong, it is 4."}), encoding="utf-8")
    with contextlib.suppress(ValueError):  # known from the run that warmed up
        register_model_prefix("reading", lambda model, **settings: InstantClient())
    arguments = ["learn", str(trace), "--skillbook", str(folder / "learned.db"), "--model", "reading/instant"]

    def learn() -> int:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = ace_command(arguments)
        if code != 0:
            raise RuntimeError(f"ace learn ended with {code}: {said.getvalue()}")
        return code

    return learn


PATHS: tuple[CodePath, ...] = (pipeline_run, add_skill, ace_run, learn_file)


def main() -> None:
    """Trace all paths, each in a folder of its own, and print the table."""
    parser = parser_of("reading", __doc__)
    parser.add_argument("--files", action="store_true", help="also list the files of each path")
    lists_files: bool = parser.parse_args().files
    print(f"{'path':<62}  files  functions  functions per file  files here")
    for path in PATHS:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            path(Path(other))()  # what is loaded at the first use, such as plugins, is not part of the path
            traced = path(Path(folder))
            Pipeline().close()  # ends the cached threads of the engine: only threads that are started now are traced
            with entered_functions() as (here, elsewhere):
                traced()
        files, files_here = files_of(here | elsewhere), files_of(here)
        title = (path.__doc__ or "").rstrip(".").replace("`", "")
        per_file = files.total() / len(files)
        print(f"{title:<62}  {len(files):>5}  {files.total():>9}  {per_file:>18.1f}  {len(files_here):>10}")
        if lists_files:
            for file, count in sorted(files.items()):
                print(f"  {' ' if file in files_here else '*'} {file:<60}  {count}")


if __name__ == "__main__":
    main()
