"""Measures the service on this machine: answers, feedback, the sync of a large release, and the start.

The model answers immediately in this process, so everything measured is the service itself. It exits with 1 if an
answer does not cite its skill, or if feedback that was acknowledged is not stored exactly once; never because of time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import sqlalchemy as sa
from fastapi import FastAPI
from pydantic import BaseModel

from ace import Skillbook, SkillbookView
from ace.context import SelectedSkills
from ace.protocols import LLMResponse
from ace.retrieval import TopSkills
from ace.roles import Agent
from ace_server import keys, opening, releases, tables
from ace_server.api.app import create_app
from ace_server.database import Database, new_id, now
from ace_server.seal import Seal, new_key
from ace_server.service import Service
from ace_server.settings import ServerSettings
from benchmarks.options import add_quick, parser_of
from benchmarks.wrong_result import WrongResult, require
from tests.support.postgres_server import PostgresServer

WORDS = [f"word{number}" for number in range(3_000)]
QUESTION = "What about word17 and word42, if word99 is not there?"


class ImmediateModel:
    """A client whose model answers at once."""

    def complete(self, prompt: Any, **options: Any) -> LLMResponse:
        """Return no more than a word."""
        return LLMResponse(text="ready")

    def complete_structured(self, prompt: Any, response_model: type[Any], **options: Any) -> Any:
        """Return an answer that cites the first skill of the prompt."""
        skill = str(prompt).partition("- [")[2].partition("]")[0]
        return response_model(reasoning=f"[{skill}] says so.", final_answer="It is so.")

    async def acomplete(self, prompt: Any, **options: Any) -> LLMResponse:
        """Return no more than a word."""
        return self.complete(prompt, **options)

    async def acomplete_structured(self, prompt: Any, response_model: type[Any], **options: Any) -> Any:
        """Return an answer that cites the first skill of the prompt."""
        return self.complete_structured(prompt, response_model, **options)


class Question(BaseModel):
    """The body of the bare route."""

    question: str


def texts(count: int) -> list[str]:
    """Return the texts of skills, which are always the same."""
    choose = random.Random(0)
    return [f"If {' '.join(choose.choices(WORDS, k=12))}, check it." for _ in range(count)]


def bare_app(skills: Skillbook, model: ImmediateModel) -> FastAPI:
    """Return a route that calls the same agent with the same skills, and nothing else."""
    app, agent, choose = FastAPI(), Agent(model), TopSkills(20)

    @app.post("/answers")
    async def answer(body: Question) -> Mapping[str, Any]:
        view = SkillbookView(skills)
        chosen = SelectedSkills(view, choose(body.question, view))
        output = await agent.agenerate(body.question, "", chosen)
        return {"answer": output.final_answer, "reasoning": output.reasoning, "skill_ids": output.skill_ids}

    return app


async def post(app: Any, path: str, body: object, key: str = "") -> tuple[int, Any]:
    """Send a request to an app without a network, and return the status and the body of the response."""
    content = json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"authorization", f"Bearer {key}".encode())]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip
    received: list[Any] = []
    sent = False

    async def receive() -> Any:
        nonlocal sent
        if sent:
            await asyncio.sleep(3600)
        sent = True
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        received.append(message)

    await app(scope, receive, send)
    return received[0]["status"], json.loads(b"".join(message.get("body", b"") for message in received[1:]))


async def cpu_of_answers(app: Any, path: str, count: int, key: str = "") -> float:
    """Return the CPU time of an answer in milliseconds, of all threads."""
    for _ in range(5):
        await post(app, path, {"question": QUESTION}, key)
    began = time.process_time()
    for _ in range(count):
        status, body = await post(app, path, {"question": QUESTION}, key)
        require(status == 200 and len(body["skill_ids"]) == 1, f"an answer has status {status}: {body}")
    return (time.process_time() - began) / count * 1000


async def latencies(app: Any, key: str, per_second: float, count: int) -> list[float]:
    """Return how long answers took at a rate, in milliseconds."""
    taken: list[float] = []

    async def ask() -> None:
        began = time.perf_counter()
        status, _ = await post(app, "/v1/answers", {"question": QUESTION}, key)
        require(status == 200, f"an answer has status {status}")
        taken.append((time.perf_counter() - began) * 1000)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(ask())
            await asyncio.sleep(1 / per_second)
    return sorted(taken)


async def feedback_per_second(app: Any, key: str, request: str, count: int, concurrent: int) -> float:
    """Return how much feedback is acknowledged in a second; all of it has to be stored once."""
    found: set[str] = set()
    numbers = iter(range(count))

    async def send() -> None:
        for number in numbers:
            body = {"request_id": request, "comment": f"Comment {number}.", "idempotency_key": f"{request} {number}"}
            status, answer = await post(app, "/v1/feedback", body, key)
            require(status == 202, f"feedback has status {status}: {answer}")
            found.add(answer["feedback_id"])

    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(concurrent):
            tasks.create_task(send())
    seconds = time.perf_counter() - began
    require(len(found) == count, f"{len(found)} of {count} feedbacks have an id of their own")
    database: Database = app.state.server.service.database
    table = tables.feedback
    with database.reading() as connection:
        stored = set(connection.scalars(sa.select(table.c.id).where(table.c.request == request)))
    require(stored == found, f"{len(stored)} feedbacks are stored, {len(found)} were acknowledged")
    return count / seconds


def plain_commits_per_second(database: Database, count: int) -> float:
    """Return how many rows are stored in a second with one transaction for each."""
    began = time.perf_counter()
    for _ in range(count):
        with database.writing() as connection:
            row = {"hash": new_id("t"), "at": now(), "expires_at": now()}
            connection.execute(sa.insert(tables.login_token).values(row))
    return count / (time.perf_counter() - began)


def service_on(location: str | Path, folder: Path, skills: Sequence[str]) -> tuple[Service, str]:
    """Return a service with a published release of so many skills, and a key."""
    (folder / "books").mkdir()
    database = Database(location)
    database.migrate()
    settings = ServerSettings(data=folder, in_flight=1000, sync_seconds=3600)
    service = Service(
        settings=settings, database=database, seal=Seal([new_key()]), client=ImmediateModel(), model="immediate"
    )
    source = Skillbook()
    for text in skills:
        source.add_skill("rules", text)
    with Skillbook.open(folder / "books" / "default.db") as book:
        book.import_skills(source)
    opening.add_book(settings, database, "default")
    with database.writing() as connection:
        _, key = keys.add_key(connection, "benchmark", ["admin"])
    return service, key


async def measure(service: Service, key: str, *, quick: bool) -> None:
    """Print what one service does."""
    kind = "SQLite" if service.database.is_sqlite else "Postgres"
    count = 30 if quick else 300
    app = create_app(service)
    async with app.router.lifespan_context(app):
        inference = app.state.server.inference
        skills = inference.published["default"].skills
        ratios = []
        for _ in range(1 if quick else 3):
            bare = await cpu_of_answers(bare_app(skills, ImmediateModel()), "/answers", count)
            ratios.append((await cpu_of_answers(app, "/v1/answers", count, key), bare))
        own, bare = median(ratio[0] for ratio in ratios), median(ratio[1] for ratio in ratios)
        print(
            f"{kind}: an answer takes {own:.1f} ms of CPU, {own / bare:.2f} times a bare route ({len(skills)} skills)"
        )
        taken = await latencies(app, key, 20, 40 if quick else 300)
        print(f"{kind}: at 20 answers/s, {median(taken):.1f} ms (median), {taken[int(len(taken) * 0.99)]:.1f} ms (p99)")
        _, answer = await post(app, "/v1/answers", {"question": QUESTION}, key)
        rate = await feedback_per_second(app, key, answer["request_id"], 200 if quick else 2_000, 64)
        plain = await asyncio.to_thread(plain_commits_per_second, service.database, 20 if quick else 200)
        print(f"{kind}: {rate:.0f} feedbacks/s with 64 clients, {rate / plain:.1f} times one transaction each")
        pauses = [await sync_pause(app, key) for _ in range(1 if quick else 5)]
        longest, without = median(pause[0] for pause in pauses), median(pause[1] for pause in pauses)
        print(
            f"{kind}: the longest request during the sync of a new release takes {longest:.0f} ms, "
            f"{longest / without:.1f} times the longest of as many without one"
        )


async def sync_pause(app: Any, key: str) -> tuple[float, float]:
    """Return how long the longest request took while a new release was loaded, and afterwards, in milliseconds."""
    service: Service = app.state.server.service
    with service.open_book("default") as book:
        book.add_skill("rules", "If word1 is new, check it.")
        version = book.version
    assert version is not None
    with service.database.writing() as connection:
        release = releases.add_release(connection, "default", version, by="benchmark")
        releases.publish(connection, release, by="benchmark")
    syncing = asyncio.create_task(asyncio.to_thread(app.state.server.inference.sync))
    during = [await seconds_to_answer(app, key)]
    while not syncing.done():
        during.append(await seconds_to_answer(app, key))
    await syncing
    after = [await seconds_to_answer(app, key) for _ in during]
    _, answer = await post(app, "/v1/answers", {"question": QUESTION}, key)
    require(answer["release"] == release, "the new release is not used after the sync")
    return max(during) * 1000, max(after) * 1000


async def seconds_to_answer(app: Any, key: str) -> float:
    """Return how long an answer takes, in seconds."""
    began = time.perf_counter()
    status, _ = await post(app, "/v1/answers", {"question": QUESTION}, key)
    require(status == 200, f"an answer has status {status}")
    return time.perf_counter() - began


def seconds_to_start(folder: Path) -> float:
    """Return how long `ace server run` takes until it answers, in seconds."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ACE_")}
    command = [str(Path(sys.executable).with_name("ace")), "server", "run", "--port", "0", "--model", "openai/none"]
    began = time.perf_counter()
    with (folder / "stderr").open("w+", encoding="utf-8") as said:
        process = subprocess.Popen(
            command, cwd=folder, stderr=said, env={**environ, "HOME": str(folder), "OPENAI_API_KEY": "none"}
        )
        try:
            while "works once" not in (text := (folder / "stderr").read_text(encoding="utf-8")):
                require(process.poll() is None, f"the service did not start: {text}")
                time.sleep(0.02)
            address = text.partition(" at ")[2].split()[0]
            with urllib.request.urlopen(f"{address}/healthz", timeout=30) as response:
                require(response.status == 200, "the service is not healthy")
            return time.perf_counter() - began
        finally:
            process.terminate()
            process.wait()


def in_folder(function: Callable[[Path], Any]) -> Any:
    """Return what a function does in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        return function(Path(folder))


def main() -> int:
    """Run the benchmark."""
    parser = parser_of("server", __doc__)
    add_quick(parser, "1,000 skills, few requests")
    parser.add_argument("--postgres", action="store_true", help="measure on Postgres too; it is started here")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    skills = texts(1_000 if options.quick else 10_000)
    try:
        print(f"the service is ready after {in_folder(seconds_to_start):.1f} s")
        with ExitStack() as stack:
            folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
            places: list[tuple[str | Path, Path]] = [(folders[0] / "server.db", folders[0])]
            if options.postgres:
                places.append((stack.enter_context(PostgresServer()).address, folders[1]))
            for location, folder in places:
                service, key = service_on(location, folder, skills)
                asyncio.run(measure(service, key, quick=options.quick))
                service.database.close()
    except WrongResult as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
