"""`LiteLLMClient` against a real server on loopback."""

from __future__ import annotations

import logging
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

from ace.protocols import LLMAuthenticationError, LLMCallError, LLMClientLike, LLMError, Usage
from ace.providers import LiteLLMClient, LiteLLMConfig
from ace.skillbook import Skillbook
from ace.skillbook.book import PromptFormat
from tests.support.clients import KEY, client_for
from tests.support.scripted_server import (
    Answer,
    BrokenBody,
    HttpError,
    NoResponse,
    Reply,
    Reset,
    ScriptedRequest,
    ScriptedServer,
    in_turn,
)
from tests.support.subprocesses import run_python

pytestmark = pytest.mark.usefixtures("each_transport")


def test_complete_returns_text_and_usage() -> None:
    with ScriptedServer(lambda request: f"you said {request.messages[-1]['content']}") as server:
        response = client_for(server).complete("hello there", system="be kind")
        assert response.text == "you said hello there"
        assert [message["role"] for message in server.requests[0].messages] == ["system", "user"]
        assert response.usage.calls == 1
        assert (response.usage.input_tokens, response.usage.output_tokens) == (4, 4)


def test_settings_reach_the_server_and_a_call_may_override_them() -> None:
    with ScriptedServer(in_turn("ok")) as server:
        client = client_for(server, temperature=0.7, max_tokens=11, options={"seed": 5})
        client.complete("x")
        client.complete("x", temperature=0.1, stop=["END"])
        first, second = (request.body for request in server.requests)
        assert (first["temperature"], first["max_tokens"], first["seed"]) == (0.7, 11, 5)
        assert (second["temperature"], second["stop"]) == (0.1, ["END"])


@pytest.mark.parametrize(
    "fault",
    [
        HttpError(408),
        HttpError(429),
        HttpError(500),
        HttpError(502),
        HttpError(503),
        HttpError(529),
        Reset(),
        NoResponse(8.0),
        BrokenBody(),
    ],
    ids=repr,
)
def test_what_may_pass_is_retried(fault: Reply) -> None:
    with ScriptedServer(in_turn(fault, fault, "done")) as server:
        # A short timeout would also end answers that a busy machine gives late.
        client = client_for(server, timeout=2.0 if isinstance(fault, NoResponse) else 30.0)
        assert client.complete("x").text == "done"
        assert (client.usage.calls, client.usage.failed_requests) == (1, len(server.requests) - 1)
        # A busy machine may give the last answer too late for the short timeout.
        assert len(server.requests) == 3 or (len(server.requests) > 3 and isinstance(fault, NoResponse))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_other_client_errors_fail_at_once(status: int) -> None:
    with ScriptedServer(in_turn(HttpError(status, "no good"), "never")) as server:
        with pytest.raises(LLMCallError, match="no good") as raised:
            client_for(server).complete("x")
        assert len(server.requests) == 1
        assert raised.value.attempts == 1
        assert raised.value.status_code == status


def test_the_number_of_requests_is_bounded() -> None:
    with ScriptedServer(in_turn(HttpError(500))) as server:
        with pytest.raises(LLMCallError, match="after 3 requests") as raised:
            client_for(server, max_retries=2).complete("x")
        assert len(server.requests) == 3
        assert raised.value.attempts == 3


def test_the_server_may_ask_for_a_longer_wait() -> None:
    with ScriptedServer(in_turn(HttpError(429, headers={"retry-after": "0.4"}), "done")) as server:
        client = client_for(server, longest_retry_delay=5.0)
        with _Messages() as messages:
            client.complete("x")
        assert any("retry 1 of 3 in 0.40 s" in message for message in messages)


def test_fallbacks_are_taken_in_turn() -> None:
    def script(request: ScriptedRequest) -> Reply | str:
        failures = {"first": HttpError(500), "second": HttpError(404)}
        return failures.get(request.model, "from the third")

    with ScriptedServer(script) as server:
        client = client_for(server, model="openai/first", fallbacks=["openai/second", "openai/third"], max_retries=1)
        assert client.complete("x").text == "from the third"
        assert [request.model for request in server.requests] == ["first", "first", "second", "third"]
        assert client.usage.calls == 1


def test_when_every_fallback_fails_the_error_counts_all_requests() -> None:
    with ScriptedServer(in_turn(HttpError(503))) as server:
        client = client_for(server, fallbacks=["openai/second"], max_retries=1)
        with pytest.raises(LLMCallError, match="'openai/second' gave no answer after 4 requests"):
            client.complete("x")
        assert len(server.requests) == 4


