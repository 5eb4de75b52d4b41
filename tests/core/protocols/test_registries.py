from __future__ import annotations

from typing import Any

import pytest

from ace.calls.model_calls import CallScope, call_scope, redactor_for
from ace.calls.secrets import environment_secrets, is_secret_name, redact
from ace.protocols import (
    DeduplicationConfig,
    LLMClientLike,
    find_model_prefix,
    model_prefixes,
    register_model_prefix,
    unregister_model_prefix,
)
from ace.providers import LiteLLMClient


def make(model: str, **settings: Any) -> LLMClientLike:
    return LiteLLMClient(f"openai/{model}", **settings)


def test_a_registered_prefix_is_found_with_the_rest_of_the_string() -> None:
    register_model_prefix("acme", make)
    try:
        assert "acme" in model_prefixes()
        assert find_model_prefix("acme/large/v2") == (make, "large/v2")
        assert find_model_prefix("acme") is None
        assert find_model_prefix("other/large") is None
        register_model_prefix("acme", make)
        with pytest.raises(ValueError, match="'acme' is already registered"):
            register_model_prefix("acme", lambda model, **settings: make(model))
        for wrong in ("", "a/b"):
            with pytest.raises(ValueError, match="without a slash"):
                register_model_prefix(wrong, make)
    finally:
        unregister_model_prefix("acme")
    assert find_model_prefix("acme/large") is None


def test_the_deduplication_config_checks_itself() -> None:
    config = DeduplicationConfig()
    assert (config.enabled, config.similarity_threshold, config.within_section_only) == (True, 0.85, True)
    for threshold in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="similarity_threshold"):
            DeduplicationConfig(similarity_threshold=threshold)
    with pytest.raises(ValueError, match="embedding_provider"):
        DeduplicationConfig(embedding_provider="magic")


def test_secrets_are_told_by_name_and_hidden_by_value() -> None:
    for name in (
        "api_key",
        "OPENAI_API_KEY",
        "x-api-key",
        "Authorization",
        "password",
        "client_secret",
        "access_token",
    ):
        assert is_secret_name(name)
    for name in ("key", "key_insight", "max_tokens", "input_tokens", "token", "author"):
        assert not is_secret_name(name)
    environ = {"A_KEY": "aaaaaaaa", "B_TOKEN": "bbbbbbbbbb", "C_KEY": "short", "PATH": "/usr/bin:/bin"}
    assert environment_secrets(environ) == ["aaaaaaaa", "bbbbbbbbbb"]
    assert redact("x sk-1234567890 y sk-12345", ["sk-12345", "sk-1234567890"]) == "x [hidden] y [hidden]"


def test_a_key_is_hidden_as_soon_as_the_environment_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LATE_API_KEY", raising=False)
    assert redact("x late-value-1 late-value-2") == "x late-value-1 late-value-2"
    monkeypatch.setenv("LATE_API_KEY", "late-value-1")
    assert redact("x late-value-1 late-value-2") == "x [hidden] late-value-2"
    assert redactor_for().redact("x late-value-1 late-value-2") == "x [hidden: secret] late-value-2"
    monkeypatch.setenv("LATE_API_KEY", "late-value-2")
    assert redact("x late-value-1 late-value-2") == "x late-value-1 [hidden]"
    assert redactor_for().redact("x late-value-1 late-value-2") == "x late-value-1 [hidden: secret]"
    with call_scope(CallScope(allow=frozenset({"email_address"}))):
        assert redactor_for().redact("jane@acme.com late-value-2") == "jane@acme.com [hidden: secret]"
