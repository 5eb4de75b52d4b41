"""The settings of the service: defaults < user file < project file < environment < options of the command.

The files are those of `ace`, in which the service has the table `[server]`; the variables begin with `ACE_SERVER_`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, get_args

from ace.integrations import UsageError, setting_tables
from ace.skillbook import has_scheme, shown_location
from ace_server.data_folder import check_unnamed_folder

__all__ = ["BOOK_NAME", "IN_PROJECTS", "LEARNING", "PUBLISH", "Learning", "Publish", "ServerSettings", "load_settings"]

Learning = Literal["off", "feedback", "heuristic", "reviewed"]
Publish = Literal["gate", "review", "always"]
LEARNING: Final[tuple[str, ...]] = get_args(Learning)
PUBLISH: Final[tuple[str, ...]] = get_args(Publish)

BOOK_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
"""The pattern of the names of books."""

_TABLE: Final = "server"
_PREFIX: Final = "ACE_SERVER_"
_SECRETS: Final = {"keys": "encryption keys", "proxy_secret": "secrets"}
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_LARGEST: Final = 1e9


def _setting(default: Any, *, least: float | None = None, in_project: bool = False, is_shown: bool = True) -> Any:
    """Declare a setting.

    Args:
        default: Its value if no source sets it.
        least: The smallest number that it may be.
        in_project: Whether the `ace.toml` of a project, which may come from a stranger, may set it. Only what decides
            how fast something happens is left to projects: not who gets in, what is stored where and for how long,
            what a model may read, and who publishes.
        is_shown: Whether the value is printed with the settings.
    """
    return field(default=default, repr=is_shown, metadata={"least": least, "in_project": in_project})


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The settings of the service. Times are in seconds.

    Example:
        >>> ServerSettings(batch_size=5).batch_age
        3600.0
        >>> ServerSettings(batch_size=0)
        Traceback (most recent call last):
        ...
        ValueError: batch_size must be a whole number of at least 1, got 0
    """

    data: Path = _setting(Path("ace-server"))
    """The data folder."""
    database: str | None = _setting(None, is_shown=False)
    """`postgresql://...`; None is the file `server.db` in the data folder."""

    host: str = _setting("127.0.0.1")
    """The address to listen on."""
    port: int = _setting(8765, least=0, in_project=True)
    """The port; 0 takes a free one."""
    hosts: tuple[str, ...] = _setting(())
    """The names by which browsers may call the page; loopback is always allowed."""
    behind_proxy: bool = _setting(False)
    """Whether a proxy in front terminates TLS and sets `X-Forwarded-For` and `X-Forwarded-Proto`."""
    proxy_user_header: str = _setting("")
    """The header in which that proxy names who has logged in there, for the page; if empty, no user is accepted."""
    proxy_user_scopes: tuple[str, ...] = _setting(("read",))
    """What the users that it names may do on the page."""

    projects: tuple[str, ...] = _setting(())
    """Folders on this machine whose pending lessons of coding agents, such as those of `ace sleep`, the page shows."""

    sync_seconds: float = _setting(60.0, least=0.05, in_project=True)
    """How often the service checks for newly published releases."""
    max_concurrent: int = _setting(32, least=1)
    """How many answers are generated at once in a process."""
    queue_seconds: float = _setting(2.0, least=0, in_project=True)
    """How long a request waits for one of them, before it is answered with 503."""
    answer_seconds: float = _setting(30.0, least=0.05, in_project=True)
    """How long a request may take, before it is answered with 504."""
    skills: int = _setting(20, least=1, in_project=True)
    """How many skills are put into a prompt."""
    in_flight: int = _setting(8, least=1)
    """How many requests of one key may be in flight in a process."""
    max_body_kb: int = _setting(256, least=1)
    """The largest body of a request, in kilobytes."""
    max_trace_mb: int = _setting(16, least=1)
    """The largest recorded trace, in megabytes."""
    feedback_wait: float = _setting(5.0, least=0, in_project=True)
    """How long feedback waits for the request that it is about."""

    learning: Learning = _setting("feedback")
    """What books learn from, unless their own settings differ."""
    publish: Publish | None = _setting(None)
    """Who publishes what a book has learned; None means the gate if it has validation samples, else a person."""
    batch_size: int = _setting(20, least=1, in_project=True)
    """The number of new feedback items that start a batch."""
    batch_age: float = _setting(3600.0, least=0, in_project=True)
    """The age of the oldest new feedback at which a batch is made."""
    schedule_seconds: float = _setting(1.0, least=0.05, in_project=True)
    """How often the service checks whether a batch can be made, and whether a queued one can start."""
    reflections_per_call: int = _setting(8, least=1, in_project=True)
    """How many reflections one request to the skill manager may be about."""
    reflect_workers: int = _setting(4, least=1, in_project=True)
    """How many traces of a batch are reflected on at once."""
    concurrency: int = _setting(2, least=1, in_project=True)
    """How many batches a worker learns from at once, of which one per book: a long one only stops its own book."""
    attempts: int = _setting(3, least=1, in_project=True)
    """How many attempts at a batch are made."""
    retry_seconds: float = _setting(30.0, least=0.01, in_project=True)
    """The time before the second attempt at a batch; it doubles with each further one."""
    heartbeat_seconds: float = _setting(10.0, least=0.05, in_project=True)
    """How often a worker records that it is alive."""
    silent_seconds: float = _setting(60.0, least=0.1, in_project=True)
    """How long a worker is silent before others resume its batches."""
    review_share: float = _setting(0.05, least=0)
    """The largest share of requests that are listed for review because they are uncertain."""

    anonymise: bool = _setting(True)
    """Whether personal data is replaced before a model gets it, unless the settings of a book differ."""
    keep_requests: float = _setting(30.0, least=0)
    """How many days requests are kept."""
    keep_feedback: float = _setting(90.0, least=0)
    """How many days feedback is kept."""
    keep_reviews: float = _setting(90.0, least=0)
    """How many days the texts of reviews are kept."""
    keep_audit: float = _setting(365.0, least=0)
    """How many days the audit log is kept."""
    keep_workflows: float = _setting(30.0, least=0)
    """How many days DBOS keeps finished workflows."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            least = setting.metadata["least"]
            if least is not None and not (least <= value <= _LARGEST):
                kind = "a whole number" if setting.type == "int" else "a number"
                raise ValueError(f"{setting.name} must be {kind} of at least {least:g}, got {value:g}")
        _check_choice("learning", self.learning, LEARNING)
        if self.publish is not None:
            _check_choice("publish", self.publish, PUBLISH)
        if self.database is not None and not self.database.startswith(("postgresql://", "postgres://")):
            raise ValueError(f"database must be postgresql://..., got {shown_location(self.database)!r}")

    @property
    def database_location(self) -> str | Path:
        """The location of the service's database."""
        return self.database if self.database is not None else self.data / "server.db"

    def book_location(self, name: str) -> str:
        """Return the default location of a book.

        Args:
            name: The name of the book.

        Example:
            >>> ServerSettings().book_location("support")
            'ace-server/books/support.db'
            >>> ServerSettings(database="postgresql://db/ace?sslmode=require").book_location("support")
            'postgresql://db/ace?sslmode=require&book=support'
        """
        if self.database is None:
            return str(self.data / "books" / f"{name}.db")
        kept = [
            parameter
            for parameter in self.database.partition("?")[2].split("&")
            if parameter and not parameter.startswith("schema=")
        ]
        return f"{self.database.partition('?')[0]}?{'&'.join([*kept, f'book={name}'])}"


