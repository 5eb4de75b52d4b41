"""The service with its pages on a real port of this process, with a learned book, releases, and items to review."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ace import LiteLLMClient
from ace_server import keys, opening, releases, reviews, tables
from ace_server.api.app import create_app
from ace_server.database import Database, new_id, now
from ace_server.pages import routes
from ace_server.seal import Seal, new_key
from ace_server.service import Service
from ace_server.settings import ServerSettings
from tests.server.pages.serving import served

__all__ = ["World", "running_world"]


@dataclass(frozen=True)
class World:
    """The running service."""

    service: Service
    url: str

    def key(self, name: str, *scopes: str, **options: Any) -> str:
        """Add a key and return its secret."""
        with self.service.database.writing() as connection:
            return keys.add_key(connection, name, scopes, **options)[1]

    def login(self) -> str:
        """Return the address that logs in once."""
        with self.service.database.writing() as connection:
            return f"{self.url}/login?token={keys.add_login_token(connection)}"

    def rows(self, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> list[sa.Row[Any]]:
        """Return the rows of a table, in the order of its first column."""
        with self.service.database.reading() as connection:
            query = sa.select(table).where(*conditions).order_by(next(iter(table.c)))
            return list(connection.execute(query).all())

    def add(self, table: sa.Table, **values: Any) -> str:
        """Add a row and return its id."""
        identifier = values.setdefault("id", new_id({"feedback": "fbk"}.get(table.name, table.name[:3])))
        with self.service.database.writing() as connection:
            connection.execute(sa.insert(table).values(**{"at": now(), **values}))
        return str(identifier)

    def release(self, version: int, *, publish: bool = False, score: float | None = None) -> str:
        """Add a release of the book, and publish it if wanted."""
        with self.service.database.writing() as connection:
            found = releases.add_release(
                connection, "default", version, by="worker", reason="learned from feedback", score=score
            )
            if publish:
                releases.publish(connection, found, by="worker")
        return found

    def ask_for_review(self, question: str, answer: str, *, correction: str = "", comment: str = "") -> str:
        """Add an answer with feedback that waits for a person, and return the id of the review."""
        seal = self.service.seal.seal
        request = self.add(
            tables.request,
            book="default",
            key="key_1",
            question=seal(question),
            answer=seal(answer),
            skill_ids="house-00002",
            model_calls=1,
            prompt_tokens=100,
            completion_tokens=10,
            cost=0.01,
            seconds=1.5,
        )
        said = {name: seal(text) for name, text in (("correction", correction), ("comment", comment)) if text}
        feedback = self.add(
            tables.feedback, book="default", kind="feedback", request=request, key="key_1", state="held", **said
        )
        with self.service.database.writing() as connection:
            return reviews.add_review(
                connection, "default", "feedback", reason="the book is reviewed", request=request, feedback=feedback
            )


@contextmanager
def running_world(folder: Path, learned: Path, **settings: Any) -> Iterator[World]:
    """Run the service on a copy of the learned book."""
    (folder / "books").mkdir()
    for file in learned.parent.glob("skills.db*"):
        shutil.copy(file, folder / "books" / file.name.replace("skills.db", "default.db"))
    found = ServerSettings(data=folder, port=0, **settings)
    database = Database(folder / "server.db")
    database.migrate()
    client = LiteLLMClient("openai/scripted", api_base="http://127.0.0.1:9/v1", api_key="none", max_retries=0)
    service = Service(settings=found, database=database, seal=Seal([new_key()]), client=client, model="openai/scripted")
    opening.add_book(found, database, "default", exist_ok=True)
    with database.writing() as connection:  # the release that `add_book` has published is not part of the story
        connection.execute(sa.delete(tables.release))
    app = create_app(service, pages=routes(service))
    try:
        with served(app) as url:
            yield World(service, url)
    finally:
        database.close()
