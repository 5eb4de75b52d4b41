"""Prevents learning from the sessions of the learner itself."""

from __future__ import annotations

__all__ = ["LEARNING_VARIABLE"]

LEARNING_VARIABLE = "ACE_LEARNING"
"""Set in every `claude` process that is started here, so that the plugin's hooks ignore its sessions."""
