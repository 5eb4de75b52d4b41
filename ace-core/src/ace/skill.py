"""The contents of a skillbook: skills, their sources, the cases that prove them, and decisions about similar pairs.

All of them are immutable. A change creates a new object, so a skill that was returned never changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from ace._internal.arguments import instance_of
from ace._internal.decoding import NO_OTHER_FIELDS, Count, DecodingError, Exactly, Finite, Truth, decoded
from ace._internal.json_fields import JsonValue

TAGS = ("helpful", "harmful", "neutral")
"""The counters of a skill, which are the only valid tags."""

ACTIVE = "active"
PENDING = "pending"
INVALID = "invalid"
STATUSES = (ACTIVE, PENDING, INVALID)
Status = Annotated[str, Exactly(type="literal", expected=list(STATUSES))]
"""Whether a skill is shown to agents: only an active one is. A pending one waits for evidence or for a decision."""

Evidence = Literal["truth", "recovery", "failure", "person", "none"]
"""What shows that a lesson is right: `truth` is a ground truth or the verdict of an environment, `recovery` a failed
call that a later one repaired, `failure` one that nothing repaired, `person` the judgement of a person. With `none`,
only the model says so."""
EVIDENCES = get_args(Evidence)

CheckKind = Literal["exact", "contains", "numeric", "any_of", "regex", "call", "environment", "judge"]
"""The ways to check an answer; see `CaseCheck`."""
CHECK_KINDS = get_args(CheckKind)

CaseResult = Literal["passed", "failed", "not_run"]
"""The results of asking a case."""
CASE_RESULTS = get_args(CaseResult)

Provenance = Literal["full", "ids"]
"""What to record about the trace that taught a skill: its texts and cases, or only its name and place."""
PROVENANCES = get_args(Provenance)
Unproven = Literal["pending", "keep", "drop"]
"""What to do with a skill that nothing shows to be right: one that fails the case that it was learned from with every
text that was tried, or was learned from a trace that no one judged. `pending` keeps it without showing it to agents,
`keep` shows it, and `drop` removes it if it fails its case."""

MAX_CASES = 20
"""The maximum number of cases that learning gives a skill; the oldest are kept. Cases that were added by hand,
imported or merged are not limited. A history is replayed with this number, so changing it would change the result of an
old history.
"""

Proof = Literal["proven", "failing", "unproven"]
"""The verdict of the cases of a skill."""


@dataclass(frozen=True)
class InsightSource:
    """Where a skill was learned: its provenance.

    Example:
        >>> InsightSource("runs.jsonl#12", "Capital of France?").trace_id
        'runs.jsonl#12'
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    trace_id: str = ""
    """Identity of the trace: its place, or a hash of the raw record."""
    sample_question: str = ""
    """The question that the trace answers."""
    epoch: Count = 0
    """The epoch in which it was learned, from 1; 0 if there is none."""
    step: Count = 0
    """The position of the sample in its epoch, from 1; 0 if there is none."""
    integration: str = ""
    """The name of the runner or plugin that made the trace."""
    error_identification: str = ""
    """The error that the skill was learned from."""
    learning_text: str = ""
    """The learning of the reflector that became the skill."""
    evidence: Evidence = "none"
    """What the trace shows; see `Evidence`."""

    def to_dict(self) -> dict[str, str | int]:
        """Return the fields as a dict, in a fixed order; `evidence` is omitted if it is `none`."""
        fields = dict(self.__dict__)
        if self.evidence == "none":
            del fields["evidence"]
        return fields


