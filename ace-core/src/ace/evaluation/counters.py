"""A gate that compares the counters of a skillbook before and after a batch of operations.

Counters are bookkeeping: they say how often a skill was judged helpful or harmful. The gate prevents a model from
discarding what has helped; it does not measure whether a skill helps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, final

from ace._internal.arguments import checked_arguments
from ace.context import SelectedSkills, SkillbookView
from ace.protocols.gate import GateVerdict
from ace.skill import TAGS, normalised_text
from ace.skillbook import Skillbook

if TYPE_CHECKING:
    from ace.protocols.roles import SkillbookReader
    from ace.skill import Skill
    from ace.updates import UpdateBatch, UpdateOperation

__all__ = ["CounterGate", "CounterMetrics", "counter_metrics"]


@dataclass(frozen=True, slots=True)
class CounterMetrics:
    """The sums of the counters of the active skills of a book.

    A skill is judged if it has been called helpful or harmful at least once. Averages are over judged skills only: over
    all skills, each new one would lower them.
    """

    skills: int = 0
    """The number of active skills."""
    judged: int = 0
    """How many of them were judged."""
    helpful: int = 0
    """How often they were judged helpful, in all."""
    harmful: int = 0
    """How often they were judged harmful, in all."""
    sections: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The number of active skills by section."""

    @property
    def net(self) -> int:
        """How often skills were judged helpful minus how often they were judged harmful."""
        return self.helpful - self.harmful

    @property
    def average_helpful(self) -> float:
        """How often a judged skill was judged helpful, on average."""
        return self.helpful / self.judged if self.judged else 0.0

    @property
    def average_harmful(self) -> float:
        """How often a judged skill was judged harmful, on average."""
        return self.harmful / self.judged if self.judged else 0.0

    def figures(self) -> dict[str, float]:
        """Return the numbers that the gate compares, by name."""
        return {
            "skills": self.skills,
            "judged": self.judged,
            "average_helpful": self.average_helpful,
            "average_harmful": self.average_harmful,
            "net": self.net,
        }


@checked_arguments()
def counter_metrics(skillbook: SkillbookReader) -> CounterMetrics:
    """Return the metrics of the active skills of a book.

    Args:
        skillbook: The book, or a view of it.

    Example:
        >>> from ace import Skillbook
        >>> book = Skillbook()
        >>> _ = book.add_skill("maths", "Check the units.", metadata={"helpful": 3, "harmful": 1})
        >>> counter_metrics(book).net
        2
    """
    skills = skillbook.skills()
    return CounterMetrics(
        skills=len(skills),
        judged=sum(skill.helpful > 0 or skill.harmful > 0 for skill in skills),
        helpful=sum(skill.helpful for skill in skills),
        harmful=sum(skill.harmful for skill in skills),
        sections=MappingProxyType(Counter(skill.section for skill in skills)),
    )


@final
class CounterGate:
    """Accepts a batch that does not lower the net score, by the first of these rules that holds.

    1. The net score rises.
    2. The net score is equal, and the average of helpful rises.
    3. Neither the net score nor the average of helpful falls, and there are more skills.
    4. All figures are equal, and the batch changes a skill, or adds one that is pending: equal is good enough for a
       refinement, and what is pending is shown to no agent.

    A batch that adds skills is refused if an operation names an id that may be that of an added skill.
    TAG operations are counted on both sides, because they are applied whatever the verdict is. Of the helpful counters
    that ADD and UPDATE bring, as a merge does, only as many count as the removed skills of the batch had.

    Example:
        >>> from ace import Skillbook
        >>> from ace.updates import UpdateBatch, UpdateOperation
        >>> book = Skillbook()
        >>> skill = book.add_skill("maths", "Check the units.", metadata={"helpful": 3})
        >>> batch = UpdateBatch(operations=[UpdateOperation("REMOVE", skill_id=skill.id)])
        >>> CounterGate().judge(skillbook=book, batch=batch).reason
        'net score 3 -> 0 (-3)'
    """

    def judge(self, *, skillbook: SkillbookReader, batch: UpdateBatch) -> GateVerdict:
        """Judge a batch by the counters before and after it.

        Args:
            skillbook: The book as it is.
            batch: The operations that would be applied, in order.
        """
        if not any(operation.type != "TAG" for operation in batch.operations):
            return GateVerdict(False, "nothing to do")
        metrics = _sums(skillbook)
        tags = [operation for operation in batch.operations if operation.type == "TAG"]
        before = _after(metrics, skillbook, tags)[0] if tags else metrics
        after, is_refined = _after(metrics, skillbook, batch.operations)
        accepted, reason = _compared(before, after, is_refined=is_refined)
        if (id := _id_of_an_added_skill(skillbook, batch)) is not None:
            accepted = False
            reason = f"{id!r} may be the id of a skill that the batch adds"
        return GateVerdict(accepted, reason, before.figures(), after.figures())


