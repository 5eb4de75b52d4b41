"""Counts the CPU instructions of a sample for each row of the other benchmarks, here and in an earlier checkout.

Instructions hardly depend on what else the machine does, so small differences show. They are counted by valgrind's
cachegrind, which must be installed; each row takes about a minute per checkout. The start of Python does not count: the
figure is the difference between a long and a short run. It exits with 1 if a run fails, never because of the count.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.options import parser_of

HERE = Path(__file__).parents[1]
Run = Callable[[int], object]


def of_engine(kinds: str, *, workers: int = 1, is_awaited: bool = False, hooks: bool = False) -> Run:
    """Return a run of the engine.

    Args:
        kinds: The kind of each step: `n` does nothing, `f` changes a field, `a` is asynchronous, `b` is behind the
            boundary, `l` there in a lane, and `2` is a branch of two steps that do nothing.
        workers: The number of workers.
        is_awaited: Whether it is started with `run_async`.
        hooks: Whether two hooks observe the steps.
    """

    def run(count: int) -> None:
        from ace.pipeline import Pipeline
        from benchmarks.cases.hooks import _Silent
        from benchmarks.contexts import SixFields
        from benchmarks.steps import AsyncNoOp, BackgroundNoOp, LaneNoOp, NoOp, OneField, Step

        steps: dict[str, type[Step]] = {"n": NoOp, "f": OneField, "a": AsyncNoOp, "b": BackgroundNoOp, "l": LaneNoOp}
        pipeline = Pipeline[SixFields](hooks=[_Silent(), _Silent()] if hooks else [])
        for kind in kinds:
            pipeline = pipeline.branch(NoOp(), NoOp()) if kind == "2" else pipeline.then(steps[kind]())
        contexts = [SixFields(0)] * count  # the same one, because making it would count
        if is_awaited:
            results = asyncio.run(pipeline.run_async(contexts, workers=workers))
        else:
            results = pipeline.run(contexts, workers=workers)
        pipeline.wait_for_background()
        assert len(results) == count and all(result.error is None for result in results)

    return run


def replace(count: int) -> None:
    """Change a field of a context."""
    from benchmarks.contexts import TwelveFields

    ctx = TwelveFields("sample")
    for number in range(count):
        ctx = ctx.replace(a=number)


def learn(count: int, *, in_store: bool = False) -> None:
    """Learn from recorded traces, with a model that answers immediately."""
    from ace.skillbook import Skillbook
    from benchmarks.learning import InstantClient
    from benchmarks.learning import learn as learn_from

    with (
        tempfile.TemporaryDirectory() as folder,
        Skillbook.open(Path(folder) / "skills.db") if in_store else Skillbook() as book,
    ):
        problems = learn_from(InstantClient(), count, book)
    assert not problems, problems


def of_book(what: str) -> Run:
    """Return a run that does something with a skillbook: `change` it, or `save` and `load` that many skills."""

    def run(count: int) -> None:
        from ace.skillbook import Skillbook

        book = Skillbook()
        for number in range(1 if what == "change" else count):
            book.add_skill("section", f"In case {number}, check the form before the answer.")
        if what == "save":
            book.dumps()
        elif what == "load":
            Skillbook.loads(book.dumps())
        elif what == "prompt":
            book.as_prompt()
        elif what == "change":
            for number in range(count):
                added = book.add_skill("section", f"In case {number}, check the form before the answer.")
                book.remove_skill(added.id)

    return run


ROWS: dict[str, tuple[int, Run]] = {
    "4 plain steps, run()": (4_000, of_engine("nnnn")),
    "4 steps that change a field, run()": (4_000, of_engine("ffff")),
    "4 plain steps, run_async()": (4_000, of_engine("nnnn", is_awaited=True)),
    "4 plain steps, run_async(workers=4)": (4_000, of_engine("nnnn", is_awaited=True, workers=4)),
    "4 plain steps, run(workers=4)": (4_000, of_engine("nnnn", workers=4)),
    "4 async steps, run(workers=4)": (4_000, of_engine("aaaa", workers=4)),
    "4 async steps, run_async(workers=4)": (4_000, of_engine("aaaa", workers=4, is_awaited=True)),
    "replace() of one of 12 fields": (40_000, replace),
    "4 plain steps with two hooks": (4_000, of_engine("nnnn", hooks=True)),
    "step, branch of two, step": (1_000, of_engine("n2n")),
    "3 steps, 1 behind the boundary": (2_000, of_engine("nnnb")),
    "3 steps, 1 behind the boundary in a lane": (2_000, of_engine("nnnl")),
    "add_skill and remove_skill": (4_000, of_book("change")),
    "add_skill and save": (4_000, of_book("save")),
    "add_skill, save and load": (4_000, of_book("load")),
    "add_skill and as_prompt": (4_000, of_book("prompt")),
    "learning a trace": (200, learn),
    "learning a trace into a store": (200, partial(learn, in_store=True)),
}
"""The number of samples and what is run, by the name of the row."""


def counted(checkout: Path, row: str, count: int) -> int:
    """Return the instructions of a process that runs a row.

    Args:
        checkout: The root of the checkout whose `ace-core` is measured. The benchmark is that of this checkout.
        row: The name of the row.
        count: The number of samples.

    Raises:
        SystemExit: The run failed.
    """
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={os.devnull}"]
    child = [sys.executable, "-m", "benchmarks.instructions", "--run", row, "--count", str(count)]
    paths = os.pathsep.join(str(path) for path in (checkout / "ace-core" / "src", HERE))
    # Without plugins, because checkouts differ in those.
    environ = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0", "ACE_PLUGINS": ""}
    done = subprocess.run([*command, *child], env=environ, capture_output=True, text=True, check=False)
    found = re.search(r"I +refs: +([\d,]+)", done.stderr)
    if done.returncode != 0 or found is None:
        sys.exit(f"{row!r} failed with {checkout}:\n{done.stderr[-1000:]}")
    return int(found[1].replace(",", ""))


def of_sample(checkout: Path, row: str) -> float:
    """Return the instructions of a sample."""
    count, _ = ROWS[row]
    return (counted(checkout, row, count + count // 10) - counted(checkout, row, count // 10)) / count


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("instructions", __doc__)
    parser.add_argument("rows", nargs="*", metavar="row", help="parts of the names of rows; default: all")
    parser.add_argument("--base", type=Path, metavar="CHECKOUT", help="an earlier checkout to compare with")
    parser.add_argument("--run", metavar="ROW", help="run one row in this process, without counting")
    parser.add_argument("--count", type=int, default=10, help="the number of samples for --run")
    options = parser.parse_args(arguments)
    if options.run:
        gc.collect()
        ROWS[options.run][1](options.count)
        return 0
    print("| what | instructions per sample | before | ratio |\n| --- | --- | --- | --- |")
    for row in ROWS:
        if options.rows and not any(part in row for part in options.rows):
            continue
        figure = of_sample(HERE, row)
        base = of_sample(options.base, row) if options.base else None
        cells = ["", ""] if base is None else [f"{base:,.0f}", f"{figure / base:.3f}"]
        print(f"| {' | '.join([row, f'{figure:,.0f}', *cells])} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