def test_a_fallback_with_settings_of_its_own() -> None:
    with ScriptedServer(in_turn(HttpError(400))) as bad, ScriptedServer(in_turn("good")) as good:
        other = LiteLLMConfig("openai/other", api_base=good.api_base, api_key="sk-of-the-other")
        assert client_for(bad, fallbacks=[other]).complete("x").text == "good"
        assert good.requests[0].headers["authorization"] == "Bearer sk-of-the-other"


def test_a_fallback_of_another_provider_gets_neither_key_nor_address() -> None:
    config = LiteLLMConfig("openai/a", api_base="http://127.0.0.1:9", api_key=KEY, fallbacks=["anthropic/b"])
    following = config.chain()[1]
    assert (following.model, following.api_key, following.api_base) == ("anthropic/b", None, None)


@pytest.mark.parametrize(
    ("model", "fallback"),
    [
        ("gpt-4o-mini", "claude-sonnet-4-5"),
        ("openai/a", "gemini-2.0-flash"),
        ("claude-haiku-4-5", "anthropic.claude-v2"),
    ],
)
def test_a_plain_name_of_another_provider_gets_no_key_either(model: str, fallback: str) -> None:
    config = LiteLLMConfig(model, api_base="http://127.0.0.1:9", api_key=KEY, fallbacks=[fallback])
    assert (config.chain()[1].api_key, config.chain()[1].api_base) == (None, None)


def test_a_fallback_of_the_same_provider_shares_key_and_address() -> None:
    for model, fallback in (("gpt-4o", "gpt-4o-mini"), ("openai/a", "openai/b")):
        config = LiteLLMConfig(model, api_base="http://127.0.0.1:9", api_key=KEY, fallbacks=[fallback])
        assert (config.chain()[1].api_key, config.chain()[1].api_base) == (KEY, "http://127.0.0.1:9")


def test_the_key_of_the_environment_goes_to_a_proxy_of_another_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    request = LiteLLMConfig("claude-sonnet-4-5", api_base="http://127.0.0.1:9").request([], {})
    assert "api_key" not in request  # so that litellm takes ANTHROPIC_API_KEY


def test_the_account_matches_the_server_to_the_token() -> None:
    def script(request: ScriptedRequest) -> Reply | str:
        faults: list[Reply] = [HttpError(429), HttpError(500), Reset()]
        if request.number % 4 == 0:
            return faults[request.number // 4 % 3]
        return "word " * (request.number % 7 + 1)

    with ScriptedServer(script) as server:
        client = client_for(server, max_retries=20)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(client.complete, [f"{'w ' * n}end" for n in range(60)]))
        usage = client.usage
        assert usage.calls == len(server.answered) == 60
        assert usage.input_tokens == server.input_tokens
        assert usage.output_tokens == server.output_tokens
        assert usage.failed_requests == len(server.requests) - 60 > 0


def test_costs_are_counted_where_the_price_is_known() -> None:
    with ScriptedServer(in_turn("one two three")) as server:
        priced = client_for(server, model="openai/gpt-4o-mini")
        priced.complete("hello")
        assert priced.usage.cost == pytest.approx(1 * 0.15e-6 + 3 * 0.6e-6)
        assert priced.usage.unpriced_calls == 0
        unpriced = client_for(server)
        unpriced.complete("hello")
        assert (unpriced.usage.cost, unpriced.usage.unpriced_calls) == (0.0, 1)


def test_an_answer_without_usage_is_counted_as_such() -> None:
    with ScriptedServer(in_turn(Answer("hi", with_usage=False))) as server:
        client = client_for(server)
        client.complete("x")
        assert client.usage == Usage(calls=1, unpriced_calls=1, unreported_calls=1)


def test_keys_show_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    refusal = HttpError(401, f"the key {KEY} is wrong")
    with ScriptedServer(in_turn("fine", HttpError(500, KEY), "fine", refusal)) as server:
        client = client_for(server)
        with _Messages() as messages:
            client.complete("x")
            client.complete("x")
            with pytest.raises(LLMAuthenticationError) as raised:
                client.complete("x")
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    # Our frames with their variables, as a crash reporter would show them; the test's own frame has the key.
    assert raised.tb.tb_next is not None
    frames = traceback.StackSummary.extract(traceback.walk_tb(raised.tb.tb_next), capture_locals=True)
    shown = "".join(frames.format())
    assert "litellm_client.py" in shown and "ModelChain" in shown
    assert raised.value.__context__ is None
    everything = [repr(client), repr(client.config), str(raised.value), shown, *messages, *capfd.readouterr()]
    assert messages
    assert "[hidden]" in str(raised.value)
    assert [text for text in everything if KEY in text] == []


