"""`ace server`: serves answers with learned skills, and learns from the feedback on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from ace.cli import CommandContext, ModelOptions
from ace.integrations import (
    DONE,
    WITH_FAILURES,
    UsageError,
    counted,
    listening_socket,
    note,
    print_json,
    print_table,
    print_text,
)
from ace_server.settings import ServerSettings, load_settings

if TYPE_CHECKING:
    from ace_server.database import Database
    from ace_server.service import RunningWorker, Service

__all__ = ["app"]

app = App(name="server", help="Serve answers with learned skills, and learn from the feedback on them.")
keys_app = App(name="keys", help="Add, list and revoke API keys.")
books_app = App(name="books", help="Add and list books.")
seal_app = App(name="seal", help="Create and replace encryption keys.")
review_app = App(name="review", help="Decide about what the service has learned.")
app.command(keys_app)
app.command(books_app)
app.command(seal_app)
app.command(review_app)

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
JsonFlag = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]

_DEFAULT_MODEL = ModelOptions()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """The options that select a service."""

    data: Path | None = None
    """The data folder. [env: ACE_SERVER_DATA] [default: ace-server]"""
    database: str | None = None
    """The Postgres database of the service, instead of the one in the data folder. [env: ACE_SERVER_DATABASE]"""

    def settings(self, **others: object) -> ServerSettings:
        """Return the settings with these options.

        Args:
            **others: Further options by the names of the settings; None where one was not given.
        """
        return load_settings({"data": self.data, "database": self.database, **others})


_DEFAULT_SERVICE = ServiceOptions()
_DAY = 86_400.0


@app.command
def run(
    *,
    where: ServiceOptions = _DEFAULT_SERVICE,
    host: str | None = None,
    port: int | None = None,
    no_worker: Flag = False,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    behind_proxy: Annotated[bool | None, Parameter(negative="", show_default=False)] = None,
    skillbook: str | None = None,
    model_options: ModelOptions = _DEFAULT_MODEL,
    yes: Flag = False,
    context: CommandContext,
) -> int:
    """Serve the API and the page, and learn from feedback, until Ctrl-C or SIGTERM.

    In an empty folder, it creates the data folder with a database, a book, an admin key and an encryption key. The
    address of the page contains a token that works once.

    For example:

        ace server run
        ace server run --skillbook skills.db --model openai/gpt-4o-mini
        ace server run --database postgresql://ace@db.internal/ace --no-worker --host 0.0.0.0 --behind-proxy

    Args:
        where: Options of the service.
        host: The address to listen on; other than loopback requires TLS. [env: ACE_SERVER_HOST] [default: 127.0.0.1]
        port: The port; 0 takes a free one. [env: ACE_SERVER_PORT] [default: 8765]
        no_worker: Do not learn in this process; another one does, with `ace server worker`.
        tls_cert: The certificate for TLS, as a PEM file.
        tls_key: The key of the certificate, as a PEM file.
        behind_proxy: A proxy in front terminates TLS, and sets X-Forwarded-For and X-Forwarded-Proto.
            [env: ACE_SERVER_BEHIND_PROXY]
        skillbook: Serve this existing skillbook in place, as the book `default`.
        model_options: Options of the model.
        yes: Do not ask for confirmation.
        context: The settings of the user.
    """
    settings = where.settings(host=host, port=port, behind_proxy=behind_proxy)
    from ace_server import running
    from ace_server.opening import check_skillbook
    from ace_server.proxy import proxy_secret

    if (tls_cert is None) != (tls_key is None):
        raise UsageError("--tls-cert and --tls-key must be given together")
    running.check_address(settings.host, is_protected=tls_cert is not None or settings.behind_proxy)
    secret_of_proxy = proxy_secret(settings)
    if skillbook is not None:
        check_skillbook(skillbook)
    with _service(settings, model_options, context, assume_yes=yes, create=True) as service:
        from ace_server.api.app import create_app
        from ace_server.opening import add_book, first_admin_key, publish_first
        from ace_server.pages import routes

        add_book(settings, service.database, "default", location=skillbook, exist_ok=True)
        publish_first(settings, service.database, _book_names(service.database))
        key_file = first_admin_key(settings, service.database)
        listening = listening_socket(settings.host, settings.port)
        scheme = "http" if tls_cert is None else "https"
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"{scheme}://{shown}:{listening.getsockname()[1]}"

        def ready() -> None:
            note(f"ace: serving {service.model} at {address}")
            note(f"ace: open {address}/login?token={_login_token(service.database)} (works once)")
            if key_file is not None:
                note(f"ace: the admin key is in {key_file}")

        return running.serve(
            create_app(service, pages=routes(service), proxy_secret=secret_of_proxy),
            listening,
            service=service,
            start_worker=None if no_worker else _worker_starter(service),
            on_ready=ready,
            certificate=tls_cert,
            certificate_key=tls_key,
        )


@app.command
def worker(
    *,
    where: ServiceOptions = _DEFAULT_SERVICE,
    concurrency: int | None = None,
    model_options: ModelOptions = _DEFAULT_MODEL,
    yes: Flag = False,
    context: CommandContext,
) -> int:
    """Learn from feedback, until Ctrl-C or SIGTERM.

    On Postgres, any number of workers can run on any hosts; on SQLite, one at a time.

    For example:

        ace server worker --database postgresql://ace@db.internal/ace

    Args:
        where: Options of the service.
        concurrency: The number of batches to learn from concurrently. [env: ACE_SERVER_CONCURRENCY] [default: 2]
        model_options: Options of the model.
        yes: Do not ask for confirmation.
        context: The settings of the user.
    """
    settings = where.settings(concurrency=concurrency)
    with _service(settings, model_options, context, assume_yes=yes) as service:
        from ace_server.running import work_until_stopped

        return work_until_stopped(_worker_starter(service))


@app.command
def migrate(*, where: ServiceOptions = _DEFAULT_SERVICE) -> int:
    """Create the tables, or upgrade them to this version. Other commands then need no rights to create tables.

    For example:

        ace server migrate --database postgresql://owner@db.internal/ace

    Args:
        where: Options of the service.
    """
    settings = where.settings()
    from ace_server.data_folder import create_data_folder
    from ace_server.database import Database

    if settings.database is None:
        create_data_folder(settings.data)
    with _saying_why(), closing(Database(settings.database_location)) as opened:
        applied = opened.migrate()
        note(f"ace: {opened.shown}: {counted(applied, 'migration')} applied")
    return DONE


@app.command
def status(
    *, audit_head: str | None = None, where: ServiceOptions = _DEFAULT_SERVICE, as_json: JsonFlag = False
) -> int:
    """Show the books, the workers and the batches, and check the audit log.

    For example:

        ace server status
        ace server status --json

    Args:
        audit_head: The head of the audit log that was printed earlier, NUMBER:HASH; no row up to it may have changed.
        where: Options of the service.
        as_json: Print one JSON object.
    """
    settings = where.settings()
    with _database(settings) as opened:
        from ace_server.audit import AuditHead
        from ace_server.status import status_of

        try:
            known = None if audit_head is None else AuditHead.parse(audit_head)
        except ValueError as error:
            raise UsageError(str(error)) from error
        found = status_of(opened, settings, known=known)
    if as_json:
        print_json({"command": "server status", **found.as_json()})
    else:
        for text in found.lines():
            print_text(text)
    return WITH_FAILURES if found.problems else DONE


@app.command
def purge(
    *,
    older_than: float | None = None,
    dry_run: Flag = False,
    where: ServiceOptions = _DEFAULT_SERVICE,
) -> int:
    """Delete texts that are older than the retention settings allow. The service does this every night.

    For example:

        ace server purge --dry-run
        ace server purge --older-than 7

    Args:
        older_than: Delete everything older than this, in days.
        dry_run: Only report how much would be deleted.
        where: Options of the service.
    """
    if older_than is not None and older_than < 0:
        raise UsageError(f"--older-than must be at least 0 days, got {older_than:g}")
    settings = where.settings()
    with _database(settings) as opened:
        from ace_server.opening import book_opener
        from ace_server.retention import purge as purge_rows

        found = purge_rows(
            opened, settings, book_opener(settings, opened), by="command", older_than=older_than, dry_run=dry_run
        )
    did = "would be deleted" if dry_run else "deleted"
    for name, count in found.rows.items():
        print_text(f"{name}: {count} {did}")
    return DONE


@keys_app.command(name="add")
def add_key(
    name: str,
    /,
    *,
    scope: str,
    book: str | None = None,
    rate: str | None = None,
    budget: str | None = None,
    expires: float | None = None,
    where: ServiceOptions = _DEFAULT_SERVICE,
) -> int:
    """Create a key and print it. It cannot be displayed again.

    For example:

        ace server keys add web-shop --scope infer,feedback --rate 60/minute --budget 5/day
        ace server keys add ann --scope read,review --expires 30

    Args:
        name: The name of its owner, at most 200 characters.
        scope: Its scopes: infer, feedback, read, review, admin (includes all); separated by commas.
        book: The only book that it is valid for.
        rate: The maximum number of requests, such as 60/minute; counted in each process.
        budget: The maximum cost of its answers per day (UTC), in USD, such as 5/day.
        expires: The number of days after which it expires.
        where: Options of the service.
    """
    if expires is not None and expires <= 0:
        raise UsageError(f"--expires must be greater than 0 days, got {expires:g}")
    settings = where.settings()
    with _database(settings) as opened:
        from ace_server import audit, keys
        from ace_server.database import now

        if book is not None and book not in _book_names(opened):
            raise UsageError(f"no such book: {book!r}; 'ace server books list' lists them")
        try:
            with opened.writing() as connection:
                identifier, secret = keys.add_key(
                    connection,
                    name,
                    [part.strip() for part in scope.split(",") if part.strip()],
                    book=book,
                    rate=rate,
                    budget=_budget(budget),
                    expires_at=None if expires is None else now() + expires * _DAY,
                )
                audit.record(connection, who="command", what="key.add", target=identifier)
        except ValueError as error:
            raise UsageError(str(error)) from error
    note(f"ace: added {identifier}; the key is shown only once")
    print_text(secret)
    return DONE


@keys_app.command(name="list")
def list_keys(*, where: ServiceOptions = _DEFAULT_SERVICE, as_json: JsonFlag = False) -> int:
    """List the keys, without their secrets.

    For example:

        ace server keys list

    Args:
        where: Options of the service.
        as_json: Print one JSON object.
    """
    settings = where.settings()
    with _database(settings) as opened:
        from ace_server import keys

        with opened.reading() as connection:
            found = keys.list_keys(connection)
    if as_json:
        shown = [
            {
                "id": key.id,
                "name": key.name,
                "prefix": key.prefix,
                "scopes": sorted(key.scopes),
                "book": key.book,
                "rate": key.rate,
                "budget": key.budget,
                "created_at": key.created_at,
                "expires_at": key.expires_at,
                "revoked_at": key.revoked_at,
            }
            for key in found
        ]
        print_json({"command": "server keys list", "keys": shown})
        return DONE
    rows = [
        [
            key.prefix,
            key.name,
            ",".join(sorted(key.scopes)),
            key.book or "all",
            "valid" if key.is_valid else "revoked" if key.revoked_at is not None else "expired",
            _day(key.created_at),
            key.id,
        ]
        for key in found
    ]
    print_table(["key", "name", "scopes", "book", "state", "added", "id"], rows)
    return DONE


@keys_app.command(name="revoke")
def revoke_key(key: str, /, *, where: ServiceOptions = _DEFAULT_SERVICE) -> int:
    """Revoke a key. Running processes reject it within a few seconds.

    For example:

        ace server keys revoke ace_x7Qk
        ace server keys revoke command

    Args:
        key: Its id, or its first 8 characters; `command` ends all logins with a one-time token.
        where: Options of the service.
    """
    settings = where.settings()
    with _database(settings) as opened:
        from ace_server import audit, keys
        from ace_server.pages.sessions import TOKEN_VISITOR, end_login

        with opened.writing() as connection:
            if key == TOKEN_VISITOR:
                end_login(connection, key)
                revoked: str | None = key
            else:
                revoked = keys.revoke_key(connection, key)
            if revoked is not None:
                audit.record(connection, who="command", what="key.revoke", target=revoked)
    if revoked is None:
        raise UsageError(f"no such valid key: {key!r}; 'ace server keys list' lists them")
    note(f"ace: revoked {revoked}")
    return DONE


@books_app.command(name="add")
def add_book(
    name: str,
    /,
    *,
    from_skillbook: Annotated[str | None, Parameter(name="--from")] = None,
    location: str | None = None,
    anonymiser: str | None = None,
    no_anonymise: Flag = False,
    where: ServiceOptions = _DEFAULT_SERVICE,
) -> int:
    """Create a book and publish its initial skills. Running processes serve it after their next sync.

    For example:

        ace server books add support
        ace server books add support --from skills.db

    Args:
        name: Its name: at most 64 letters, digits, and . _ - after the first character.
        from_skillbook: A skillbook whose skills are copied into it.
        location: The location of the book: a .db file or `postgresql://...?book=NAME`; by default in the data folder or
            the database.
        anonymiser: The class that finds the personal data that the model must not see, as `package.module:Class`; by
            default the built-in one.
        no_anonymise: Send personal data to the model. [default: the setting anonymise]
        where: Options of the service.
    """
    settings = where.settings()
    with _database(settings) as opened:
        from ace_server import opening

        opening.add_book(
            settings,
            opened,
            name,
            location=location,
            skills_from=from_skillbook,
            anonymise=False if no_anonymise else None,
            anonymiser=anonymiser,
        )
    note(f"ace: added the book {name}")
    return DONE


@books_app.command(name="list")
def list_books(*, where: ServiceOptions = _DEFAULT_SERVICE, as_json: JsonFlag = False) -> int:
    """List the books.

    For example:

        ace server books list

    Args:
        where: Options of the service.
        as_json: Print one JSON object.
    """
    settings = where.settings()
    with _database(settings) as opened:
        from ace_server.status import books_of

        found = books_of(opened, settings)
    if as_json:
        print_json({"command": "server books list", "books": [book.as_json() for book in found]})
    else:
        rows = [[book.name, book.shown_release, book.learning, str(book.new_feedback), book.location] for book in found]
        print_table(["book", "release", "learning", "new feedback", "location"], rows)
    return DONE


@review_app.command(name="list")
def list_reviews(*, where: ServiceOptions = _DEFAULT_SERVICE, as_json: JsonFlag = False) -> int:
    """List the candidates that wait for a person: what publishing each would change, and what users said.

    For example:

        ace server review list

    Args:
        where: Options of the service.
        as_json: Print one JSON object.
    """
    settings = where.settings()
    with _database(settings) as opened:
        from ace_server.review_commands import open_reviews, print_reviews

        found = open_reviews(settings, opened)
    if as_json:
        print_json({"command": "server review list", "reviews": [review.as_json() for review in found]})
    else:
        print_reviews(found)
    return DONE


@review_app.command(name="accept")
def accept_review(review: str, /, *, where: ServiceOptions = _DEFAULT_SERVICE, confirm_removals: Flag = False) -> int:
    """Publish a candidate. Older candidates leave the queue.

    For example:

        ace server review accept rev_01a2

    Args:
        review: The id of the review.
        where: Options of the service.
        confirm_removals: Also remove skills from what users get.
    """
    return _decided(where, review, "accept", removes=confirm_removals)


@review_app.command(name="reject")
def reject_review(review: str, /, *, where: ServiceOptions = _DEFAULT_SERVICE) -> int:
    """Reject a candidate. What it changed is undone in the skillbook, and not learned again.

    For example:

        ace server review reject rev_01a2

    Args:
        review: The id of the review.
        where: Options of the service.
    """
    return _decided(where, review, "reject", removes=False)


def _decided(where: ServiceOptions, review: str, decision: Literal["accept", "reject"], *, removes: bool) -> int:
    settings = where.settings()
    with _database(settings) as opened:
        from ace_server.review_commands import decide_review

        decide_review(settings, opened, review, decision, removes=removes)
    note(f"ace: {decision}ed {review}")
    return DONE


@seal_app.command(name="new")
def new_seal() -> int:
    """Print a new encryption key for the variable ACE_SERVER_KEYS.

    For example:

        export ACE_SERVER_KEYS=$(ace server seal new)
    """
    from ace_server.seal import new_key

    print_text(new_key())
    return DONE


@seal_app.command(name="rotate")
def rotate_seal(*, where: ServiceOptions = _DEFAULT_SERVICE) -> int:
    """Encrypt all user texts again with a new key. The service may keep running.

    Keys in the data folder are replaced. If they are in ACE_SERVER_KEYS, put the new key before the others there and
    restart all processes first.

    For example:

        ace server seal rotate

    Args:
        where: Options of the service.
    """
    settings = where.settings()
    with _database(settings) as opened:
        from ace_server.opening import opened_seal
        from ace_server.rotation import rotate

        found = rotate(opened, opened_seal(settings, opened))
    note(f"ace: {counted(found.rows, 'row')} sealed with the key {found.key}")
    if found.unreadable:
        note(f"ace: {counted(found.unreadable, 'row')} could not be opened and are sealed as before")
    return WITH_FAILURES if found.unreadable else DONE


@contextmanager
def _service(
    settings: ServerSettings,
    model_options: ModelOptions,
    context: CommandContext,
    *,
    assume_yes: bool,
    create: bool = False,
) -> Iterator[Service]:
    """Open the service with its model."""
    from ace_server.opening import opened_seal
    from ace_server.running import log_to_file
    from ace_server.service import Service

    ace_settings = context.settings(**model_options.flags())
    with _database(settings, create=create) as database:
        log_to_file(settings.data / "logs", "server")
        seal = opened_seal(settings, database)
        with context.model(ace_settings, assume_yes=assume_yes) as client:
            model = ace_settings.model or "the model on this machine"
            yield Service(settings=settings, database=database, seal=seal, client=client, model=model)


@contextmanager
def _database(settings: ServerSettings, *, create: bool = False) -> Iterator[Database]:
    """Open the database. If it cannot be used, report why and exit with code 1."""
    from ace_server.opening import opened_database

    with _saying_why(), closing(opened_database(settings, create=create)) as database:
        yield database


@contextmanager
def _saying_why() -> Iterator[None]:
    """If the database cannot be used, report why and exit with code 1."""
    from ace_server.database import DatabaseUnavailableError, DatabaseVersionError

    try:
        yield
    except (DatabaseVersionError, DatabaseUnavailableError) as error:
        note(f"ace: {error}")
        raise SystemExit(WITH_FAILURES) from error


def _book_names(database: Database) -> list[str]:
    import sqlalchemy as sa

    from ace_server import tables

    with database.reading() as connection:
        return list(connection.scalars(sa.select(tables.book.c.name)))


def _login_token(database: Database) -> str:
    from ace_server.keys import add_login_token

    with database.writing() as connection:
        return add_login_token(connection)


def _worker_starter(service: Service) -> Callable[[], RunningWorker]:
    def start() -> RunningWorker:
        from ace_server.jobs import start_worker

        return start_worker(service)

    return start


def _budget(text: str | None) -> float | None:
    if text is None:
        return None
    amount, _, period = text.partition("/")
    try:
        if period not in ("", "day"):
            raise ValueError
        return float(amount)
    except ValueError:
        raise UsageError(f"--budget must be USD per day such as 5/day, got {text!r}") from None


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