@dataclass(frozen=True)
class CaseCheck:
    """A check of the answer to a case, which `ace.cases` performs.

    Example:
        >>> CaseCheck("contains", "14h30").to_dict()
        {'kind': 'contains', 'value': '14h30'}
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    kind: CheckKind
    """`exact`: the value alone. `contains`: every line of the value, each as whole words or codes. `any_of`: one of
    the lines. `numeric`: the number, and no other number that would do. `regex`: a match of the pattern.
    `call`: a call of the tool in the first line, with the values in the lines after a `+`, and without those after a
    `-`; a line of several values after a `-` only rejects a call with all of them.
    `environment`: the judgement of the environment with this name. `judge`: the yes of a model to this rubric."""
    value: str
    """The value, depending on the kind; several values are on separate lines."""

    def to_dict(self) -> dict[str, str]:
        """Return the fields as a dict, in a fixed order."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class SkillCase:
    """A question that a skill was learned from, with a check of its answer.

    Create one with `SkillCase.make`, which computes its id.

    Example:
        >>> case = SkillCase.make("When is high water?", CaseCheck("contains", "14h30"), wrong="2:30 pm")
        >>> case.last_result, len(case.id)
        ('not_run', 12)
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    id: str
    """A hash of the question, its context and the check."""
    question: str
    """The question."""
    check: CaseCheck
    """The check that a correct answer passes."""
    context: str = ""
    """The context of the question."""
    wrong: str = ""
    """The answer that was corrected or judged to be wrong; empty if there is none."""
    correction: str = ""
    """The feedback of the person or the environment on it; may be empty."""
    expected: str = ""
    """The correct answer that was finally accepted."""
    trace_id: str = ""
    """The trace that it comes from."""
    made_at: str = ""
    """The time of its creation: ISO 8601, UTC."""
    last_result: CaseResult = "not_run"
    """The result when it was last asked, with the skills of the book."""
    last_run_at: str = ""
    """The time when it was last asked: ISO 8601, UTC; empty if never."""
    model: str = ""
    """The model that gave the last answer."""
    answer: str = ""
    """The last answer."""
    evidence: Evidence = "truth"
    """What shows that the expected answer is right; see `Evidence`."""

    @classmethod
    def make(
        cls,
        question: str,
        check: CaseCheck,
        *,
        context: str = "",
        wrong: str = "",
        correction: str = "",
        expected: str = "",
        trace_id: str = "",
        made_at: str = "",
        evidence: Evidence = "truth",
    ) -> SkillCase:
        """Return a case that has not been run.

        Args:
            check: The check that a correct answer passes.
            context: The context of the question.
            wrong: The answer that was corrected.
            correction: The feedback on it.
            expected: The correct answer.
            trace_id: The trace that it comes from.
            made_at: The time of its creation: ISO 8601, UTC.
            evidence: What shows that the expected answer is right.
        """
        import hashlib  # seldom needed, and this module is imported by every program

        instance_of("check", check, CaseCheck, advice='such as CaseCheck("contains", "14h30")')
        identity = "\0".join((question, context, check.kind, check.value))
        digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        return cls(
            digest,
            question,
            check,
            context=context,
            wrong=wrong,
            correction=correction,
            expected=expected,
            trace_id=trace_id,
            made_at=made_at,
            evidence=evidence,
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> SkillCase:
        """Read a case from the dict that `to_dict` returns.

        Args:
            data: The fields; all but `id`, `question` and `check` may be missing.

        Raises:
            ValueError: If a field is missing, unknown or has a wrong value. The text begins with its name.

        Example:
            >>> case = SkillCase.make("2+2?", CaseCheck("numeric", "4"))
            >>> SkillCase.from_dict(case.to_dict()) == case
            True
        """
        case = decoded(cls, {"check": None, **data})
        for name in ("id", "question"):
            if not getattr(case, name).strip():
                raise DecodingError(f".{name}", "must not be empty")
        return case

    def to_dict(self) -> dict[str, str | dict[str, str]]:
        """Return the fields as a dict, in a fixed order; `evidence` is omitted if it is `truth`."""
        fields = {**self.__dict__, "check": self.check.to_dict()}
        if self.evidence == "truth":
            del fields["evidence"]
        return fields


@dataclass(frozen=True)
class Skill:
    """One short strategy.

    Example:
        >>> skill = Skill("geography-00001", "geography", "Paris is the capital of France.", helpful=2)
        >>> skill.is_active, skill.counts()
        (True, {'helpful': 2, 'harmful': 0, 'neutral': 0})
    """

    __pydantic_config__ = NO_OTHER_FIELDS

    id: str
    """The id, which answers cite, such as `geography-00001`."""
    section: str
    """The section that the skill belongs to."""
    content: str
    """The text of the strategy."""
    helpful: Count = 0
    """The number of times that it was judged helpful."""
    harmful: Count = 0
    """The number of times that it was judged harmful."""
    neutral: Count = 0
    """The number of times that it was judged to have made no difference."""
    justification: str | None = None
    """The reason for the skill."""
    evidence: str | None = None
    """The evidence in the trace."""
    created_at: str = ""
    """The time when it was added: ISO 8601, UTC."""
    updated_at: str = ""
    """The time of the last change: ISO 8601, UTC."""
    embedding: bytes | None = None
    """The vector of the content: float32, little endian; removed when the content changes."""
    status: Status = ACTIVE
    """`active`; `pending`, see `reason`; or `invalid` after it was rejected, merged or soft-removed."""
    sources: tuple[InsightSource, ...] = ()
    """The traces that this skill was learned from, oldest first."""
    merged_into: str | None = None
    """The skill that this one was merged into, if any."""
    cases: tuple[SkillCase, ...] = ()
    """The cases that prove this skill, oldest first."""
    pinned: Truth = False
    """Whether the user pinned it: it comes first, and neither learning nor pruning changes or removes it."""
    reason: str = ""
    """Why it is pending, or why it was rejected; empty for other skills."""

    @property
    def proof(self) -> Proof:
        """The verdict of its cases: `failing` if one failed when last run, `proven` if all passed, else `unproven`."""
        results = {case.last_result for case in self.cases}
        if "failed" in results:
            return "failing"
        return "proven" if results == {"passed"} else "unproven"

    @property
    def is_active(self) -> bool:
        """Whether the skill is shown to agents."""
        return self.status == ACTIVE

    @property
    def is_pending(self) -> bool:
        """Whether the skill waits for evidence or for a decision, and is not shown to agents until then."""
        return self.status == PENDING

    @property
    def is_rejected(self) -> bool:
        """Whether a person rejected the skill, so that it must not be proposed again."""
        return self.status == INVALID and bool(self.reason)

    @property
    def evidences(self) -> tuple[Evidence, ...]:
        """The kinds of evidence of its cases and sources, each once, in the order of `Evidence`, without `none`.

        Example:
            >>> Skill("a-00001", "a", "b", sources=(InsightSource("t", evidence="person"),)).evidences
            ('person',)
        """
        found = {case.evidence for case in self.cases} | {source.evidence for source in self.sources}
        return tuple(kind for kind in EVIDENCES if kind in found and kind != "none")

    def counts(self) -> dict[str, int]:
        """Return the three counters by tag."""
        return {"helpful": self.helpful, "harmful": self.harmful, "neutral": self.neutral}

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the fields as a dict, in a fixed order.

        The embedding is omitted, and so are `merged_into`, `pinned`, `cases` and `reason` if they are empty.

        Example:
            >>> list(Skill("a-00001", "a", "Check the units.").to_dict())[:3]
            ['id', 'section', 'content']
        """
        fields: dict[str, JsonValue] = {
            "id": self.id,
            "section": self.section,
            "content": self.content,
            "helpful": self.helpful,
            "harmful": self.harmful,
            "neutral": self.neutral,
            "justification": self.justification,
            "evidence": self.evidence,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "status": self.status,
            "sources": [{**source.to_dict()} for source in self.sources],
        }
        if self.merged_into is not None:
            fields["merged_into"] = self.merged_into
        if self.pinned:
            fields["pinned"] = True
        if self.cases:
            fields["cases"] = [_case_dict(case) for case in self.cases]
        if self.reason:
            fields["reason"] = self.reason
        return fields

    def replace(self, **changes: object) -> Skill:
        """Return a copy with other values in the named fields.

        Raises:
            TypeError: If there is no field of that name.

        Example:
            >>> Skill("a-00001", "a", "old").replace(content="new").content
            'new'
        """
        fields = self.__dict__ | changes
        if len(fields) != len(self.__dict__):
            raise TypeError(f"a skill has no field {sorted(changes.keys() - self.__dict__.keys())}")
        return skill_from_fields(fields)


