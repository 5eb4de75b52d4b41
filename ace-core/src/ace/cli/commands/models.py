"""`ace models`: list, fetch and check the models that run on this machine."""

from __future__ import annotations

import time
from typing import Annotated

from cyclopts import App, Parameter

from ace.cli.console import print_json, print_table, print_text, size_text
from ace.cli.errors import DONE, WITH_FAILURES, UsageError
from ace.cli.fetch_model import fetch_model
from ace.cli.model_choice import check_model, chosen_model, client_from_settings, model_and_place
from ace.cli.options import JsonFlag, YesFlag
from ace.cli.settings import Settings, load_settings
from ace.protocols.errors import LLMError
from ace.protocols.llm import LLMClientLike
from ace.providers.local.catalogue import CATALOGUE, DEFAULT_MODEL, CataloguedModel, catalogued_model
from ace.providers.local.errors import LocalModelError
from ace.providers.local.model_files import file_sha256, kept_file
from ace.providers.local.server import check_runtime
from ace.providers.server_memory import ServerMemory

__all__ = ["app"]

app = App(name="models", help_format="markdown")

Name = Annotated[str, Parameter(allow_leading_hyphen=False)]
"""A name of the catalogue."""


@app.default
def used(*, model: str | None = None, api_base: str | None = None, as_json: JsonFlag = False) -> int:
    """Show which model is used, where it runs, and whether it answers. Nothing is downloaded.

    For example:

        ace models
        ace models --model openai/NAME --api-base http://localhost:11434/v1
        ace models list

    Args:
        model: The model, as in `ace ask --model`. [env: ACE_MODEL]
        api_base: The base URL of a server, as in `ace ask --api-base`. [env: ACE_API_BASE]
        as_json: Print the result as one JSON object.
    """
    settings = load_settings({"model": model, "api_base": api_base})
    chosen = chosen_model(settings)
    if not as_json:
        origin = "default" if settings.origins["model"] == "default" else f"from {settings.origins['model']}"
        print_text(f"model: {model_and_place(settings)} ({origin})")
    started = time.monotonic()
    try:
        problem = _problem_of_model(client_from_settings(settings), settings)
    except UsageError as error:
        problem = str(error)
    seconds = round(time.monotonic() - started, 1)
    if as_json:
        print_json(
            {"command": "models", "model": chosen, "answers": not problem, "seconds": seconds, "problem": problem}
        )
    else:
        print_text(f"it does not answer: {problem}" if problem else f"it answers (the first word after {seconds} s)")
    return WITH_FAILURES if problem else DONE


@app.command(name="list")
def list_models(*, as_json: JsonFlag = False) -> int:
    """List the models that can be downloaded, and which of them are on this machine.

    For example:

        ace models list

    Args:
        as_json: Print the result as one JSON object.
    """
    if as_json:
        print_json({"command": "models list", "models": [_as_json(model) for model in CATALOGUE]})
        return DONE
    rows = [
        (model.name, size_text(model.size), model.licence, "yes" if kept_file(model) else "no", model.note)
        for model in CATALOGUE
    ]
    print_table(["model", "size", "licence", "here", "note"], rows)
    return DONE


@app.command(usage="Usage: ace models pull [OPTIONS] [NAME]")
def pull(name: Name = DEFAULT_MODEL, /, *, yes: YesFlag = False) -> int:
    """Download a model and verify its checksum. An interrupted download is resumed.

    For example:

        ace models pull
        ace models pull smollm2-135m --yes

    Args:
        name: The name of the model, as `ace models list` shows it.
        yes: Do not ask for confirmation.
    """
    model = catalogued_model(name)
    path = kept_file(model)
    if path is not None and path.stat().st_size == model.size:
        print_text(f"{model.name} is here already: {path}")
        return DONE
    fetch_model(model, assume_yes=yes)
    return DONE


@app.command(usage="Usage: ace models check [OPTIONS] [MODEL]")
def check(
    model: Annotated[str | None, Parameter(allow_leading_hyphen=False)] = None,
    /,
    *,
    api_base: str | None = None,
    forget: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    as_json: JsonFlag = False,
) -> int:
    """Check that a model answers what runs ask for, and show what was learned about its server.

    Without MODEL, check that models can run on this machine, and verify the checksums of the downloaded files.

    For example:

        ace models check
        ace models check openai/NAME --api-base http://localhost:11434/v1
        ace models check openai/NAME --forget

    Args:
        model: The model, as in `ace ask --model`.
        api_base: The base URL of a server, as in `ace ask --api-base`. [env: ACE_API_BASE]
        forget: Forget what was learned about the server, and ask it nothing.
        as_json: Print the result as one JSON object.
    """
    if model is not None:
        return _check_server(load_settings({"model": model, "api_base": api_base}), forget=forget, as_json=as_json)
    if forget:
        raise UsageError("--forget needs the model: ace models check MODEL --forget")
    problems = [_problem_of_runtime(), *(_problem_with_file(model) for model in CATALOGUE if kept_file(model))]
    found = [problem for problem in problems if problem]
    fetched = [model.name for model in CATALOGUE if kept_file(model)]
    if as_json:
        print_json({"command": "models check", "fetched": fetched, "problems": found})
    else:
        print_text(f"fetched: {', '.join(fetched) or 'no model yet'}")
        print_text("\n".join(found) if found else "no problems found")
    return WITH_FAILURES if found else DONE


def _check_server(settings: Settings, *, forget: bool, as_json: bool) -> int:
    client = client_from_settings(settings)
    memory = ServerMemory(chosen_model(settings), settings.api_base)
    problem, forgotten = "", False
    if forget:
        forgotten = memory.forget()
    else:
        problem = _problem_of_model(client, settings)
    lessons = ServerMemory(memory.model, settings.api_base).lessons
    window = getattr(client, "input_token_limit", None)
    learned = [
        {"what": sentence, "since": lesson.at.date().isoformat(), "until": lesson.until.date().isoformat()}
        for lesson in lessons
        for sentence in lesson.change.sentences()
    ]
    if as_json:
        about = {"command": "models check", "model": memory.model, "address": memory.address, "problem": problem}
        print_json({**about, "learned": learned, "forgotten": forgotten, "input_tokens": window})
        return WITH_FAILURES if problem else DONE
    print_text(f"model: {model_and_place(settings)}")
    if forget:
        print_text("what was learned about it is forgotten" if forgotten else "nothing was learned about it")
        return DONE
    print_text(f"it does not answer: {problem}" if problem else "it answers")
    print_text(f"input: {'unknown; set context_tokens' if window is None else f'at most {window} tokens'}")
    if learned:
        print_table(["learned", "since", "until"], [list(entry.values()) for entry in learned])
    return WITH_FAILURES if problem else DONE


def _problem_of_model(client: LLMClientLike, settings: Settings) -> str:
    try:
        check_model(client, settings)
    except (LLMError, UsageError) as error:
        return str(error)
    return ""


def _problem_of_runtime() -> str:
    try:
        check_runtime()
    except LocalModelError as error:
        return str(error)
    return ""


def _problem_with_file(model: CataloguedModel) -> str:
    path = kept_file(model)
    if path is None or file_sha256(path) == model.sha256:
        return ""
    return f"{path} is not the maker's file (another SHA-256); delete it and run: ace models pull {model.name}"


def _as_json(model: CataloguedModel) -> dict[str, object]:
    path = kept_file(model)
    return {
        "name": model.name,
        "maker": model.maker,
        "licence": model.licence,
        "bytes": model.size,
        "sha256": model.sha256,
        "file": None if path is None else str(path),
        "note": model.note,
    }
