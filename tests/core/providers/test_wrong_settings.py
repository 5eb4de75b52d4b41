"""Clients refuse wrong settings when they are made, and not when a provider does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ace import LiteLLMClient, LocalLLMClient
from ace._internal.arguments import is_http_address
from ace.providers import InstructorClient, LiteLLMConfig, LiteLLMEmbedder
from ace.runners.learning_settings import client_from_model

NAN = float("nan")
ADDRESSES = [
    "nonsense",
    "localhost:11434/v1",
    "http://",
    "http:///v1",
    "ftp://host/v1",
    "http://[::1",
    "http://h:99999",
    5,
]
NUMBERS = ["hot", [], True, NAN]

LITELLM: dict[str, Sequence[object]] = {
    "temperature": [*NUMBERS, -0.1],
    "max_tokens": ["many", 1.5, True, 0, -1],
    "api_base": ADDRESSES,
    "api_key": [5, ["key"], b"key"],
    "timeout": [*NUMBERS, None, 0, -1],
    "max_retries": ["3", 1.5, True, None, -1],
    "retry_delay": [*NUMBERS, None, -1],
    "longest_retry_delay": [*NUMBERS, None, -1],
    "validation_retries": ["3", 1.5, True, None, -1],
    "fallbacks": ["gpt-4o", 5, None, [5], [None], [""]],
    "options": ["seed", 5, [("seed", 1)]],
}

CLIENTS: dict[str, tuple[Callable[..., object], Mapping[str, Sequence[object]]]] = {
    "LiteLLMClient": (
        lambda **given: LiteLLMClient(**{"model": "openai/one", **given}),
        {**LITELLM, "model": ["", 5, None]},
    ),
    "LiteLLMConfig": (
        lambda **given: LiteLLMConfig(**{"model": "openai/one", **given}),
        {**LITELLM, "model": ["", 5, None]},
    ),
    "client_from_model": (lambda **given: client_from_model("openai/one", **given), LITELLM),
    "LiteLLMEmbedder": (
        lambda **given: LiteLLMEmbedder(**{"model": "one", **given}),
        {"model": ["", 5, None], "api_base": ADDRESSES, "timeout": [*NUMBERS, None, 0], "retries": [3, "3"]},
    ),
    "LocalLLMClient": (
        LocalLLMClient,
        {
            "temperature": [*NUMBERS, None, -1],
            "max_tokens": ["many", 0, -1, 1.5],
            "timeout": [*NUMBERS, None, 0],
            "validation_retries": ["3", -1, None],
            "context_tokens": ["many", None, 0, 9000.5],
        },
    ),
    "InstructorClient": (
        lambda **given: InstructorClient(LiteLLMClient("openai/one"), **given),
        {"max_retries": ["3", -1, None, 1.5]},
    ),
}


@pytest.mark.parametrize(
    ("client", "name", "value"),
    [(client, name, value) for client, (_, wrong) in CLIENTS.items() for name in wrong for value in wrong[name]],
    ids=repr,
)
def test_a_wrong_setting_is_refused_by_name(client: str, name: str, value: Any) -> None:
    make, _ = CLIENTS[client]
    with pytest.raises((TypeError, ValueError), match=rf"^{name}\b"):
        make(**{name: value})


def test_an_error_contains_neither_a_key_nor_a_password() -> None:
    for settings in (
        {"api_key": ["hunter2"]},
        {"api_base": "ann:hunter2@host/v1"},
        {"api_base": "ftp://a:hunter2@host"},
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            LiteLLMClient("openai/one", **settings)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "http://localhost:11434/v1",
        "https://api.openai.com/v1/",
        "HTTPS://host",
        "http://[::1]:8080/v1",
        "https://ann:secret@host/v1?api-version=2024-10-21",
        "http://model_server:80",
    ],
)
def test_addresses_that_litellm_takes_are_accepted(address: str) -> None:
    assert is_http_address(address)
    assert LiteLLMClient("openai/one", api_base=address).config.api_base == address


def test_settings_that_leave_a_choice_to_the_provider_are_accepted() -> None:
    client = LiteLLMClient(
        "openai/one", api_base="", max_tokens=None, temperature=None, timeout=float("inf"), max_retries=0, retry_delay=0
    )
    assert client.config.temperature is None
    assert LiteLLMClient("openai/one", temperature=1).config.temperature == 1
