"""Drawing a pipeline: as one line of text, and as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

from .branch import Branch
from .plan import cut_into_sections
from .step import PlannedStep, plan_step

# A drawing does not depend on the type of the contexts, hence Any.
Steps = Sequence[PlannedStep[Any]]


@runtime_checkable
class _Nested(Protocol):
    """A pipeline, which this module cannot import."""

    @property
    def steps(self) -> Sequence[Any]: ...

    def to_mermaid(self) -> str: ...


def one_line(steps: Steps) -> str:
    """Return the `repr` of a pipeline: `=>` marks the async boundary, braces enclose a lane."""
    text = ""
    for section in cut_into_sections(steps):
        inner = "".join(f"{_arrow(step)}{step.label}" for step in section.steps)
        first_arrow = _arrow(section.steps[0])
        text += f"{first_arrow}{section.lane}{{{inner.removeprefix(first_arrow)}}}" if section.lane else inner
    return f"Pipeline({text.removeprefix(' -> ').lstrip()})"


def _arrow(step: PlannedStep[Any]) -> str:
    return " => " if step.async_boundary else " -> "


def draw_mermaid(steps: Steps, requires: Iterable[str]) -> str:
    """Return a Mermaid flowchart of the steps.

    Args:
        steps: The steps of the pipeline.
        requires: The fields that the input must have, which label the first arrow.
    """
    drawing = _Drawing()
    drawing.lines.append("    start([start])")
    last = drawing.add_pipeline(steps, [_Open("start", frozenset(requires))])
    drawing.lines.append("    finish([end])")
    drawing.connect(last, "finish")
    return "\n".join(["flowchart LR", *drawing.lines, *drawing.arrows])


@dataclass(frozen=True, slots=True)
class _Open:
    """An arrow from a node whose target is not known yet."""

    node: str
    fields: frozenset[str]


@final
class _Drawing:
    """The lines of a flowchart while it is drawn."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.arrows: list[str] = []
        self._count = 0
        self._depth = 1

    def add_pipeline(self, steps: Steps, arrows: Sequence[_Open]) -> list[_Open]:
        """Draw steps after the open arrows, and return the arrows that leave the last one."""
        boundary = next((index for index, step in enumerate(steps) if step.async_boundary), len(steps))
        arrows = self._add_sections(steps[:boundary], arrows)
        if boundary < len(steps):
            self._begin_group("background: the caller does not wait")
            arrows = self._add_sections(steps[boundary:], arrows)
            self._end_group()
        return list(arrows)

    def connect(self, arrows: Iterable[_Open], node: str) -> None:
        """Lead the open arrows to a node."""
        for arrow in arrows:
            label = f"|{', '.join(sorted(arrow.fields))}|" if arrow.fields else ""
            self.arrows.append(f"    {arrow.node} -->{label} {node}")

    def _add_sections(self, steps: Steps, arrows: Sequence[_Open]) -> Sequence[_Open]:
        for section in cut_into_sections(steps):
            if section.lane is not None:
                self._begin_group(f"lane {section.lane}: one sample at a time, in input order")
            for step in section.steps:
                arrows = self._add_step(step, arrows)
            if section.lane is not None:
                self._end_group()
        return arrows

    def _add_step(self, step: PlannedStep[Any], arrows: Sequence[_Open]) -> Sequence[_Open]:
        if isinstance(step.step, Branch):
            return self._add_branch(step.step, step.provides, arrows)
        if isinstance(step.step, _Nested):
            self._begin_group(f"nested {step.name}")
            arrows = self.add_pipeline([plan_step(inner) for inner in step.step.steps], arrows)
            self._end_group()
            return arrows
        node = self._add_node(f'["{step.name}"]')
        self.connect(arrows, node)
        return [_Open(node, step.provides)]

    def _add_branch(self, branch: Branch[Any], provides: frozenset[str], arrows: Sequence[_Open]) -> Sequence[_Open]:
        fork = self._add_node('{"branch"}')
        self.connect(arrows, fork)
        ends: list[_Open] = []
        for child in branch.pipelines:
            planned = plan_step(child)
            ends.extend(self._add_step(planned, [_Open(fork, planned.requires)]))
        join = self._add_node('{"merge"}')
        self.connect(ends, join)
        return [_Open(join, provides)]

    def _add_node(self, shape: str) -> str:
        self._count += 1
        node = f"s{self._count}"
        self.lines.append(f"{'    ' * self._depth}{node}{shape}")
        return node

    def _begin_group(self, title: str) -> None:
        self._count += 1
        text = title.replace('"', "#quot;")  # a lane may have any name
        self.lines.append(f'{"    " * self._depth}subgraph g{self._count}["{text}"]')
        self._depth += 1

    def _end_group(self) -> None:
        self._depth -= 1
        self.lines.append(f"{'    ' * self._depth}end")
