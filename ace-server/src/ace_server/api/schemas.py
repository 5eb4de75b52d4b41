"""The bodies of requests and responses. Within `/v1`, fields are only ever added."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from ace_server.settings import BOOK_NAME

__all__ = [
    "AnswerBody",
    "AnswerGiven",
    "ArmBody",
    "ArmReport",
    "BookName",
    "BookNameInPath",
    "BookOut",
    "Cursor",
    "Decision",
    "Difference",
    "ExperimentBody",
    "ExperimentOut",
    "FeedbackAccepted",
    "FeedbackBody",
    "HistoryOut",
    "Limit",
    "Page",
    "ReleaseOut",
    "ReviewOut",
    "RunOut",
    "ShortText",
    "SkillCursor",
    "SkillOut",
    "StopBody",
    "SubjectDeletion",
    "SubjectInPath",
    "UsageOut",
]

_ID = r"^[a-z]+_[0-9a-f]{32}$"


def _storable(text: str) -> str:
    """Reject what cannot be sent to a model or stored: half of a surrogate pair, and NUL."""
    if "\0" in text:
        raise ValueError("must not contain the character U+0000")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode") from None
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _not_boolean(value: object) -> object:
    if isinstance(value, bool):  # pydantic would take it for 0 or 1
        raise ValueError("must be a number")
    return value


Storable = AfterValidator(_storable)
Number = BeforeValidator(_not_boolean)
Question = Annotated[str, Field(min_length=1, max_length=20_000), Storable, AfterValidator(_not_blank)]
LongText = Annotated[str, Field(max_length=100_000), Storable]
ShortText = Annotated[str, Field(min_length=1, max_length=200), Storable]
BookName = Annotated[str, Field(pattern=BOOK_NAME, description="The name of the book.")]
BookNameInPath = Annotated[str, Path(pattern=BOOK_NAME, description="The name of the book.")]
SubjectInPath = Annotated[
    str,
    Path(min_length=1, max_length=200, description="The subject, as the requests named it."),
    Storable,
]
ObjectId = Annotated[str, Path(pattern=_ID)]
Limit = Annotated[int, Query(ge=1, le=200, description="How many items to return.")]
Cursor = Annotated[
    str | None, Query(max_length=300, pattern="^[ -~]*$", description="`next_cursor` of the previous page.")
]
SkillCursor = Annotated[str | None, Query(max_length=300, description="`next_cursor` of the previous page.")]


Item = TypeVar("Item")


class _Body(BaseModel):
    """The body of a request. Fields that are not known are errors, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class AnswerBody(_Body):
    """A question."""

    question: Question
    """The question."""
    context: LongText | None = None
    """Further material for the answer."""
    book: BookName = "default"
    """The book whose skills are used."""
    subject: ShortText | None = None
    """The user that the request belongs to, for deletion, and for a constant arm in an experiment."""
    metadata: dict[str, JsonValue] | None = None
    """Data of the client that is stored with the request. It is not sent to the model."""


class UsageOut(BaseModel):
    """What the model calls have used."""

    model_calls: int
    """The number of calls."""
    input_tokens: int
    """The tokens of the prompts."""
    output_tokens: int
    """The tokens of the answers."""
    cost: float | None
    """US dollars; null if a price is not known."""


class AnswerGiven(BaseModel):
    """An answer."""

    request_id: str
    """The id for feedback."""
    answer: str
    """The answer."""
    reasoning: str
    """The reasoning."""
    skill_ids: list[str]
    """The skills that the answer cites."""
    release: str | None
    """The release that was used; null if nothing was published yet."""
    usage: UsageOut
    """What it has used."""
    experiment: str | None = None
    """The experiment that the request is part of."""


class FeedbackBody(_Body):
    """What a user says about an answer. At least one of thumb, score, correction and comment is given."""

    request_id: Annotated[str, Field(pattern=_ID)]
    """The request that was answered."""
    thumb: Literal["up", "down"] | None = None
    """Whether the answer was good."""
    score: Annotated[float, Field(ge=0, le=1), Number] | None = None
    """How good it was."""
    correction: LongText | None = None
    """The right answer."""
    comment: LongText | None = None
    """What the user says."""
    idempotency_key: ShortText | None = None
    """A key with which the same feedback can be sent again; it is stored once."""


class FeedbackAccepted(BaseModel):
    """The feedback is stored durably."""

    feedback_id: str
    """Its id."""


