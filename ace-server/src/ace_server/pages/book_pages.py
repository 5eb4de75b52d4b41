"""The read-only pages of skillbooks: overview, skills, versions, comparisons, runs and traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, NamedTuple, final

from starlette.background import BackgroundTask, BackgroundTasks
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ace.integrations import change_counts
from ace.runners import RunSummary
from ace.skill import InsightSource, Proof, Skill, SkillCase
from ace.skillbook import HistoryEntry, SkillbookDiff, SkillChange, compared_skills
from ace_server.pages.book_reader import BookReader, BookVersion, OpenedBook, Training
from ace_server.pages.exporting import FORMATS, file_response, table_response, wants_file
from ace_server.pages.rendering import STATIC, address, learning_curve, response, step_chart
from ace_server.pages.skill_table import PAGE_SIZE, PROOFS, SORTS, STATUSES, SkillQuery, to_csv, to_json

if TYPE_CHECKING:
    from markupsafe import Markup
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from ace_server.candidates import Origin

__all__ = [
    "BookOverview",
    "BookPages",
    "NotFoundError",
    "Presence",
    "Refusal",
    "RunTotals",
    "TaughtTrace",
    "book_tabs",
    "changes_of_run",
    "error_page",
    "overview_of",
    "preparing",
    "refusals_of",
    "samples_of",
    "samples_response",
    "without_vectors",
]

_VERSIONS_A_PAGE: Final = 100
_SHOWN_ORIGINS: Final = 20
"""Of how many of the traces of a skill the texts are shown."""
_SHOWN_CHANGES: Final = 8
"""How many of the newest changes the overview lists."""
_GATE: Final = "gate: "
"""How the reason begins with which the history records what a gate has refused; people need not read that."""
_SHOWN_SKILLS: Final = 5
"""How many skills each list of the overview has."""


class NotFoundError(Exception):
    """The page does not exist. The text says what is missing, and where to look."""


class TaughtTrace(NamedTuple):
    """A trace, with everything in a book that refers to it."""

    trace_id: str
    sources: Sequence[tuple[Skill, InsightSource]]
    """The skills that were learned from it, with what was learned."""
    cases: Sequence[tuple[Skill, SkillCase]]
    """The cases that were made from it."""
    commits: Sequence[tuple[HistoryEntry, Sequence[SkillChange]]]
    """The versions that it created, with their changes."""


@final
class BookPages:
    """The routes of the pages that show skillbooks.

    Args:
        find: Returns the reader of a book by its name; None if there is no such book.
        listed: Returns all readers, in their order.
        site: What the frame of every page shows, such as `{"title": "skills.db"}`.
        origins: Returns what users said in traces, by the names of these, if the user may read that.
    """

    def __init__(
        self,
        find: Callable[[str], BookReader | None],
        listed: Callable[[], Sequence[BookReader]],
        site: Callable[[Request], dict[str, object]],
        origins: Callable[[Request, Sequence[str]], Mapping[str, Sequence[Origin]]] = lambda _request, _traces: {},
    ) -> None:
        self._find = find
        self._listed = listed
        self._site = site
        self._origins = origins

    def routes(self) -> list[BaseRoute]:
        """Return the routes, with those of the style sheet and the scripts."""
        return [
            Route("/", self.home),
            Route("/books/{book}", self.skills),
            Route("/books/{book}/skills", self.skills),
            Route("/books/{book}/skills.{format}", self.export),
            Route("/books/{book}/skills/{skill:path}", self.skill),
            Route("/books/{book}/versions", self.versions),
            Route("/books/{book}/versions/{version:int}", self.version),
            Route("/books/{book}/compare", self.compare),
            Route("/books/{book}/runs", self.runs),
            Route("/books/{book}/run", self.run),
            Route("/books/{book}/trace", self.trace),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]

    def home(self, request: Request) -> Response:
        """Show all books, or the only one."""
        overviews = []
        for reader in self._listed():
            with reader.reading() as book:
                overviews.append(overview_of(book))
        page = self._page(request, "home.html", books=overviews, book=None)
        return preparing(page, [overview.book.reader for overview in overviews])

    def skills(self, request: Request) -> Response:
        """Show the table of skills."""
        query = SkillQuery.read(request.query_params)
        with self._opened(request) as book:
            version = _version(book, query.version)
            found = query.select(version)
            first = (query.page - 1) * PAGE_SIZE
            page = self._page(
                request,
                "skills.html",
                book=book,
                version=version,
                query=query,
                skills=found[first : first + PAGE_SIZE],
                first=first,
                total=len(found),
                pages=max(1, -(-len(found) // PAGE_SIZE)),
                statuses=STATUSES,
                proofs=PROOFS,
                sorts=SORTS,
            )
            return preparing(page, [book.reader])

    def export(self, request: Request) -> Response:
        """Return the skills of a query as a file."""
        query = SkillQuery.read(request.query_params)
        format = request.path_params["format"]
        with self._opened(request) as book:
            skills = query.select(_version(book, query.version))
            name = f"{book.name}-skills"
        if format not in FORMATS:
            raise NotFoundError(f"skills cannot be exported as {format!r}; the formats are csv and json")
        return file_response(name, format, to_csv(skills) if format == "csv" else to_json(skills))

    def skill(self, request: Request) -> Response:
        """Show one skill, with its traces, proof and history."""
        skill_id = request.path_params["skill"]
        asked = SkillQuery.read(request.query_params).version
        with self._opened(request) as book:
            version = _version(book, asked)
            changes = () if book.timeline is None else book.timeline.changes(skill_id)
            skill = version.by_id.get(skill_id)
            if skill is None and not changes:
                raise NotFoundError(f"the skillbook has no skill {skill_id!r}; the table of skills lists all of them")
            gone = skill is None
            if skill is None:
                skill = next((change.after or change.before for change in reversed(changes)), None)
            assert skill is not None
            return self._page(
                request,
                "skill.html",
                book=book,
                version=version,
                asked=asked,
                skill=skill,
                origins=self._origins(request, [source.trace_id for source in skill.sources[:_SHOWN_ORIGINS]]),
                gone=gone,
                changes=changes[::-1],
                taught={trace: change.version for change in changes if (trace := _trace_of(change))},
                chart=_counters_chart(changes),
                use=None if gone else book.use(skill_id),
                presence=_presence(book, skill_id),
            )

    def versions(self, request: Request) -> Response:
        """List the versions, newest first."""
        before = _asked_version(request, "before")
        author = request.query_params.get("author", "")
        words = request.query_params.get("q", "").casefold().split()
        with self._opened(request) as book:
            entries = [] if book.timeline is None else book.timeline.entries
            authors = sorted({entry.author for entry in entries if entry.author})
            found = [
                entry
                for entry in reversed(entries)
                if (not author or entry.author == author)
                and (before is None or entry.version < before)
                and all(word in _entry_text(entry) for word in words)
            ]
            if wants_file(request):
                return table_response(request, f"{book.name}-versions", _VERSION_COLUMNS, map(_version_cells, found))
            shown = found[:_VERSIONS_A_PAGE]
            return self._page(
                request,
                "versions.html",
                book=book,
                entries=shown,
                said=self._origins(request, samples_of(shown)),
                authors=authors,
                author=author,
                q=" ".join(words),
                before=before,
                older=shown[-1].version if len(found) > len(shown) else None,
            )

    def version(self, request: Request) -> Response:
        """Show the changes of one version."""
        number = request.path_params["version"]
        with self._opened(request) as book:
            entry = None if book.timeline is None else book.timeline.entry(number)
            if entry is None or book.timeline is None:
                raise NotFoundError(f"the skillbook has no changes in a version {number}")
            numbers = [change.version for change in book.timeline.entries]
            place = numbers.index(number)
            return self._page(
                request,
                "version.html",
                book=book,
                entry=entry,
                said=self._origins(request, samples_of([entry])),
                changes=book.timeline.changes_of(number),
                earlier=numbers[place - 1] if place else None,
                later=numbers[place + 1] if place + 1 < len(numbers) else None,
            )

    def compare(self, request: Request) -> Response:
        """Compare two versions."""
        with self._opened(request) as book:
            newest = 0 if book.timeline is None else book.timeline.version
            chosen = [
                SkillQuery.read({"version": request.query_params.get(name, "")}).version for name in ("from", "to")
            ]
            first = 0 if chosen[0] is None else chosen[0]
            second = newest if chosen[1] is None else chosen[1]
            versions = [book.at(number) for number in (first, second)]
            missing = next((str(n) for n, v in zip((first, second), versions, strict=True) if v is None), "")
            before, after = (version.skills if version else [] for version in versions)
            difference = compared_skills(without_vectors(before), without_vectors(after))
            if wants_file(request):
                name = f"{book.name}-{first}-{second}"
                return table_response(request, name, _DIFFERENCE_COLUMNS, _difference_cells(difference))
            return self._page(
                request,
                "compare.html",
                book=book,
                first=first,
                second=second,
                missing=missing,
                most=PAGE_SIZE,
                difference=difference,
            )

    def runs(self, request: Request) -> Response:
        """List the runs that the store knows, newest first, or those that fit."""
        with self._opened(request) as book:
            runs = book.runs()
            q, state = request.query_params.get("q", ""), request.query_params.get("state", "")
            words = q.casefold().split()
            found = [
                run
                for run in runs
                if (not state or run.state == state) and all(word in _run_text(run) for word in words)
            ]
            changing = _changing_versions(book)
            totals = {run.run_id: _run_totals(run, changing) for run in found}
            if wants_file(request):
                cells = [_run_cells(run, totals[run.run_id]) for run in found]
                return table_response(request, f"{book.name}-runs", _RUN_COLUMNS, cells)
            states = sorted({run.state for run in runs})
            return self._page(
                request, "runs.html", book=book, runs=found, totals=totals, q=q, state=state, states=states
            )

    def run(self, request: Request) -> Response:
        """Show one run with its samples."""
        run_id = request.query_params.get("id", "")
        with self._opened(request) as book:
            run = next((candidate for candidate in book.runs() if candidate.run_id == run_id), None)
            if run is None:
                raise NotFoundError(f"the skillbook knows no run {run_id!r}")
            if wants_file(request):
                return samples_response(request, run)
            changes = changes_of_run(book, run.run_id)
            curve = next(
                (learning_curve(training.points) for training in book.trainings() if training.run_id == run_id), None
            )
            refusals = refusals_of(book, run_id)
            return self._page(
                request,
                "run.html",
                book=book,
                run=run,
                totals=_run_totals(run, _changing_versions(book)),
                changes=changes,
                curve=curve,
                refusals=refusals,
            )

    def trace(self, request: Request) -> Response:
        """Show what is known about one trace."""
        trace_id = request.query_params.get("id", "")
        with self._opened(request) as book:
            trace = _taught_trace(book, trace_id)
            if not (trace.sources or trace.cases or trace.commits):
                raise NotFoundError(f"the skillbook has learned nothing from a trace {trace_id!r}")
            origins = self._origins(request, [trace_id])
            return self._page(request, "trace.html", book=book, trace=trace, origins=origins)

    def _opened(self, request: Request) -> AbstractContextManager[OpenedBook]:
        name = request.path_params["book"]
        reader = self._find(name)
        if reader is None:
            raise NotFoundError(f"no skillbook {name!r} is shown here")
        return reader.reading()

    def _page(self, request: Request, template: str, **values: object) -> HTMLResponse:
        return response(template, {"site": self._site(request), **values})


def preparing(answer: Response, readers: Iterable[BookReader]) -> Response:
    """Return a page that needs no history. After it has been sent, the history is read for the page that comes next.

    Args:
        answer: The page.
        readers: The books that it shows.
    """
    waiting = [reader for reader in readers if not reader.is_ready]
    if waiting:
        answer.background = BackgroundTasks([BackgroundTask(reader.prepare) for reader in waiting])
    return answer


class Refusal(NamedTuple):
    """The operations of one sample that were omitted: by a gate, by a guard, or because they do not fit the book."""

    entry: HistoryEntry
    """The version that records it."""
    operations: int
    """How many operations were omitted."""
    reason: str
    """The reasons."""


class RunTotals(NamedTuple):
    """How many samples of a run had which outcome."""

    learned: int
    """How many changed the skillbook."""
    unchanged: int
    """How many ended without a change, with or without a version."""
    failed: int


class BookOverview(NamedTuple):
    """What the first page shows of a book."""

    book: OpenedBook
    proofs: Counter[Proof]
    """The number of active skills by the verdict of their cases."""
    with_evidence: int
    """The number of active skills that something shows to be right."""
    recent: Sequence[HistoryEntry]
    """The newest versions that changed something."""
    helpful: Sequence[Skill]
    """The skills that were most often judged helpful."""
    doubtful: Sequence[Skill]
    """The skills that were judged harmful at least as often as helpful, or whose cases fail."""
    runs: int
    training: Training | None
    """The newest training with validation."""
    curve: Markup | None
    """Its learning curve."""
    growth: Markup | None
    """The number of skills by version."""


class Presence(NamedTuple):
    """The validations of a training, by whether a skill was in the book."""

    run_id: str
    last_without: float | None
    """The accuracy of the last validation before the skill was in the book; None if there is none."""
    first_with: float
    """The accuracy of the first validation with it."""
    samples: int
    """How many samples had been learned from by then."""


def book_tabs(name: str, path: str) -> list[dict[str, object]]:
    """Return the links between the pages of one book.

    Args:
        name: The book.
        path: The path of the page that is shown.
    """
    base = address("books", name)
    skills = path == base or path.startswith(f"{base}/skills")
    versions = path.startswith(f"{base}/versions")
    return [
        {"label": "Skills", "href": base, "current": skills},
        {"label": "Versions", "href": f"{base}/versions", "current": versions},
        {"label": "Compare", "href": f"{base}/compare", "current": path == f"{base}/compare"},
        {"label": "Runs", "href": f"{base}/runs", "current": path in (f"{base}/runs", f"{base}/run")},
    ]


def error_page(request: Request, error: Exception, frame: Mapping[str, object]) -> Response:
    """Return the page for an error that is not a bug.

    Args:
        error: A `NotFoundError`, an `HTTPException`, or the error of a store.
        frame: What the frame of every page shows.
    """
    status, message = 503, str(error)
    if isinstance(error, NotFoundError):
        status = 404
    elif isinstance(error, HTTPException):
        status, message = error.status_code, error.detail
    if isinstance(error, HTTPException) and status == 404:
        message = f"the page {request.url.path} does not exist"
    return response("error.html", {"site": frame, "book": None, "message": message}, status=status)


def overview_of(book: OpenedBook) -> BookOverview:
    """Return what the first page shows of a book."""
    active = book.newest.active
    judged = sorted((skill for skill in active if skill.helpful), key=lambda skill: -skill.helpful)
    doubted = [
        skill
        for skill in active
        if (skill.harmful and skill.harmful >= skill.helpful) or book.newest.proofs[skill.id] == "failing"
    ]
    verdicts = Counter(book.newest.proofs.values())
    training = next(iter(reversed(book.trainings())), None)
    return BookOverview(
        book,
        verdicts,
        sum(bool(skill.evidences) for skill in active),
        book.recent_changes(_SHOWN_CHANGES),
        judged[:_SHOWN_SKILLS],
        sorted(doubted, key=lambda skill: skill.helpful - skill.harmful)[:_SHOWN_SKILLS],
        len(book.runs()),
        training,
        learning_curve(training.points) if training else None,
        _growth_chart(book),
    )


def samples_of(entries: Iterable[HistoryEntry]) -> list[str]:
    """Return the names of the samples from which versions come."""
    return [entry.key.sample for entry in entries if entry.key is not None]


def refusals_of(book: OpenedBook, run_id: str) -> list[Refusal]:
    """Return what a run has omitted, as the history records it, oldest first.

    Args:
        run_id: The name of the run.
    """
    found = []
    for entry in () if book.timeline is None else book.timeline.entries:
        if entry.skipped and entry.key is not None and entry.key.run == run_id:
            reasons = [str(note.get("reason", "")).removeprefix(_GATE) for note in entry.skipped]
            found.append(Refusal(entry, len(reasons), "; ".join(dict.fromkeys(reasons))))
    return found


_VERSION_COLUMNS: Final = ("version", "at", "author", "run", "epoch", "sample", "changes", "skipped")
_DIFFERENCE_COLUMNS: Final = ("change", "id", "section", "before", "after")
_RUN_COLUMNS: Final = (
    "run", "state", "runner", "learned", "no_change", "failed", "inputs", "epochs", "started",
    "model_calls", "tokens", "cost_usd", "seconds",
)  # fmt: skip
_SAMPLE_COLUMNS: Final = ("sample", "epoch", "outcome", "version", "failures", "at", "problem")


def _version_cells(entry: HistoryEntry) -> Sequence[str | int | None]:
    key = (None, None, None) if entry.key is None else (entry.key.run, entry.key.epoch, entry.key.sample)
    return (entry.version, entry.at, entry.author, *key, change_counts(entry.events), len(entry.skipped))


def _difference_cells(difference: SkillbookDiff) -> Iterator[Sequence[str | None]]:
    for skill in difference.added:
        yield "added", skill.id, skill.section, None, skill.content
    for before, after in difference.changed:
        yield "changed", after.id, after.section, before.content, after.content
    for skill in difference.removed:
        yield "removed", skill.id, skill.section, skill.content, None


def _run_text(run: RunSummary) -> str:
    return " ".join([run.run_id, run.runner, *(sample.key.sample for sample in run.samples)]).casefold()


def _run_cells(run: RunSummary, totals: RunTotals) -> Sequence[str | int | float | None]:
    spent: Sequence[int | float | None] = (None, None, None, None)
    if run.spent is not None:
        models = run.spent.models
        cost = None if models.unpriced_calls else models.cost_usd
        spent = (models.calls, models.input_tokens + models.output_tokens, cost, round(run.spent.seconds, 3))
    return (run.run_id, run.state, run.runner, *totals, run.total, run.epochs, run.started, *spent)


def _changing_versions(book: OpenedBook) -> frozenset[int] | None:
    """Return the versions that changed a skill; None if the history cannot be read."""
    if book.timeline is None:
        return None
    return frozenset(entry.version for entry in book.timeline.entries if entry.events)


def _run_totals(run: RunSummary, changing: frozenset[int] | None) -> RunTotals:
    """Count the outcomes. A sample that taught nothing has a version too, which records that it was learned from."""
    committed = [sample.version for sample in run.samples if sample.version is not None]
    learned = len(committed) if changing is None else sum(version in changing for version in committed)
    return RunTotals(learned, run.count("learned", "done") - learned, run.count("failed", "given up"))


def samples_response(request: Request, run: RunSummary) -> Response:
    """Return the samples of a run as a file.

    Args:
        request: The request, which asks for one.
    """
    rows = [
        (sample.key.sample, sample.key.epoch, sample.state, sample.version, sample.failures, sample.at, sample.problem)
        for sample in run.samples
    ]
    return table_response(request, f"run-{run.run_id}", _SAMPLE_COLUMNS, rows)


def _growth_chart(book: OpenedBook) -> Markup | None:
    if not book.sizes:
        return None
    points = [(0.0, 0.0), *((float(size.version), float(size.active)) for size in book.sizes)]
    return step_chart(
        {"skills": points}, label="Number of active skills by version", x_title="version", y_title="active skills"
    )


def _counters_chart(changes: Sequence[SkillChange]) -> Markup | None:
    """Return the counters of a skill by version; None if none of them ever changed."""
    counts = [(float(change.version), change.after.counts()) for change in changes if change.after is not None]
    if not any(count for _, verdicts in counts for count in verdicts.values()):
        return None
    series = {
        tag: [(version, float(count[tag])) for version, count in counts] for tag in ("helpful", "harmful", "neutral")
    }
    return step_chart(
        series, label="Counters of the skill by version", x_title="version", y_title="times judged so far"
    )


def _asked_version(request: Request, name: str) -> int | None:
    return SkillQuery.read({"version": request.query_params.get(name, "")}).version


def _version(book: OpenedBook, number: int | None) -> BookVersion:
    version = book.at(number)
    if version is None:
        last = "it keeps no history" if book.timeline is None else f"its versions are 0 to {book.timeline.version}"
        raise NotFoundError(f"the skillbook has no version {number}; {last}")
    return version


def _presence(book: OpenedBook, skill_id: str) -> list[Presence]:
    found = []
    for run_id, points in book.trainings():
        first = next((place for place, point in enumerate(points) if skill_id in point.skills), None)
        if first is not None:
            without = points[first - 1].score.value if first else None
            found.append(Presence(run_id, without, points[first].score.value, points[first].samples))
    return [presence for presence in found if presence.last_without is not None]


def _trace_of(change: SkillChange) -> str:
    return "" if change.key is None else change.key.sample


def _entry_text(entry: HistoryEntry) -> str:
    sample = "" if entry.key is None else f"{entry.key.sample} {entry.key.run}"
    return f"{entry.version} {entry.author} {sample} {change_counts(entry.events)}".casefold()


def changes_of_run(book: OpenedBook, run_id: str) -> dict[int, Sequence[SkillChange]]:
    """Return what each version of a run has changed.

    Args:
        run_id: The name of the run.
    """
    if book.timeline is None:
        return {}
    entries = [entry for entry in book.timeline.entries if entry.key is not None and entry.key.run == run_id]
    return {entry.version: book.timeline.changes_of(entry.version) for entry in entries}


def _taught_trace(book: OpenedBook, trace_id: str) -> TaughtTrace:
    skills = book.newest.skills
    entries = [] if book.timeline is None else book.timeline.entries
    commits = [entry for entry in entries if entry.key is not None and entry.key.sample == trace_id]
    return TaughtTrace(
        trace_id,
        [(skill, source) for skill in skills for source in skill.sources if source.trace_id == trace_id],
        [(skill, case) for skill in skills for case in skill.cases if case.trace_id == trace_id],
        [(entry, book.timeline.changes_of(entry.version)) for entry in commits] if book.timeline else [],
    )


def without_vectors(skills: Sequence[Skill]) -> list[Skill]:
    """Return the skills as the history stores them, so that they can be compared with an older version."""
    return [skill if skill.embedding is None else skill.replace(embedding=None) for skill in skills]
