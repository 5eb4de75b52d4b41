"""The guard against learning from the learner itself."""

from __future__ import annotations

__all__ = ["LEARNING_VARIABLE"]

LEARNING_VARIABLE = "ACE_LEARNING"
"""Set for every `claude` that is started here: the hooks of the plugin leave its sessions alone."""