def _id_of_an_added_skill(skillbook: SkillbookReader, batch: UpdateBatch) -> str | None:
    """Return an id for which it depends on the book which skill it names, because the batch adds skills; or None.

    It is the id of a skill that the book lacks and another operation changes, or an id that an ADD asks for and may not
    get, or gets only because the batch removes the skill that has it.
    """
    adds = [operation for operation in batch.operations if operation.type == "ADD"]
    if not adds:
        return None
    others = [operation for operation in batch.operations if operation.type != "ADD" and operation.skill_id]
    for operation in others:
        if skillbook.get_skill(operation.skill_id or "") is None:
            return operation.skill_id
    removed = {operation.skill_id for operation in others if operation.type == "REMOVE"}
    wanted = Counter(operation.skill_id for operation in adds if operation.skill_id)
    book_chooses = wanted.total() < len(adds)
    for id, count in wanted.items():
        if id in removed or (skillbook.get_skill(id) is None and (count > 1 or book_chooses)):
            return id
    return None


def _sums(skillbook: SkillbookReader) -> CounterMetrics:
    """Return the metrics without the sections; a skillbook keeps them as sums, so its skills are not looked at."""
    if not isinstance(skillbook, Skillbook | SkillbookView) or isinstance(skillbook, SelectedSkills):
        return counter_metrics(skillbook)
    stats = skillbook.stats()
    tags = stats["tags"]
    assert isinstance(tags, dict)
    return CounterMetrics(len(skillbook), skillbook.judged_count(), tags["helpful"], tags["harmful"])


def _compared(before: CounterMetrics, after: CounterMetrics, *, is_refined: bool) -> tuple[bool, str]:
    """Return whether the change is accepted, and the figure that decides it."""
    if after.net != before.net:
        return after.net > before.net, f"net score {_shown(before.net, after.net)}"
    # Averages of the same sums are equal only as fractions: 5/3 of one book is 10/6 of another.
    helpful = after.helpful * (before.judged or 1) - before.helpful * (after.judged or 1)
    if helpful:
        averages = f"{before.average_helpful:.2f} -> {after.average_helpful:.2f}"
        return helpful > 0, f"net score unchanged at {after.net}, average helpful {averages}"
    if after.skills != before.skills:
        return (
            after.skills > before.skills,
            f"net score unchanged at {after.net}, skills {_shown(before.skills, after.skills)}",
        )
    if is_refined and (after.helpful, after.harmful, after.judged) == (before.helpful, before.harmful, before.judged):
        return True, f"net score unchanged at {after.net}, skills changed in place"
    return False, "nothing to do" if not is_refined else f"net score unchanged at {after.net}, and nothing improves"


def _shown(before: int, after: int) -> str:
    return f"{before} -> {after} ({after - before:+d})"


def _after(
    metrics: CounterMetrics, skillbook: SkillbookReader, operations: Sequence[UpdateOperation]
) -> tuple[CounterMetrics, bool]:
    """Return the metrics after the operations, without sections, and whether one of them changes an existing skill.

    Only the skills that are named are looked at, and the texts of all if something is added. Operations that the
    skillbook would skip count for nothing. A pending skill that is added changes no figure.
    """
    effect = _Effect(skillbook, operations)
    for operation in operations:
        if operation.pending:
            effect.is_refined |= operation.type == "ADD"
        else:
            effect.apply(operation)
    left = [counts for counts in effect.touched.values() if counts is not None]
    return _with(metrics, gone=effect.first.values(), come=left), effect.is_refined


@final
class _Effect:
    """What operations do to the counters of the active skills that they name or add."""

    def __init__(self, skillbook: SkillbookReader, operations: Sequence[UpdateOperation]) -> None:
        self._skillbook = skillbook
        self._credit = _helpful_removed(skillbook, operations)
        adds = any(operation.type == "ADD" for operation in operations)
        self._texts = _texts_of(skillbook) if adds else {}
        self.first: dict[str, _Counts] = {}
        """The active skills that operations name, as they are."""
        self.touched: dict[str, _Counts | None] = {}
        """These and the added skills after the operations so far; None if a skill is not active."""
        self.is_refined = False

    def apply(self, operation: UpdateOperation) -> None:
        if operation.type == "ADD":
            self._add(operation)
            return
        id = operation.skill_id or ""
        before = self._counts(id)
        if before is None:
            return
        if operation.type == "REMOVE":
            self.touched[id] = None
            self._forget_text(id)
        elif operation.type == "TAG":
            self.touched[id] = before.tagged(operation)
        elif operation.type == "UPDATE":
            self._update(id, before, operation)

    def _add(self, operation: UpdateOperation) -> None:
        """Add a skill. One with a known text joins that skill, and makes a pending one active."""
        if not _can_be_added(operation, self._skillbook):
            return
        text = _text_of(operation.section, operation.content or "")
        id = self._texts.setdefault(text, f"added {len(self.touched)}")
        before = self._counts(id)
        self.is_refined |= before is not None
        start = before or _Counts.of_pending(self._skillbook.get_skill(id))
        self.touched[id], self._credit = start.claimed(operation, self._credit)

    def _update(self, id: str, before: _Counts, operation: UpdateOperation) -> None:
        skill = self._skillbook.get_skill(id)
        if skill is None or _is_skipped(operation, skill):
            return
        self.touched[id], self._credit = before.claimed(operation, self._credit)
        self.is_refined = True
        if self._texts:
            self._forget_text(id)
            text = _text_of(operation.section.strip() or skill.section, operation.content or skill.content)
            self._texts.setdefault(text, id)

    def _counts(self, id: str) -> _Counts | None:
        """Return the counters of a skill as they are now; None if it is not active."""
        if id not in self.touched:
            self.touched[id] = _Counts.of_skill(self._skillbook.get_skill(id))
            if (known := self.touched[id]) is not None:
                self.first[id] = known
        return self.touched[id]

    def _forget_text(self, id: str) -> None:
        self._texts = {text: other for text, other in self._texts.items() if other != id}


