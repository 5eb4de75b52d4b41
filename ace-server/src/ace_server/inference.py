"""Answers questions with the published releases, which are held in memory.

A thread asks the database every `sync_seconds` for the published releases, and loads new ones beside the old
ones. Requests in flight finish with the release that they began with. If the database or a skillbook cannot be read,
the releases in memory remain in use.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import anyio.to_thread
import sqlalchemy as sa

from ace import Skillbook, SkillbookView
from ace.calls import call_scope, current_call_scope
from ace.context import SelectedSkills
from ace.integrations import UsageError
from ace.protocols import ShowsSkills, Usage
from ace.retrieval import TopSkills
from ace.roles import agent_for
from ace.skillbook import SkillbookError
from ace_server import tables
from ace_server.anonymise import Anonymised, AnonymiserError, Finder, anonymise, load_finder
from ace_server.database import DatabaseUnavailableError, now
from ace_server.error_places import described
from ace_server.experiments import RunningExperiment, arms_from_json

if TYPE_CHECKING:
    from ace_server.service import Service

__all__ = ["BusyError", "GivenAnswer", "Inference", "LoadedRelease"]

_logger = logging.getLogger(__name__)

_RELEASE: Final = tables.release
_EXPERIMENT: Final = tables.experiment
_BOOKS: Final = sa.select(
    tables.book,
    _RELEASE.c.id.label("release"),
    _RELEASE.c.version,
    _EXPERIMENT.c.id.label("experiment"),
    _EXPERIMENT.c.arms,
).select_from(
    tables.book.outerjoin(
        _RELEASE, sa.and_(_RELEASE.c.book == tables.book.c.name, _RELEASE.c.state == "published")
    ).outerjoin(_EXPERIMENT, sa.and_(_EXPERIMENT.c.book == tables.book.c.name, _EXPERIMENT.c.state == "running"))
)
"""The books, each with its published release and its running experiment, of which there is at most one."""


class BusyError(Exception):
    """The maximum number of answers is being generated, and none ended in time."""


@dataclass(frozen=True)
class LoadedRelease:
    """A release in memory."""

    id: str | None
    """Its id; None if nothing was published yet."""
    book: str
    """The name of the book."""
    version: int
    """The version of the book."""
    skills: Skillbook = field(repr=False)
    """The skills, which are not changed."""
    choose: TopSkills = field(repr=False)
    """Chooses the skills for a question."""
    finder: Finder | None = field(repr=False)
    """Finds the personal data that the model must not see; None if it may."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer of the model."""

    answer: str
    """The answer."""
    reasoning: str
    """The reasoning."""
    skill_ids: tuple[str, ...]
    """The skills that it cites."""
    usage: Usage
    """What the model calls have used."""
    seconds: float
    """How long it took."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A snapshot of the releases; it is replaced as a whole."""

    published: Mapping[str, LoadedRelease]
    """By the name of the book."""
    by_id: Mapping[str, LoadedRelease]
    """Those of experiments too."""
    experiments: Mapping[str, RunningExperiment]
    """By the name of the book."""
    unreadable: frozenset[str] = frozenset()
    """The names of the books whose skillbook cannot be read. The releases that were loaded before are used."""


