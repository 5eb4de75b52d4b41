"""ACE for any agent, by one address: a reverse proxy that adds skills to model calls, and learns from them.

The command is `ace proxy`; a program that serves the proxy itself needs nothing of this package.
"""

from __future__ import annotations

__all__: list[str] = []
