"""`ace doctor`: whether what the commands need is here, one line for each part."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path
from typing import Final, Literal

import ace
from ace.cli.console import counted, print_json, print_table, size_text
from ace.cli.errors import DONE, WITH_FAILURES, UsageError
from ace.cli.fetch_model import is_catalogued
from ace.cli.inspection import has_logs
from ace.cli.model_choice import check_model, chosen_model, client_from_settings, model_and_place
from ace.cli.options import JsonFlag
from ace.cli.settings import Settings, load_settings
from ace.cli.skillbooks.opened_book import SkillbookPlace, check_place, opened
from ace.protocols.errors import LLMError

__all__ = ["command"]

_LEAST_SPACE: Final = 100_000_000
"""Bytes. A run writes far less, but a disk this full often stops it."""


@dataclass(frozen=True, slots=True)
class _Finding:
    """What was found out about one part."""

    part: str
    state: Literal["ok", "-", "broken"]
    """`-` for something that is not there and need not be."""
    detail: str


def command(*, as_json: JsonFlag = False) -> int:
    """Check the installation: Python, extras, plugins, model, skillbook, disk, and the folders of known agents.

    The model is asked for one word, unless it is one for this machine that has not been downloaded. Nothing is written.

    For example:

        ace doctor
        ace doctor --json

    Args:
        as_json: Print one JSON object.
    """
    settings = load_settings({})
    findings = list(_findings(settings))
    if as_json:
        print_json({"command": "doctor", "findings": [asdict(finding) for finding in findings]})
    else:
        print_table(["part", "state", "detail"], [list(asdict(finding).values()) for finding in findings])
    return WITH_FAILURES if any(finding.state == "broken" for finding in findings) else DONE


def _findings(settings: Settings) -> Iterator[_Finding]:
    yield _Finding("python", "ok", f"{sys.version.split()[0]}, with ace {ace.__version__}")
    yield from _extras()
    yield from _plugins()
    yield _model(settings)
    yield _skillbook(settings)
    yield _disk(settings)
    yield _agents()


def _extras() -> Iterator[_Finding]:
    """Yield the optional parts of ace-core. What an extra requires is in the metadata of the distribution."""
    from packaging.requirements import Requirement  # only this command needs it

    about = metadata("ace-core")
    requirements = [Requirement(line) for line in about.get_all("Requires-Dist") or []]
    for extra in about.get_all("Provides-Extra") or []:
        needed = [
            requirement
            for requirement in requirements
            if requirement.marker is not None
            and requirement.marker.evaluate({"extra": extra})
            and not requirement.marker.evaluate({"extra": ""})
        ]
        missing = [str(requirement.name) for requirement in needed if not _is_installed(requirement.name)]
        part = f"extra {extra}"
        if missing:
            yield _Finding(part, "-", f"not installed: {', '.join(missing)}")
        else:
            yield _Finding(part, "ok", ", ".join(f"{found.name} {version(found.name)}" for found in needed))


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def _plugins() -> Iterator[_Finding]:
    from ace.plugins import list_plugins

    for info in list_plugins():
        found = f"{info.distribution} {info.version}"
        if info.problem:
            yield _Finding(f"plugin {info.name}", "broken", info.problem)
        else:
            is_ok = info.status == "ok"
            yield _Finding(f"plugin {info.name}", "ok" if is_ok else "-", found if is_ok else f"{found}, {info.status}")


def _model(settings: Settings) -> _Finding:
    from ace.providers.local.catalogue import catalogued_model
    from ace.providers.local.errors import LocalModelError
    from ace.providers.local.model_files import kept_file
    from ace.providers.local.server import check_runtime

    chosen = chosen_model(settings)
    try:
        if chosen.startswith("local/"):
            check_runtime()
        if is_catalogued(chosen) and kept_file(model := catalogued_model(chosen.removeprefix("local/"))) is None:
            size = size_text(model.size)
            return _Finding("model", "-", f"{chosen} is not downloaded ({size}); run: ace models pull {model.name}")
        check_model(client_from_settings(settings), settings)
    except LocalModelError as error:
        advice = "" if settings.model is not None else "; or choose another one with ACE_MODEL"
        return _Finding("model", "broken", f"{chosen}: {error}{advice}")
    except (LLMError, UsageError) as error:
        return _Finding("model", "broken", str(error))
    return _Finding("model", "ok", f"{model_and_place(settings)} answers")


def _skillbook(settings: Settings) -> _Finding:
    place = SkillbookPlace(settings.skillbook)
    try:
        check_place(place)
        if place.file is not None and not place.file.exists():
            return _Finding("skillbook", "-", f"{place} does not exist yet; `ace learn` creates it")
        with opened(place.location) as book:
            skills, pending = len(book), len(book.pending_skills())
    except UsageError as error:
        return _Finding("skillbook", "broken", str(error))
    waiting = f", {pending} pending (`ace review`)" if pending else ""
    return _Finding("skillbook", "ok", f"{counted(skills, 'skill')} in {place}{waiting}")


def _disk(settings: Settings) -> _Finding:
    file = SkillbookPlace(settings.skillbook).file
    folder = Path.cwd() if file is None else next(path for path in file.absolute().parents if path.exists())
    free = shutil.disk_usage(folder).free
    return _Finding("disk", "ok" if free >= _LEAST_SPACE else "broken", f"{size_text(free)} free in {folder}")


def _agents() -> _Finding:
    from ace.logs import readers

    known = readers()
    found = [reader.title for reader in known if has_logs(reader, known)]
    if not found:
        return _Finding("agents", "-", "no known agent has left logs in its default folder")
    return _Finding("agents", "ok", f"{', '.join(found)} (`ace inspect --all` shows their runs)")
