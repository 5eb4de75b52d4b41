"""Measures ACE beside other ways of doing the same: the figures of README's "How it compares".

It prints the CPU times of the process, the minimum of three rounds. It exits with 1 if a result is wrong, never because
of time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np
from langgraph.graph import END, START, StateGraph

from ace.pipeline import Pipeline
from ace.skillbook import Skillbook
from benchmarks.contexts import SixFields, make_contexts
from benchmarks.options import parser_of
from benchmarks.similarity import THRESHOLD, Rows, cpu_seconds, pairs, rows_with_twins
from benchmarks.skillbook import filled
from benchmarks.steps import NoOp
from benchmarks.wrong_result import WrongResult, require

STEPS = 4
SAMPLES = 1_000
SKILLS = 10_000
CHANGES = 20


class State(TypedDict):
    """What the graph of LangGraph passes on."""

    sample: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser_of("comparison", __doc__).parse_args(arguments)
    try:
        steps()
        similar_pairs()
        with tempfile.TemporaryDirectory() as name:
            changes(Path(name))
    except WrongResult as problem:
        print(f"WRONG: {problem}")
        return 1
    return 0


def steps() -> None:
    """Four steps that do nothing, over a thousand samples."""
    contexts = make_contexts(SAMPLES)
    pipeline = Pipeline([NoOp() for _ in range(STEPS)])
    graph = StateGraph(State)
    names = [f"step {number}" for number in range(STEPS)]
    for name in names:
        graph.add_node(name, lambda state: state)
    for before, after in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(before, after)
    compiled = graph.compile()

    require(len(pipeline.run(contexts)) == SAMPLES, "the pipeline lost samples")
    require(compiled.invoke({"sample": 7}) == {"sample": 7}, "the graph lost its sample")
    compare(
        "one step that does nothing",
        [
            ("ace.pipeline", lambda: pipeline.run(contexts)),
            ("asyncio.to_thread for each step", lambda: asyncio.run(in_threads(contexts))),
            ("LangGraph, invoke for each sample", lambda: [compiled.invoke({"sample": at}) for at in range(SAMPLES)]),
        ],
        parts=SAMPLES * STEPS,
    )


async def in_threads(contexts: Sequence[SixFields]) -> None:
    step = NoOp()
    for context in contexts:
        for _ in range(STEPS):
            await asyncio.to_thread(step, context)


def similar_pairs() -> None:
    """All pairs of skills whose vectors of 384 numbers are alike."""
    rows = rows_with_twins(np.random.default_rng(11), SKILLS)
    few = rows[: SKILLS // 10]
    require(pairs(few) == in_a_loop(few), "the loop over pairs finds others")
    compare(
        f"all similar pairs among {len(few):,} skills",
        [("ace.deduplication", lambda: pairs(few)), ("np.dot for each pair", lambda: in_a_loop(few))],
    )
    compare(f"all similar pairs among {SKILLS:,} skills", [("ace.deduplication", lambda: pairs(rows))])


def in_a_loop(rows: Rows) -> set[tuple[int, int]]:
    return {
        (at, other)
        for at in range(len(rows))
        for other in range(at + 1, len(rows))
        if np.dot(rows[at], rows[other]) >= THRESHOLD
    }


def changes(folder: Path) -> None:
    """One changed skill of ten thousand, kept at once."""
    skills = filled(SKILLS)
    whole = folder / "whole.json"
    with Skillbook.open(folder / "book.db") as book:
        book.import_skills(skills)
        first = book.skills()[0].id
        compare(
            f"keep one change in a book of {SKILLS:,} skills",
            [
                ("a store of ace.skillbook", lambda: change_often(book, first)),
                ("json.dumps of all, and one write", lambda: write_often(skills.to_dict(), whole)),
            ],
            parts=CHANGES,
        )
        expected = book.dumps()
    with Skillbook.open(folder / "book.db") as again:
        require(again.dumps() == expected, "the store reads back differently")
    require(json.loads(whole.read_text(encoding="utf-8")) == skills.to_dict(), "the file reads back differently")


def change_often(book: Skillbook, skill_id: str) -> None:
    for number in range(CHANGES):
        book.update_skill(skill_id, content=f"Changed {number}.")


def write_often(content: object, path: Path) -> None:
    for _ in range(CHANGES):
        path.write_text(json.dumps(content), encoding="utf-8")


def compare(what: str, contenders: Sequence[tuple[str, Callable[[], object]]], parts: int = 1) -> None:
    """Print what one part of each contender takes, and the ratio to the first."""
    print(what)
    first = 0.0
    for name, action in contenders:
        taken = cpu_seconds(action, rounds=3) / parts
        first = first or taken
        print(f"    {name:<40} {taken * 1e6:14,.2f} µs {taken / first:10,.1f} x")


if __name__ == "__main__":
    sys.exit(main())
