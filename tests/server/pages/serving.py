"""An application on a real port of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from ace.integrations import listening_socket

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["served"]


@contextmanager
def served(app: Starlette) -> Iterator[str]:
    """Serve an application, and return its address."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="auto"))
    with listening_socket("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
