"""Chooses the model, and finds out before a run whether it answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ace._internal.arguments import is_http_address
from ace.cli.console import note, visible
from ace.cli.errors import UsageError

if TYPE_CHECKING:
    from ace.cli.settings import Settings
    from ace.protocols.errors import LLMCallError
    from ace.protocols.llm import LLMClientLike
    from ace.protocols.roles import ReflectorLike

__all__ = [
    "announce",
    "answers_depend_on",
    "check_model",
    "chosen_model",
    "client_from_settings",
    "explained",
    "model_and_place",
    "place_of_model",
    "told_plainly",
]

_LOCAL = "local/"
_WRONG_KEY = 401
_FORBIDDEN = 403
_NOT_FOUND = (404, 405)
_NO_KEY = "none"


def chosen_model(settings: Settings) -> str:
    """Return the model string that the settings name, else that of the key-free default on this machine."""
    from ace.providers.local.catalogue import DEFAULT_MODEL

    return f"{_LOCAL}{DEFAULT_MODEL}" if settings.model is None else settings.model


def model_and_place(settings: Settings) -> str:
    """Return the model and where it runs, as text."""
    return f"{chosen_model(settings)} {place_of_model(settings)}"


def announce(doing: str, settings: Settings, *, quiet: bool = False, of_attempts: ReflectorLike | None = None) -> None:
    """Print the first line of a command that uses a model: how much there is to do, which model, and where it runs.

    Args:
        doing: What is done, to how much.
        quiet: Whether to print nothing, since the result is for a program.
        of_attempts: The reflector, if it reads attempts at tasks. If it only learns from corrections, that is printed.
    """
    if quiet:
        return
    note(f"ace: {visible(doing)} with {visible(model_and_place(settings))}")
    if of_attempts is not None:
        from ace.roles import SmallModelReflector  # slow to import, and loaded already if there is a reflector

        if isinstance(of_attempts, SmallModelReflector):
            note(
                "ace: so small a model learns only from corrections, not from the errors of an attempt; "
                "--model chooses another one"
            )


def place_of_model(settings: Settings) -> str:
    """Return where the model runs, as text: on this machine, at an address, or at a provider."""
    from ace.protocols.llm import find_model_prefix

    model = chosen_model(settings)
    provider = model.partition("/")[0] if "/" in model else ""
    if model.startswith(_LOCAL):
        return "on this machine"
    if provider and find_model_prefix(model) is not None:
        return f"through the plugin {provider!r}"
    address = _address(settings)
    if address:
        return f"at {_shown_address(address)}"
    return f"at the provider {provider!r}" if provider else "at its provider"


def _address(settings: Settings) -> str:
    """Return the address of the model's server; empty for that of its provider."""
    provider, slash, _ = chosen_model(settings).partition("/")
    # LiteLLM reads these variables itself.
    variables = [f"{provider.upper()}_API_BASE", f"{provider.upper()}_BASE_URL"] if slash else []
    return settings.api_base or next(filter(None, map(os.environ.get, variables)), "")


def answers_depend_on(settings: Settings, environment: str) -> str:
    """Return what the answers to samples depend on besides the skills, for a file that keeps them.

    Args:
        environment: How answers are judged.
    """
    return f"{chosen_model(settings)} temperature={settings.temperature} max_tokens={settings.max_tokens} {environment}"


def client_from_settings(settings: Settings) -> LLMClientLike:
    """Return the client of the model that the settings name, else of the key-free default on this machine.

    Nothing is sent yet.

    Raises:
        UsageError: There is no model, or the settings do not fit together.
    """
    model = chosen_model(settings)
    if settings.api_base is not None and not is_http_address(settings.api_base):
        raise UsageError(
            f"the api_base {_without_user(settings.api_base)!r} ({settings.origins['api_base']}) is not an address; "
            "use the form http://localhost:11434/v1"
        )
    is_local = model.startswith(_LOCAL)
    if is_local and settings.api_base is not None:
        raise UsageError(
            f"the model {model!r} runs on this machine, but the api_base {_shown_address(settings.api_base)!r} "
            f"({settings.origins['api_base']}) is the address of a server; give --model openai/NAME for a model of "
            'that server, or --api-base ""'
        )
    from ace.protocols.llm import find_model_prefix
    from ace.runners.learning_settings import client_from_model

    options = {
        "max_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "context_tokens": settings.context_tokens,
        "api_base": settings.api_base,
        "api_key": None if is_local else _key_to_send(settings),  # it is for the models that need one
    }
    # A model on this machine, or of a plugin, knows better how long it may take, unless the user sets it.
    if find_model_prefix(model) is None or settings.origins["timeout"] != "default":
        options["timeout"] = settings.timeout
    try:
        return client_from_model(model, **{name: value for name, value in options.items() if value is not None})
    except (TypeError, ValueError) as error:  # a client of a plugin may take fewer settings
        raise UsageError(f"the settings do not fit the model {model!r}: {error}") from error
    except FileNotFoundError as error:  # a plugin's model may be a program that is not installed
        raise UsageError(f"the model {model!r} cannot be used: {error}") from error


