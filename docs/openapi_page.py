"""Writes the OpenAPI document of the service: `python -m docs.openapi_page`."""

from __future__ import annotations

import json
from pathlib import Path

from ace_server.api.app import openapi_document

PAGE = Path(__file__).with_name("reference") / "openapi.json"


def main() -> None:
    """Write the document."""
    PAGE.write_text(json.dumps(openapi_document(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
