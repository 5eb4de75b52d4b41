"""The OpenAPI document is the contract of the API."""

from __future__ import annotations

import json
from pathlib import Path

from ace_server.api.app import openapi_document

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "reference" / "openapi.json"


def test_the_committed_document_is_up_to_date() -> None:
    assert json.loads(COMMITTED.read_text(encoding="utf-8")) == openapi_document(), "run: python -m docs.openapi_page"


def test_every_error_has_the_same_shape() -> None:
    document = openapi_document()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status, response in operation["responses"].items():
                if status >= "400" and path != "/readyz":
                    schema = response["content"]["application/json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/ErrorResponse"}, (method, path, status)
