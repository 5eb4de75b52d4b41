"""The pages: what a skillbook has learned, from which traces, what happened to it since, and what waits for review."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from ace_server.service import Service

__all__ = ["routes"]


def routes(service: Service) -> Sequence[BaseRoute]:
    """Return the routes of the pages of the service, which come after those of the API."""
    from ace_server.pages.service_app import routes as service_routes  # the pages of one book need less

    return service_routes(service)