def _case_dict(case: SkillCase) -> JsonValue:
    return {name: value if isinstance(value, str) else {**value} for name, value in case.to_dict().items()}


def skill_from_fields(fields: dict[str, object]) -> Skill:
    """Return a skill that takes over the dict, which holds every field and is not checked again.

    Four times faster than the constructor of a frozen dataclass, which sets field by field. For
    readers that checked the types already.
    """
    skill = object.__new__(Skill)
    object.__setattr__(skill, "__dict__", fields)
    return skill


def source_from_fields(fields: dict[str, object]) -> InsightSource:
    """Return a source that takes over the dict, as `skill_from_fields` does for a skill."""
    source = object.__new__(InsightSource)
    object.__setattr__(source, "__dict__", fields)
    return source


def case_from_fields(fields: dict[str, object]) -> SkillCase:
    """Return a case that takes over the dict, as `skill_from_fields` does for a skill."""
    case = object.__new__(SkillCase)
    object.__setattr__(case, "__dict__", fields)
    return case


def case_check_from_fields(fields: dict[str, object]) -> CaseCheck:
    """Return a check that takes over the dict, as `skill_from_fields` does for a skill."""
    check = object.__new__(CaseCheck)
    object.__setattr__(check, "__dict__", fields)
    return check


@dataclass(frozen=True)
class SimilarityDecision:
    """The decision to keep both of two similar skills."""

    __pydantic_config__ = NO_OTHER_FIELDS

    decision: str = "KEEP"
    """The judgement; only `KEEP` stops the pair from being reported again."""
    reasoning: str = ""
    """The reason."""
    decided_at: str = ""
    """The time of the decision: ISO 8601, UTC."""
    similarity_at_decision: Finite = 0.0
    """The similarity of the pair when it was judged, from -1 to 1."""

    def to_dict(self) -> dict[str, str | float]:
        """Return the fields as a dict, in a fixed order."""
        return dict(self.__dict__)