WITHOUT_KEYS = """
import os, sys
before = dict(os.environ)
from ace.protocols import LLMAuthenticationError, LLMCallError
from ace.providers import LiteLLMClient

for key in ({"api_key": "sk-123456"}, {}):  # an own server needs none
    client = LiteLLMClient("openai/scripted", api_base=sys.argv[1], **key)
    client.complete("x")
    try:
        client.complete("x")
    except LLMCallError:
        pass
    assert client.usage.calls == 1
assert dict(os.environ) == before, set(os.environ) ^ set(before)
print("quiet", flush=True)
for model in ("gpt-4o-mini", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.0-flash"):
    try:
        LiteLLMClient(model, retry_delay=60.0).complete("x")
    except LLMAuthenticationError as error:
        print(error.attempts, error)
"""


def test_a_process_without_keys() -> None:
    """Calls print nothing and leave the environment alone; a missing key is named at once, by its variable."""
    with ScriptedServer(in_turn("fine", HttpError(404), "fine", HttpError(404))) as server:
        done = run_python(WITHOUT_KEYS.replace("sys.argv[1]", repr(server.api_base)), without_keys=True)
    quiet, *lines = done.stdout.splitlines()
    assert (quiet, done.stderr, len(lines)) == ("quiet", "", 3)
    for line, variable in zip(lines, ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), strict=True):
        assert line.startswith("1 ")
        assert "set the environment variable" in line
        assert variable in line


def test_the_client_is_one_and_bad_settings_are_told_at_construction() -> None:
    assert isinstance(LiteLLMClient("gpt-4o-mini"), LLMClientLike)
    for name, value in {"timeout": 0, "max_retries": -1, "retry_delay": -1, "validation_retries": -1}.items():
        with pytest.raises(ValueError, match=name):
            LiteLLMClient("gpt-4o-mini", **{name: value})  # type: ignore[arg-type]  # the values fit
    with pytest.raises(ValueError, match="model"):
        LiteLLMClient("")
    with pytest.raises(TypeError, match="fallbacks must be a list of models, got 'openai/b'; write \\['openai/b'\\]"):
        LiteLLMClient("openai/a", fallbacks="openai/b")


def test_from_config_is_the_same_client() -> None:
    with ScriptedServer(in_turn(HttpError(500), "fine")) as server:
        config = LiteLLMConfig("openai/scripted", api_base=server.api_base, api_key=KEY, max_retries=0)
        client = LiteLLMClient.from_config(config)
        with pytest.raises(LLMError):
            client.complete("x")
        assert client.complete("x").text == "fine"


def test_tokens_are_counted_with_the_tokenizer_of_the_model() -> None:
    client = LiteLLMClient("gpt-4o-mini")
    assert 5 <= client.count_tokens("The capital of France is Paris.") <= 9
    assert client.input_token_limit == 128_000
    assert LiteLLMClient("openai/of-my-own").input_token_limit is None


SKILLS = [
    "Check the units before you round.",
    "Preise stehen immer mit Währung: 12,50 €, nie „ungefähr“.",
    "先看单位,再四舍五入。",
    "Use `re.compile(r'[^\\W_]+')` and never `[a-z]*?`.",
    "Write \U0001f680\U0001f9ea only where a test wants it.",
    "Keep 3f9a7c1e-77aa-4b1d-9e55-0c2d4e6f8a9b and !@#$%^&*()_+{}|:<>? as they are.",
]


@pytest.mark.parametrize("format", ["markdown", "xml", "toon", "json"])
@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-4", "anthropic/claude-sonnet-4-5", "openai/of-my-own"])
def test_a_prompt_keeps_its_budget_by_the_tokenizer_of_the_model(model: str, format: PromptFormat) -> None:
    client = LiteLLMClient(model)
    book = Skillbook(count_tokens=client.count_tokens)
    for number in range(90):
        text = f"{SKILLS[number % len(SKILLS)]} Units of table {number}."
        book.add_skill(f"section {number % 4}", text, metadata={"helpful": number % 7})
    for query in (None, "Which units?"):
        for budget in (0, 5, 40, 171, 400, 900):
            text = book.as_prompt(budget, query, format)
            assert client.count_tokens(text) <= budget or text == ""
        assert client.count_tokens(text) > 700


class _Messages(logging.Handler):
    """Everything that any logger says while it is open, at every level."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.getMessage()} {record.__dict__}")

    def __enter__(self) -> list[str]:
        root = logging.getLogger()
        self._level = root.level
        root.setLevel(logging.DEBUG)
        root.addHandler(self)
        return self.texts

    def __exit__(self, *exc_info: object) -> None:
        logging.getLogger().removeHandler(self)
        logging.getLogger().setLevel(self._level)
