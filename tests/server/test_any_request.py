"""Whatever a client sends: of hundreds of generated requests, on each database, none gets a server error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests  # type: ignore[import-untyped]  # its types are a package of their own; schemathesis calls it
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.core.result import Ok

from ace.integrations import listening_socket
from ace_server import opening
from ace_server.api.app import create_app, openapi_document
from ace_server.database import Database
from ace_server.keys import add_key
from ace_server.seal import Seal, new_key
from ace_server.service import Service
from ace_server.settings import ServerSettings
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

DOCUMENT = openapi_document()
OPERATIONS = sum(len(operations) for operations in DOCUMENT["paths"].values())
CASES = 300  # on each database


@pytest.fixture
def server(database: Database, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a service, and a key with all scopes."""
    from ace import LiteLLMClient

    folder = tmp_path
    (folder / "books").mkdir()
    found = ServerSettings(data=folder, feedback_wait=0.0)
    opening.add_book(found, database, "default")
    with database.writing() as connection:
        _, key = add_key(connection, "admin", ["admin"])
    with ScriptedServer(learning_script()) as model, listening_socket("127.0.0.1", 0) as listening:
        client = LiteLLMClient("openai/scripted", api_base=model.api_base, api_key="none")
        service = Service(settings=found, database=database, seal=Seal([new_key()]), client=client, model="scripted")
        http = uvicorn.Server(uvicorn.Config(create_app(service), log_config=None, lifespan="on"))
        thread = threading.Thread(target=lambda: http.run(sockets=[listening]))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", key
        finally:
            http.should_exit = True
            thread.join()


def test_no_request_is_answered_with_a_server_error(server: tuple[str, str]) -> None:
    address, key = server
    answered: list[int] = []
    seen = set()
    session = requests.Session()  # connecting for each request would take a third of the time

    def check(case: Case[Any]) -> None:
        headers = {name: value for name, value in (case.headers or {}).items() if name.lower() != "authorization"}
        case.headers = {**headers, "Authorization": f"Bearer {key}"}
        response = case.call(base_url=address, session=session)
        answered.append(response.status_code)
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            assert set(response.json()["error"]) == {"code", "message", "request_id"}

    chosen = settings(
        max_examples=-(-CASES // OPERATIONS) + 5,  # hypothesis does not make all of them
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for result in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        seen.add(operation.label)
        chosen(given(operation.as_strategy())(check))()
    assert len(seen) == OPERATIONS
    assert len(answered) >= CASES
    assert sum(status < 300 for status in answered) > 20
    assert {200, 202, 400, 404} <= set(answered)