class Page(BaseModel, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    """The items."""
    next_cursor: str | None
    """The cursor of the next page; null if there is none."""


class BookOut(BaseModel):
    """A book."""

    name: str
    """Its name."""
    learning: str
    """What it learns from: off, feedback, heuristic or reviewed."""
    release: str | None
    """The published release."""
    version: int | None
    """The version of the published release."""
    new_feedback: int
    """The number of feedback items that wait for a batch."""


class SkillOut(BaseModel):
    """A skill of the published release."""

    id: str
    """Its id."""
    section: str
    """Its section."""
    content: str
    """Its text."""
    helpful: int
    """How often it was judged helpful."""
    harmful: int
    """How often it was judged harmful."""
    neutral: int
    """How often it was judged neither."""
    created_at: str
    """When it was added."""
    updated_at: str
    """When it was changed last."""


class HistoryOut(BaseModel):
    """A change to a skill."""

    version: int
    """The version of the book that it made."""
    at: str
    """When."""
    author: str
    """Who."""
    run: str | None
    """The run."""
    change: str
    """What was done."""
    content: str | None
    """The text of the skill afterwards."""


class ReleaseOut(BaseModel):
    """A release."""

    id: str
    """Its id."""
    book: str
    """The book."""
    version: int
    """The version of the book."""
    state: str
    """candidate, published or retired."""
    at: float
    """When it was made, in seconds since 1970."""
    by: str
    """Who made it."""
    reason: str | None
    """Why it is in this state."""
    score: float | None
    """The held-out score."""
    batch: str | None
    """The batch that it came from."""
    published_at: float | None
    """When it was published last."""
    published_by: str | None
    """Who published it."""


class RunOut(BaseModel):
    """A batch of feedback, and the run that learns from it."""

    id: str
    """Its id."""
    book: str
    """The book."""
    state: str
    """queued, running, learned or failed."""
    at: float
    """When it was made, in seconds since 1970."""
    samples: int
    """The number of feedback items."""
    attempts: int
    """How often it was tried."""
    learned: int
    """How many were learned."""
    failed: int
    """How many failed."""
    model_calls: int
    """The number of model calls."""
    tokens: int
    """Their tokens."""
    cost: float | None
    """Their cost, in USD."""
    started_at: float | None
    """When it was started first."""
    ended_at: float | None
    """When it ended."""
    release: str | None
    """The candidate that it made; null if it has not changed any skill."""
    problem: str | None
    """Why it failed."""


class OriginOut(BaseModel):
    """What a user said, from which a skill was learned. A text is null if there is none, or if it has been deleted."""

    feedback: str
    """The feedback."""
    question: str | None
    """The question."""
    answer: str | None
    """The answer that it is about."""
    correction: str | None
    """The right answer, or what is wrong with the answer."""
    comment: str | None
    """The comment."""


class ChangeOut(BaseModel):
    """A skill that publishing a release would change."""

    kind: Literal["added", "changed", "removed"]
    """What would happen to the skill."""
    skill: str
    """Its id."""
    section: str
    """Its section."""
    before: str | None
    """Its text in the published release."""
    after: str | None
    """Its text in this release."""
    origins: list[OriginOut]
    """What it was learned from."""


class ReviewOut(BaseModel):
    """A review: something that a person has to decide."""

    id: str
    """Its id."""
    book: str
    """The book."""
    kind: str
    """feedback, contradiction, uncertain or release."""
    state: str
    """open, accepted, edited, rejected, or superseded by a newer release."""
    at: float
    """When it was opened, in seconds since 1970."""
    reason: str | None
    """Why."""
    request: str | None
    """The request."""
    feedback: str | None
    """The feedback."""
    release: str | None
    """The release."""
    decided_at: float | None
    """When it was decided."""
    decided_by: str | None
    """Who decided it."""
    question: str | None = None
    """The question; only for keys with the scope review."""
    answer: str | None = None
    """The answer; only for keys with the scope review."""
    proposal: str | None = None
    """What the feedback says; only for keys with the scope review."""
    changes: list[ChangeOut] | None = None
    """What publishing the release would change; only for open reviews of releases, and keys with the scope review."""


class Decision(_Body):
    """A decision."""

    decision: Literal["accept", "edit", "reject"]
    """Accept it as it is, accept it with changes, or reject it."""
    content: LongText | None = None
    """With `edit`: the new comment of the feedback."""
    ground_truth: LongText | None = None
    """The right answer, if it is known."""
    note: LongText | None = None
    """The reason, for other reviewers."""
    confirm_removals: bool = False
    """Whether to accept a release that removes skills from what users get."""


class ArmBody(_Body):
    """A release and its share of the requests."""

    release: Annotated[str, Field(pattern=_ID)]
    """The id of the release."""
    weight: Annotated[float, Field(gt=0, le=1_000_000), Number] = 1.0
    """Its share, in relation to the weights of the others."""


class ExperimentBody(_Body):
    """A comparison of releases."""

    book: BookName = "default"
    """The book."""
    arms: Annotated[list[ArmBody], Field(min_length=2, max_length=10)]
    """The releases; the others are compared with the first one."""


class Difference(BaseModel):
    """How an arm differs from the first one in its mean score."""

    value: float
    """The difference."""
    low: float
    """The lower end of its 95 % bootstrap interval."""
    high: float
    """The upper end."""
    p: float
    """The probability of a difference this large if the arms are the same (permutation test)."""
    requests_needed: int | None
    """How many more requests each arm needs to see a difference of 5 points; null if it cannot be estimated yet."""


class ArmReport(BaseModel):
    """What is known about an arm."""

    release: str
    """The release."""
    weight: float
    """Its share."""
    requests: int
    """The number of requests."""
    feedback_rate: float | None
    """The share of requests with feedback."""
    mean_score: float | None
    """The mean score of requests with a score or a thumb (up is 1)."""
    corrections: int
    """The number of requests that were corrected."""
    tokens: int
    """The tokens of all requests."""
    cost: float | None
    """Their cost in USD; null if a price is not known."""
    seconds: float | None
    """The mean time of an answer."""
    difference: Difference | None = None
    """How it differs from the first arm."""


class ExperimentOut(BaseModel):
    """An experiment."""

    id: str
    """Its id."""
    book: str
    """The book."""
    state: str
    """running or stopped."""
    at: float
    """When it was started, in seconds since 1970."""
    by: str
    """Who started it."""
    stopped_at: float | None
    """When it was stopped."""
    winner: int | None
    """The number of the arm that won, from 0."""
    arms: list[ArmReport]
    """Its arms."""


class StopBody(_Body):
    """How an experiment ends."""

    winner: Annotated[int, Field(ge=0, le=9), Number] | None = None
    """The number of the arm to publish, from 0; null publishes nothing."""


class SubjectDeletion(BaseModel):
    """Everything of the subject will be deleted."""

    deletion_id: str
    """Its id in the audit log."""