@final
class Inference:
    """Answers with published releases. Its methods may be called from any thread."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._agent = agent_for(service.client)
        self._loaded = _Loaded({}, {}, {})
        self._slots: asyncio.Semaphore | None = None
        self._wake = threading.Event()
        self._is_stopped = False
        self._syncing = threading.Lock()
        self._finders: dict[str | None, Finder] = {}
        self.is_ready = False
        """Whether releases were loaded once."""
        self.unreachable_since: float | None = None
        """Since when the database or a book could not be read, in seconds since 1970."""
        self._thread = threading.Thread(target=self._sync_often, name="ace-server-sync", daemon=True)

    def start(self) -> None:
        """Load the releases, and keep them current."""
        self.sync()
        self._thread.start()

    def stop(self) -> None:
        """Stop checking for new releases."""
        self._is_stopped = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Check for new releases now."""
        self._wake.set()

    def sync(self) -> None:
        """Load the releases that were published since."""
        with self._syncing:
            try:
                self._loaded = self._load()
            except Exception as error:  # the thread must not end: it is repeated, and `/readyz` says so
                self.unreachable_since = self.unreachable_since or now()
                is_known = isinstance(error, DatabaseUnavailableError)
                said = type(error).__name__ if is_known else f"unexpected {described(error)}"
                _logger.log(logging.WARNING if is_known else logging.ERROR, "the releases could not be read: %s", said)
                return
            self.is_ready = True
            self.unreachable_since = (self.unreachable_since or now()) if self._loaded.unreadable else None

    @property
    def published(self) -> Mapping[str, LoadedRelease]:
        """The published release of each book by its name."""
        return self._loaded.published

    def has_book(self, book: str) -> bool:
        """Return whether a book exists, even if its skillbook cannot be read.

        Args:
            book: Its name.
        """
        return book in self._loaded.published or book in self._loaded.unreadable

    def release_for(self, book: str, subject: str) -> tuple[LoadedRelease, RunningExperiment | None, int | None] | None:
        """Return the release for a request, with the experiment and the arm; None if there is no such book.

        Args:
            book: The name of the book.
            subject: The subject of the request, or else its id.
        """
        loaded = self._loaded
        published = loaded.published.get(book)
        experiment = loaded.experiments.get(book)
        if published is None or experiment is None:
            return None if published is None else (published, None, None)
        arm = experiment.arm_of(subject)
        release = loaded.by_id.get(experiment.arms[arm].release)
        return (published, None, None) if release is None else (release, experiment, arm)

    async def answer(self, release: LoadedRelease, question: str, context: str) -> GivenAnswer:
        """Answer a question.

        Args:
            context: Further material.

        Raises:
            BusyError: Too many answers are being generated.
            TimeoutError: It took too long.
            LLMError: The model could not be reached, or gave no usable answer.
        """
        settings = self._service.settings
        if self._slots is None:  # it belongs to the event loop of the server
            self._slots = asyncio.Semaphore(settings.max_concurrent)
        slots = self._slots
        began = time.monotonic()
        try:
            async with asyncio.timeout(settings.queue_seconds):
                await slots.acquire()
        except TimeoutError:
            raise BusyError("too many answers are being generated") from None
        try:
            async with asyncio.timeout(settings.answer_seconds):
                return await self._answer(release, question, context, began)
        finally:
            slots.release()

    async def _answer(self, release: LoadedRelease, question: str, context: str, began: float) -> GivenAnswer:
        request, view = await anyio.to_thread.run_sync(self._prepared, release, question, context)
        used: list[Usage] = []
        with call_scope(replace(current_call_scope(), on_usage=used.append)):
            output = await self._agent.agenerate(request.texts[0], request.texts[1], view)
        return GivenAnswer(
            answer=request.restore(output.final_answer),
            reasoning=request.restore(output.reasoning),
            skill_ids=tuple(output.skill_ids),
            usage=sum(used, Usage()),
            seconds=time.monotonic() - began,
        )

    def _prepared(self, release: LoadedRelease, question: str, context: str) -> tuple[Anonymised, SkillbookView]:
        """Return what the model may see of the texts, and the skills for them."""
        view = SkillbookView(release.skills)
        if release.finder is None:
            request = Anonymised((question, context), {})
        else:
            request = anonymise((question, context), release.finder)
        if not isinstance(self._agent, ShowsSkills):
            view = SelectedSkills(view, release.choose(request.texts[0], view))
        return request, view

    def _sync_often(self) -> None:
        while not self._is_stopped:
            self._wake.wait(self._service.settings.sync_seconds)
            self._wake.clear()
            if not self._is_stopped:
                self.sync()

    def _load(self) -> _Loaded:
        """Return the releases, those that are loaded already as they are. If nothing has changed, it is one query."""
        wanted: dict[str, tuple[sa.Row[Any], int]] = {}
        experiments: dict[str, RunningExperiment] = {}
        with self._service.database.reading() as connection:
            books = connection.execute(_BOOKS).all()
            for row in books:
                if row.release is not None:
                    wanted[row.release] = row, row.version
                if row.experiment is not None:
                    experiments[row.name] = RunningExperiment(row.experiment, arms_from_json(row.arms))
            for row in books:
                for release, version in self._arms(connection, experiments.get(row.name)):
                    wanted[release] = row, version
        by_id: dict[str, LoadedRelease] = {}
        unreadable: set[str] = set()
        for release, (book, version) in wanted.items():
            try:
                by_id[release] = self._loaded_release(release, book, version)
            except SkillbookError as error:  # the other books are not affected
                unreadable.add(book.name)
                _logger.warning("the book %s cannot be read: %s", book.name, type(error).__name__)
        found: dict[str, LoadedRelease] = {}
        for row in books:
            known = by_id.get(row.release) or self._loaded.published.get(row.name)
            if row.release is None:
                found[row.name] = self._empty(row)
            elif known is not None:
                found[row.name] = known
        return _Loaded(found, by_id, experiments, frozenset(unreadable))

    def _arms(self, connection: sa.Connection, experiment: RunningExperiment | None) -> list[tuple[str, int]]:
        """Return the ids and versions of the releases of an experiment."""
        wanted = [] if experiment is None else [arm.release for arm in experiment.arms]
        loaded = self._loaded.by_id
        found = [(release, loaded[release].version) for release in wanted if release in loaded]
        if missing := [release for release in wanted if release not in loaded]:
            columns = (tables.release.c.id, tables.release.c.version)
            rows = connection.execute(sa.select(*columns).where(tables.release.c.id.in_(missing)))
            found += [(row.id, row.version) for row in rows]
        return found

    def _empty(self, book: sa.Row[Any]) -> LoadedRelease:
        known = self._loaded.published.get(book.name)
        if known is not None and known.id is None:
            return replace(known, finder=self._finder(book))
        return self._made(None, book, 0, Skillbook())

    def _loaded_release(self, release: str, book: sa.Row[Any], version: int) -> LoadedRelease:
        known = self._loaded.by_id.get(release)
        if known is not None:
            return replace(known, finder=self._finder(book))
        with self._service.open_book(book.name) as opened:
            skills = opened if opened.version == version else opened.as_of(version)
        loaded = self._made(release, book, version, skills)
        loaded.choose("", SkillbookView(skills))  # so that the first request does not pay for the index
        return loaded

    def _made(self, release: str | None, book: sa.Row[Any], version: int, skills: Skillbook) -> LoadedRelease:
        choose = TopSkills(self._service.settings.skills)
        return LoadedRelease(release, book.name, version, skills, choose, self._finder(book))

    def _finder(self, book: sa.Row[Any]) -> Finder | None:
        if not book.anonymise:
            return None
        reference = book.anonymiser
        if reference not in self._finders:
            try:
                self._finders[reference] = load_finder(reference)
            except UsageError as error:
                _logger.error("the book %s cannot be used for answers: %s", book.name, error)
                return _MissingFinder()  # it is loaded again at the next sync
        return self._finders[reference]


class _MissingFinder:
    """Replaces an anonymiser that cannot be loaded: no question of the book is sent to a model."""

    def find(self, text: str) -> NoReturn:
        raise AnonymiserError("the anonymiser cannot be loaded")