def similarity_pair(first_id: str, second_id: str) -> tuple[str, str]:
    """Return the two ids in the order in which a pair is stored.

    Example:
        >>> similarity_pair("b-00002", "a-00001")
        ('a-00001', 'b-00002')
    """
    return (first_id, second_id) if first_id <= second_id else (second_id, first_id)


def join_sources(*groups: Iterable[InsightSource]) -> tuple[InsightSource, ...]:
    """Return all sources in order, each once."""
    return tuple(dict.fromkeys(source for group in groups for source in group))


def join_cases(*groups: Iterable[SkillCase]) -> tuple[SkillCase, ...]:
    """Return all cases in order, each once; of several with one id, the last one counts.

    Example:
        >>> case = SkillCase.make("2+2?", CaseCheck("numeric", "4"))
        >>> [joined.id == case.id for joined in join_cases([case], [case])]
        [True]
    """
    return tuple({case.id: case for group in groups for case in group}.values())


def missing_cases(skill: Skill, other: Skill) -> tuple[SkillCase, ...]:
    """Return the cases that the other skill has and this one lacks, by their ids."""
    known = {case.id for case in skill.cases}
    return tuple(case for case in other.cases if case.id not in known)


# The first word of a section, a hyphen, and at least five digits; with or without brackets.
_SKILL_ID = re.compile(r"(?<![\w-])[^\W_](?:[\w-]*\w)?-\d{5,}(?!-?\w)")


def extract_cited_skill_ids(text: str) -> list[str]:
    """Return the ids of the skills that a text cites, in the order of their first citation, without duplicates.

    Args:
        text: The reasoning of an agent.

    Example:
        >>> extract_cited_skill_ids("By [maths-00002] and [geography-00001, maths-00002] it is 4.")
        ['maths-00002', 'geography-00001']
    """
    instance_of("text", text, str)
    return list(dict.fromkeys(_SKILL_ID.findall(text)))


def normalised_text(content: str) -> str:
    """Return the text of a skill for finding the same text again: white space and punctuation at words are ignored.

    Case and punctuation inside words are kept, because they may be the subject of the skill.

    Example:
        >>> normalised_text("Check the units  first.") == normalised_text("check the units, first")
        True
        >>> normalised_text("Write mW.") == normalised_text("Write MW.")
        False
    """
    normal = " ".join(word.rstrip(".,;:!?") or word for word in content.split())
    return normal[:1].casefold() + normal[1:]
