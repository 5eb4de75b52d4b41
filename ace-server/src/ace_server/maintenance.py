"""The thread that deletes data: on request within seconds, and expired data once a night."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, final

from ace.skillbook import SkillbookError
from ace_server.database import DatabaseUnavailableError, now
from ace_server.error_places import described
from ace_server.retention import last_purge, purge, run_deletions

if TYPE_CHECKING:
    from ace_server.service import Service

__all__ = ["Maintenance"]

_logger = logging.getLogger(__name__)

_PAUSE: Final = 5.0
_DAY: Final = 86_400.0
_NIGHT: Final = 3 * 3600.0
"""The time of the nightly purge, in seconds after midnight UTC."""


@final
class Maintenance:
    """Deletes data on a thread of its own."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._wake = threading.Event()
        self._is_stopped = False
        self._purged_on = -1
        self._thread = threading.Thread(target=self._work, name="ace-server-maintenance", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Check now for data to delete."""
        self._wake.set()

    def stop(self) -> None:
        """Stop after the current deletion."""
        self._is_stopped = True
        self._wake.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._is_stopped:
            try:
                self._delete()
            except (DatabaseUnavailableError, SkillbookError) as error:
                _logger.warning("a deletion failed and will be tried again: %s", type(error).__name__)
            except Exception as error:  # tried again: the thread must not end, because no other one deletes
                _logger.error("a deletion failed and will be tried again: unexpected %s", described(error))
            self._wake.wait(_PAUSE)
            self._wake.clear()

    def _delete(self) -> None:
        service = self._service
        run_deletions(service.database, service.settings, service.open_book)
        if (night := _night(now())) > self._purged_on:
            # Also at the start, if no process was running last night; and only in one of several processes.
            if night > _night(last_purge(service.database)):
                purge(service.database, service.settings, service.open_book, by="worker")
            self._purged_on = night


def _night(moment: float) -> int:
    return int((moment - _NIGHT) // _DAY)
