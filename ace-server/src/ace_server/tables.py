"""The tables of the service.

Times are seconds since 1970 (UTC). Ids begin with what they name and with the time (`new_id`), so that rows are listed
by id in the order in which they were created, and an id is also a cursor. `sealed` columns hold text of users, and are
only written and read through `ace_server.seal`; `list` columns hold words with a space between them.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    true,
)

__all__ = [
    "METADATA",
    "audit",
    "audit_head",
    "batch",
    "book",
    "deletion",
    "experiment",
    "feedback",
    "key",
    "login_token",
    "logout",
    "release",
    "request",
    "review",
    "schema_version",
    "seal_key",
    "secret",
    "worker",
]

METADATA: Final = MetaData()


def _id() -> Column[str]:
    return Column("id", Text, primary_key=True)


def _sealed(name: str, *, nullable: bool = True) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=nullable, info={"sealed": True})


def _time(name: str = "at", *, nullable: bool = False) -> Column[float]:
    return Column(name, Double, nullable=nullable)


schema_version: Final = Table("schema_version", METADATA, Column("version", Integer, primary_key=True))
"""One row: how many migrations were applied."""

book: Final = Table(
    "book",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("location", Text),  # NULL: `books/NAME.db` in the data folder, or book NAME of the service's database
    Column("learning", Text, nullable=False, server_default="feedback"),  # off | feedback | heuristic | reviewed
    Column("publish", Text),  # gate | review | always; NULL: gate with validation samples, else review
    Column("validation", Text),  # the file of validation samples
    Column("anonymise", Boolean, nullable=False, server_default=true()),
    Column("anonymiser", Text),  # package.module:Class
    Column("batch_size", Integer),  # NULL: the setting
    Column("batch_age", Double),
    Column("review_share", Double),
    _time(),
)

release: Final = Table(
    "release",
    METADATA,
    _id(),
    Column("book", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    _time(),
    Column("by", Text, nullable=False),  # the id of a key, or "worker"
    Column("state", Text, nullable=False),  # candidate | published | retired
    Column("reason", Text),
    Column("score", Double),  # held-out, 0 to 1
    Column("batch", Text),
    _time("published_at", nullable=True),
    Column("published_by", Text),
    UniqueConstraint("book", "version"),
)
Index(
    "release_published",
    release.c.book,
    unique=True,  # a book has at most one published release
    sqlite_where=release.c.state == "published",
    postgresql_where=release.c.state == "published",
)

request: Final = Table(
    "request",
    METADATA,
    _id(),
    _time(),
    Column("book", Text, nullable=False),
    Column("release", Text),  # NULL: the book has no published release yet
    Column("key", Text, nullable=False),
    Column("subject", Text),
    _sealed("question", nullable=False),
    _sealed("context"),
    _sealed("answer", nullable=False),
    _sealed("reasoning"),
    _sealed("metadata"),  # JSON
    Column("skill_ids", Text, nullable=False),  # list
    Column("model", Text),
    Column("model_calls", Integer, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("cost", Double),  # USD; NULL: the price is unknown
    Column("seconds", Double, nullable=False),
    Column("experiment", Text),
    Column("arm", Integer),
    Column("uncertain", Text),  # why a person should look at it
    # Whether it was looked at for a judgement without feedback, in a book that learns from these.
    Column("judged", Boolean, nullable=False, server_default=false()),
    Index("request_by_book", "book", "id"),
    Index("request_by_key", "key", "at"),
    Index("request_by_experiment", "experiment", "arm"),
    Index("request_by_subject", "subject"),
)

for _name, _some in (
    ("request_unjudged", request.c.judged.is_(false())),
    ("request_uncertain", request.c.uncertain.is_not(None)),
):
    Index(_name, request.c.book, request.c.id, sqlite_where=_some, postgresql_where=_some)

feedback: Final = Table(
    "feedback",
    METADATA,
    _id(),
    _time(),
    Column("book", Text, nullable=False),
    Column("kind", Text, nullable=False),  # feedback | trace | judgement (of a request without feedback)
    Column("request", Text),  # NULL for a trace
    Column("key", Text, nullable=False),
    Column("subject", Text),
    Column("thumb", Text),  # up | down
    Column("score", Double),
    _sealed("correction"),
    _sealed("comment"),
    _sealed("trace"),  # the recorded trace, as JSON
    Column("idempotency_key", Text),  # a keyed hash of what the client sent
    Column("state", Text, nullable=False),  # new | held | batched | learned | failed | rejected | purged
    Column("batch", Text),
    Column("problem", Text),
    UniqueConstraint("key", "idempotency_key"),
    Index("feedback_by_state", "book", "state", "at"),
    Index("feedback_by_request", "request"),
    Index("feedback_by_batch", "batch"),
    Index("feedback_by_subject", "subject"),
)

batch: Final = Table(
    "batch",
    METADATA,
    _id(),  # also the run id; the workflow is feedback-ID
    _time(),
    Column("book", Text, nullable=False),
    Column("state", Text, nullable=False),  # queued | running | learned | failed
    Column("samples", Integer, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("worker", Text),
    _time("started_at", nullable=True),
    _time("ended_at", nullable=True),
    Column("learned", Integer, nullable=False, server_default="0"),
    Column("failed", Integer, nullable=False, server_default="0"),
    Column("model_calls", Integer, nullable=False, server_default="0"),
    Column("tokens", BigInteger, nullable=False, server_default="0"),
    Column("cost", Double),
    Column("release", Text),  # the candidate
    Column("problem", Text),
    Column("accepted", Integer, nullable=False, server_default="0"),  # samples whose changes the gate has let through
    Column("refused", Integer, nullable=False, server_default="0"),
    Column("steps", Text),  # JSON: {"ReflectStep": {"calls": 4, "failed": 0, "seconds": 12.3}}
    Index("batch_by_book", "book", "id"),
    Index("batch_by_state", "state", "id"),
)

review: Final = Table(
    "review",
    METADATA,
    _id(),
    _time(),
    Column("book", Text, nullable=False),
    Column("kind", Text, nullable=False),  # feedback | contradiction | uncertain | release
    Column("request", Text),
    Column("feedback", Text),
    Column("release", Text),
    Column("subject", Text),
    Column("reason", Text),
    Column("state", Text, nullable=False),  # open | accepted | edited | rejected | superseded
    _time("decided_at", nullable=True),
    Column("decided_by", Text),
    _sealed("content"),
    _sealed("ground_truth"),
    _sealed("note"),
    Index("review_by_state", "state", "book", "id"),
    Index("review_by_kind", "book", "kind", "request"),
    Index("review_by_feedback", "feedback"),
    Index("review_by_subject", "subject"),
)

experiment: Final = Table(
    "experiment",
    METADATA,
    _id(),
    _time(),
    Column("book", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("arms", Text, nullable=False),  # JSON: [{"release": "...", "weight": 1.0}]
    Column("state", Text, nullable=False),  # running | stopped
    _time("stopped_at", nullable=True),
    Column("winner", Integer),
)
Index(
    "experiment_running",
    experiment.c.book,
    unique=True,  # a book has at most one running experiment
    sqlite_where=experiment.c.state == "running",
    postgresql_where=experiment.c.state == "running",
)

key: Final = Table(
    "key",
    METADATA,
    _id(),
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),  # SHA-256, hexadecimal
    Column("prefix", Text, nullable=False),  # the first 8 characters
    Column("scopes", Text, nullable=False),  # list
    Column("book", Text),  # NULL: every book
    Column("rate", Text),  # such as 60/minute
    Column("budget", Double),  # USD a day
    _time(),
    _time("expires_at", nullable=True),
    _time("revoked_at", nullable=True),
)

logout: Final = Table(
    "logout",
    METADATA,
    Column("session", Text, primary_key=True),  # the name of a login, or "command" for all by one-time tokens
    _time(),
)

login_token: Final = Table(
    "login_token",
    METADATA,
    Column("hash", Text, primary_key=True),  # SHA-256, hexadecimal
    _time(),
    _time("expires_at"),
    _time("used_at", nullable=True),
)

worker: Final = Table(
    "worker",
    METADATA,
    _id(),  # the executor id of DBOS
    Column("host", Text, nullable=False),
    Column("process", Integer, nullable=False),
    _time("started_at"),
    _time(),  # the last heartbeat
    _time("stopped_at", nullable=True),
)

audit: Final = Table(
    "audit",
    METADATA,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    _time(),
    Column("who", Text, nullable=False),  # the id of a key, "worker", "command", or "-" if it is not known
    Column("what", Text, nullable=False),  # such as key.add, release.publish, text.read, login.rejected
    Column("object", Text),
    Column("origin", Text),  # the address of the client
    Column("previous", Text, nullable=False),  # the hash of the row before
    Column("hash", Text, nullable=False),
)

audit_head: Final = Table(
    "audit_head",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("first", BigInteger, nullable=False),  # the number of the oldest row that was not purged
    Column("number", BigInteger, nullable=False),  # that of the newest row
    Column("hash", Text, nullable=False),  # that of the newest row
)

seal_key: Final = Table(
    "seal_key",
    METADATA,
    Column("id", Text, primary_key=True),  # the identifier of a key with which rows may be sealed
    _time(),
)

secret: Final = Table(
    "secret",
    METADATA,
    Column("name", Text, primary_key=True),
    _sealed("value", nullable=False),
)
"""Keys that stay the same when those of the seal are replaced."""

deletion: Final = Table(
    "deletion",
    METADATA,
    _id(),
    _time(),
    Column("subject", Text),  # NULL when it is done
    Column("by", Text, nullable=False),
    Column("batches", Text, nullable=False, server_default=""),  # list: what learned from feedback of the subject
    _time("done_at", nullable=True),
    Column("failed", Boolean, nullable=False, server_default=false()),
)