def load_settings(
    options: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> ServerSettings:
    """Merge the settings: defaults < user file < project file < environment < options.

    Args:
        options: The options of the command by the names of the settings; None where one was not given.
        environ: The environment; by default that of the process.
        folder: The folder in which the command runs; by default the current one.

    Raises:
        UsageError: A source holds an unknown name or an unusable value, and the text names the source; or the data
            folder may come from a stranger, and was not named.

    Example:
        >>> load_settings({"port": 0}, environ={"ACE_SERVER_BATCH_SIZE": "5"}, folder=Path("/")).batch_size
        5
    """
    variables = os.environ if environ is None else environ
    found: dict[str, Any] = {}
    for source in setting_tables(_TABLE, environ=variables, folder=folder):
        for name, value in source.values.items():
            found[name] = _from_file(source.path, name, value, is_project=source.is_project)
    for setting in fields(ServerSettings):
        text = variables.get(f"{_PREFIX}{setting.name.upper()}", "")
        if text:
            found[setting.name] = _parsed(f"the variable {_PREFIX}{setting.name.upper()}", setting.name, text)
    found |= {name: value for name, value in (options or {}).items() if value is not None}
    try:
        settings = ServerSettings(**found)
    except ValueError as error:
        raise UsageError(f"the setting {error}") from error
    if "data" not in found:
        check_unnamed_folder((folder or Path()) / settings.data)
    return settings


def _from_file(path: Path, name: str, value: object, *, is_project: bool) -> object:
    where = f"{path}: {name!r} in [{_TABLE}]"
    if name in _SECRETS:
        raise UsageError(f"{where}: {_SECRETS[name]} do not belong in a file; use the variable {_PREFIX}{name.upper()}")
    if name not in _KINDS:
        raise UsageError(f"{path}: no such setting in [{_TABLE}]: {name!r}; the settings are {', '.join(_KINDS)}")
    if is_project and name not in IN_PROJECTS:
        raise UsageError(
            f"{where}: not in the file of a project, which may come from a stranger; put it into your own settings "
            f"file ('ace config' shows where it is) or the variable {_PREFIX}{name.upper()}"
        )
    checked = _checked(where, name, value)
    if name == "data" and isinstance(checked, Path) and not has_scheme(str(checked)):
        return path.parent / checked.expanduser()
    return checked


IN_PROJECTS: Final = frozenset(setting.name for setting in fields(ServerSettings) if setting.metadata["in_project"])
"""The settings that the file of a project may set."""

_KINDS: Final[Mapping[str, str]] = {
    setting.name: str(setting.type).partition(" | ")[0] for setting in fields(ServerSettings)
}


def _checked(where: str, name: str, value: object) -> object:
    kind = _KINDS[name]
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind in ("int", "float") and isinstance(value, int | float) and not isinstance(value, bool):
        if kind == "int" and not isinstance(value, int):
            raise UsageError(f"{where} must be a whole number, got {value!r}")
        return value
    if kind.startswith("tuple") and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if kind == "Path" and isinstance(value, str):
        return Path(value)
    if kind in ("str", "Learning", "Publish") and isinstance(value, str):
        return value
    raise UsageError(f"{where} must be {_wanted(kind)}, got {str(value)[:80]!r}")


def _parsed(where: str, name: str, text: str) -> object:
    kind = _KINDS[name]
    if kind == "bool":
        return _checked(where, name, _BOOLEANS.get(text.strip().lower(), text))
    if kind.startswith("tuple"):
        return tuple(item.strip() for item in text.split(",") if item.strip())
    if kind in ("int", "float"):
        try:
            return int(text) if kind == "int" else float(text)
        except ValueError:
            raise UsageError(f"{where} must be {_wanted(kind)}, got {text[:80]!r}") from None
    return _checked(where, name, text)


def _wanted(kind: str) -> str:
    if kind.startswith("tuple"):
        return "a list of strings"
    return {"bool": "true or false", "int": "a whole number", "float": "a number"}.get(kind, "a string")


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