def _key_to_send(settings: Settings) -> str | None:
    """Return the key for the model; None if it is in the variable of the provider.

    On a shared machine, any user can listen at an address of this machine. So an address that a project names gets no
    key; clients look for one in the environment unless they are given some text.
    """
    return _NO_KEY if _has_address_of_project(settings) else settings.api_key


def _has_address_of_project(settings: Settings) -> bool:
    return settings.api_base is not None and "api_base" in settings.of_project


def check_model(client: LLMClientLike, settings: Settings) -> None:
    """Ask the model for a word, in the way that runs ask, so that problems are found before anything is learned from.

    The request has a system message, a description of the answer and, where the server enforces one, its schema. What
    the server refuses is found here. The answer itself does not matter.

    Args:
        settings: The settings that it was made from.

    Raises:
        UsageError: The model does not answer, or has no known price and there is a limit of cost. The text says why,
            and what to do.
    """
    from ace.calls.model_calls import answer_budget
    from ace.outputs import Readiness
    from ace.protocols.errors import UnusableAnswerError
    from ace.protocols.llm import LayeredPrompt
    from ace.protocols.observers import Event, ModelCalled, observing

    unpriced: list[str] = []

    def look_at_price(event: Event) -> None:
        if isinstance(event, ModelCalled) and event.cost is None:
            unpriced.append(event.model)

    prompt = LayeredPrompt("You are asked whether you can be used.", "", "", "Answer with the word: ready")
    with told_plainly(settings), observing(look_at_price), answer_budget(1), suppress(UnusableAnswerError):
        client.complete_structured(prompt, Readiness)
    if settings.run.max_cost is not None and unpriced:
        raise UsageError(
            f"--max-cost cannot be enforced, because the price of {chosen_model(settings)!r} is unknown; run without it"
        )


@contextmanager
def told_plainly(settings: Settings) -> Iterator[None]:
    """Turn the error of a model call inside the block into a sentence that says what to do.

    Args:
        settings: The settings that the client was made from.

    Raises:
        UsageError: The model could not be called.
    """
    from ace.protocols.errors import LLMCallError

    try:
        yield
    except LLMCallError as error:
        raise UsageError(explained(error, settings)) from error


def explained(error: LLMCallError, settings: Settings) -> str:
    """Return the error of a model call as a sentence that says what to do.

    Args:
        settings: The settings that the client was made from.
    """
    from ace.protocols.errors import ContextLimitError, LLMAuthenticationError, LLMCallError

    if type(error) not in (LLMCallError, LLMAuthenticationError, ContextLimitError):
        return str(error)  # of a model on this machine, or of a plugin, which know better what to do
    model = f"the model {chosen_model(settings)!r}"
    server = "the provider" if settings.api_base is None else f"the server at {_shown_address(settings.api_base)}"
    if isinstance(error, LLMAuthenticationError) and error.missing_variables:
        return f"{model} needs a key: set the environment variable {' or '.join(error.missing_variables)}"
    if _has_address_of_project(settings) and error.status_code in (_WRONG_KEY, _FORBIDDEN):
        return (
            f"{server} requires a key for {model}, but an address that the file of a project names gets none "
            f"({settings.origins['api_base']}); give it with --api-base, or in your own settings file"
        )
    if error.status_code == _FORBIDDEN:
        return f"{server} refused {model} (status {_FORBIDDEN}): {_first_line(error)}"
    if isinstance(error, LLMAuthenticationError) or error.status_code == _WRONG_KEY:
        return f"{server} refused the key for {model}: check the environment variable or the setting 'api_key'"
    if error.status_code in _NOT_FOUND:
        hint = "" if settings.api_base is None else ", and that the address is complete (it usually ends in /v1)"
        return f"{server} does not know {model}: check the name{hint}"
    if "LLM Provider NOT provided" in str(error):
        return (
            f"{model} does not name a provider: use openai/{settings.model} with --api-base for your own server, "
            "or put the provider before the name, such as anthropic/NAME"
        )
    if error.problem:
        return f"{server} gave no answer for {model}: {error.problem}"
    if error.status_code is None and not _address(settings):
        return f"{server} cannot be reached for {model}: check your network connection and your proxy"
    if error.status_code is None:
        return f"{server} cannot be reached for {model}: check that it runs, and its address"
    return f"{server} gave no answer for {model} (status {error.status_code}): {_first_line(error)}"


def _without_user(text: str) -> str:
    """Return what was meant to be an address without the password that may be in it."""
    before, _, after = text.rpartition("@")
    return f"{before.partition('://')[0]}://{after}" if "://" in before else after


def _shown_address(address: str) -> str:
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _first_line(error: Exception) -> str:
    said = str(error).splitlines()[0]
    return said if len(said) <= 300 else f"{said[:300]}..."