def _texts_of(skillbook: SkillbookReader) -> dict[tuple[str, str], str]:
    """Return the ids of the active and pending skills by section and text."""
    texts: dict[tuple[str, str], str] = {}
    for skill in skillbook.skills(include_invalid=True):
        if skill.is_active or skill.is_pending:
            texts.setdefault(_text_of(skill.section, skill.content), skill.id)
    return texts


def _text_of(section: str, content: str) -> tuple[str, str]:
    return " ".join(section.split()), normalised_text(content)


def _helpful_removed(skillbook: SkillbookReader, operations: Sequence[UpdateOperation]) -> int:
    """Return how often the skills that the operations remove were judged helpful."""
    ids = {operation.skill_id or "" for operation in operations if operation.type == "REMOVE"}
    removed = [skill for id in ids if (skill := skillbook.get_skill(id)) is not None and skill.is_active]
    return sum(skill.helpful for skill in removed)


@dataclass(frozen=True, slots=True)
class _Counts:
    """The counters of one active skill."""

    helpful: int
    harmful: int

    @classmethod
    def of_skill(cls, skill: Skill | None) -> _Counts | None:
        return None if skill is None or not skill.is_active else cls(skill.helpful, skill.harmful)

    @classmethod
    def of_pending(cls, skill: Skill | None) -> _Counts:
        """Return the counts of a skill that becomes active; of a new one, none."""
        return cls(0, 0) if skill is None or not skill.is_pending else cls(skill.helpful, skill.harmful)

    def tagged(self, operation: UpdateOperation) -> _Counts:
        """Return the counts after a TAG."""
        if not _are_counters(operation):
            return self
        helpful, harmful = (_count(operation.counters.get(name, 0)) for name in ("helpful", "harmful"))
        return _Counts(self.helpful + helpful, self.harmful + harmful)

    def claimed(self, operation: UpdateOperation, credit: int) -> tuple[_Counts, int]:
        """Return the counts after an ADD or UPDATE, and what is left of the credit.

        A merge moves the counters of a removed skill to another one. Beyond these, counters that an operation brings
        are a claim of the model, with which it could make up for any loss.
        """
        helpful = min(_count(operation.counters.get("helpful", 0)), credit)
        harmful = _count(operation.counters.get("harmful", 0))
        return _Counts(self.helpful + helpful, self.harmful + harmful), credit - helpful


def _with(metrics: CounterMetrics, *, gone: Iterable[_Counts], come: Iterable[_Counts]) -> CounterMetrics:
    skills, judged, helpful, harmful = metrics.skills, metrics.judged, metrics.helpful, metrics.harmful
    for sign, changed in ((-1, gone), (1, come)):
        for counts in changed:
            skills += sign
            judged += sign * (counts.helpful > 0 or counts.harmful > 0)
            helpful += sign * counts.helpful
            harmful += sign * counts.harmful
    return CounterMetrics(skills, judged, helpful, harmful)


def _can_be_added(operation: UpdateOperation, skillbook: SkillbookReader) -> bool:
    is_taken = bool(operation.skill_id) and skillbook.get_skill(operation.skill_id or "") is not None
    return bool(operation.content and not operation.content.isspace()) and not is_taken and _are_counters(operation)


def _is_skipped(operation: UpdateOperation, skill: Skill) -> bool:
    """Return whether the skillbook skips an update: the skill is pinned, the content is blank, or nothing changes."""
    if not _are_counters(operation):
        return True
    if operation.content is not None and not operation.content.strip():
        return True
    section = operation.section.strip()
    moves = bool(section) and section != skill.section
    if skill.pinned and (moves or operation.content not in (None, skill.content)):
        return True
    texts = (operation.content, operation.justification, operation.evidence)
    changes_text = moves or any(text is not None for text in texts)
    return not (changes_text or operation.counters or operation.cases)


def _are_counters(operation: UpdateOperation) -> bool:
    """Return whether the counters of an operation are whole numbers; otherwise the skillbook skips it."""
    return all(name in TAGS and type(value) is int and value >= 0 for name, value in operation.counters.items())


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
