"""The errors of models on this machine."""

from __future__ import annotations

from ace.protocols.errors import LLMCallError

__all__ = ["LocalModelError", "ModelNotPulledError", "RuntimeMissingError"]


class LocalModelError(LLMCallError):
    """A model on this machine cannot be used. The text says what to do."""


class ModelNotPulledError(LocalModelError):
    """The weights of a model of the catalogue are not on this machine yet."""


class RuntimeMissingError(LocalModelError):
    """The runtime for models is not installed: the package `xllamacpp` or a library of the system."""
