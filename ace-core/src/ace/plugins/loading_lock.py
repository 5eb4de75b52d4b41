"""The lock under which plugins are loaded and registered: one, so that no two threads wait for each other."""

from __future__ import annotations

import threading
from typing import Final

__all__ = ["loading_lock"]

loading_lock: Final = threading.RLock()
"""A plugin that is being loaded may look into a registry, and a registry that is looked into loads plugins."""
