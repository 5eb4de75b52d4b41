"""The hooks of the plugin `server`. Targets are imported on first use."""

from __future__ import annotations

__all__ = ["ACE_API"]

ACE_API = 1
