"""The folder of the models on this machine, and the file of each model."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ace.providers.local.catalogue import CataloguedModel, catalogued_model
from ace.providers.local.errors import LocalModelError, ModelNotPulledError

__all__ = ["ModelFile", "file_sha256", "kept_file", "model_file", "models_folder"]

_SUFFIX = ".gguf"
_READ_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file with the weights of a model."""

    name: str
    """The name that users type."""
    path: Path
    """The file."""


def models_folder() -> Path:
    """Return the folder with the models: `ACE_MODELS`, else `ace/models` in the user's cache folder.

    Example:
        >>> import os
        >>> os.environ["ACE_MODELS"] = "big-disk/models"
        >>> models_folder().as_posix()
        'big-disk/models'
        >>> del os.environ["ACE_MODELS"]
    """
    if chosen := os.environ.get("ACE_MODELS"):
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "ace" / "models"


def kept_file(model: CataloguedModel) -> Path | None:
    """Return the file of a model of the catalogue, or None if it has not been downloaded.

    Args:
        model: A model of the catalogue.
    """
    path = models_folder() / model.file_name
    return path if path.is_file() else None


def model_file(name_or_path: str | os.PathLike[str]) -> ModelFile:
    """Find the file of a model.

    Args:
        name_or_path: A name of the catalogue, or the path of any GGUF file.

    Raises:
        ModelNotPulledError: The model of the catalogue is not on this machine.
        LocalModelError: The model or file does not exist, or the file is truncated.
    """
    text = os.fspath(name_or_path)
    if text.endswith(_SUFFIX):
        return _file_at(Path(text).expanduser())
    model = catalogued_model(text)
    path = kept_file(model)
    if path is None:
        raise ModelNotPulledError(
            f"the model {model.name!r} is not on this machine yet; download it with: ace models pull {model.name}",
            model=text,
        )
    if path.stat().st_size != model.size:
        raise LocalModelError(
            f"{path} has {path.stat().st_size} bytes instead of {model.size}; delete it and download it again with: "
            f"ace models pull {model.name}",
            model=text,
        )
    return ModelFile(model.name, path)


def file_sha256(path: Path, progress: Callable[[int], None] = lambda done: None) -> str:
    """Return the SHA-256 of a file in hexadecimal digits.

    Args:
        path: The file.
        progress: Receives the number of bytes read.
    """
    digest = hashlib.sha256()
    done = 0
    with path.open("rb") as file:
        while block := file.read(_READ_AT_ONCE):
            digest.update(block)
            done += len(block)
            progress(done)
    return digest.hexdigest()


def _file_at(path: Path) -> ModelFile:
    if not path.is_file():
        raise LocalModelError(f"no such model file: {str(path)!r}; pass the path of a .gguf file", model=str(path))
    return ModelFile(path.stem, path.resolve())
