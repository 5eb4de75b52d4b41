"""The app in this process, with a scripted model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from httpx2 import Response
from starlette.testclient import TestClient

from ace import LiteLLMClient, Skillbook
from ace_server import keys, opening, tables
from ace_server.api.app import create_app
from ace_server.database import Database, now
from ace_server.pages import routes
from ace_server.service import Service
from ace_server.settings import ServerSettings
from ace_server.subjects import Subjects
from tests.server.service_world import SEAL
from tests.support.learning_script import learning_script
from tests.support.scripted_server import Script, ScriptedServer


@dataclass(frozen=True)
class Api:
    """A client of the app, and what is behind it."""

    client: TestClient
    service: Service
    key: str
    """A key with all scopes."""

    def add_key(self, *scopes: str, **options: Any) -> str:
        """Add a key and return its secret."""
        with self.service.database.writing() as connection:
            return keys.add_key(connection, "test", scopes, **options)[1]

    def post(self, path: str, body: object = None, *, key: str | None = None, **options: Any) -> Response:
        """Send JSON."""
        return self.client.post(f"/v1{path}", json=body, headers=self._headers(key), **options)

    def get(self, path: str, *, key: str | None = None, **options: Any) -> Response:
        """Get a list or an object."""
        return self.client.get(f"/v1{path}", headers=self._headers(key), **options)

    def delete(self, path: str, *, key: str | None = None) -> Response:
        """Delete an object."""
        return self.client.delete(f"/v1{path}", headers=self._headers(key))

    def ask(self, question: str, **fields: object) -> dict[str, Any]:
        """Ask a question that must be answered."""
        response = self.post("/answers", {"question": question, **fields})
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def rows(self, table: sa.Table) -> list[sa.Row[Any]]:
        """Return all rows of a table, in the order of its first column."""
        with self.service.database.reading() as connection:
            return list(connection.execute(sa.select(table).order_by(next(iter(table.c)))).all())

    def pseudonym(self, subject: str) -> str:
        """Return what the database has instead of the name of a subject."""
        return Subjects(self.service.database, self.service.seal).pseudonym(subject)

    def publish(self, *lessons: str, book: str = "default") -> str:
        """Add skills to a book, publish it, and return the release."""
        from ace_server import releases

        with self.service.open_book(book) as opened:
            for lesson in lessons:
                opened.add_skill("lessons", f"Remember LESSON {lesson}.")
            assert opened.version is not None
            version = opened.version
        with self.service.database.writing() as connection:
            release = releases.add_release(connection, book, version, by="test")
            releases.publish(connection, release, by="test")
        self.sync()
        return release

    def sync(self) -> None:
        """Load what was published."""
        app: Any = self.client.app
        app.state.server.inference.sync()

    def _headers(self, key: str | None) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.key if key is None else key}"}


@contextmanager
def running_api(
    database: Database,
    folder: Path,
    *,
    script: Script | None = None,
    with_pages: bool = False,
    proxy_secret: str | None = None,
    client: Any = None,
    **settings: Any,
) -> Iterator[Api]:
    """Run the app on a migrated database, by default with a client of a scripted model."""
    found = ServerSettings(data=folder, **settings)
    (folder / "books").mkdir(exist_ok=True)
    with ScriptedServer(script or learning_script()) as model:
        scripted = LiteLLMClient("openai/scripted", api_base=model.api_base, api_key="none", max_retries=0)
        service = Service(
            settings=found, database=database, seal=SEAL, client=client or scripted, model="openai/scripted"
        )
        opening.add_book(found, database, "default", exist_ok=True)
        with database.writing() as connection:
            _, key = keys.add_key(connection, "admin", ["admin"])
        app = create_app(service, pages=routes(service) if with_pages else (), proxy_secret=proxy_secret)
        with TestClient(app, "http://127.0.0.1", raise_server_exceptions=False) as test_client:
            yield Api(test_client, service, key)


def add_book(database: Database, folder: Path, name: str) -> None:
    """Add an empty book."""
    Skillbook.open(folder / "books" / f"{name}.db").close()
    with database.writing() as connection:
        connection.execute(sa.insert(tables.book).values(name=name, at=now()))
