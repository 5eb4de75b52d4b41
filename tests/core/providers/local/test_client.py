"""The client on a real, very small model."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from ace.protocols import LLMCallError, LLMClientLike, UnusableAnswerError
from ace.protocols.observers import ModelCalled, observing
from ace.providers.local import LocalLLMClient, LocalModelError, ModelNotPulledError, close_servers
from ace.runners.learning_settings import client_from_model
from tests.support.local_models import needed_model
from tests.support.subprocesses import run_python


class Animal(BaseModel):
    name: str = Field(json_schema_extra={"maxLength": 20})
    legs: Annotated[int, Field(ge=0, le=8)]
    kind: Literal["bird", "mammal", "insect"]
    code: str = Field(pattern=r"[^\d]*", json_schema_extra={"maxLength": 10})


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    yield needed_model("smollm2-135m")
    close_servers()


def test_it_answers_and_counts(model: str) -> None:
    client = LocalLLMClient(model, max_tokens=8)
    response = client.complete("Say hello.", system="You are polite.")
    assert response.text
    assert response.usage == client.usage
    assert (client.usage.calls, client.usage.cost, client.usage.unpriced_calls) == (1, 0.0, 0)
    assert client.usage.input_tokens > 5 and 0 < client.usage.output_tokens <= 8
    assert isinstance(client, LLMClientLike)


def test_an_answer_that_is_cut_off_says_so(model: str) -> None:
    assert LocalLLMClient(model, max_tokens=3).complete("Tell a long story.").finish_reason == "length"


def test_a_structured_answer_keeps_to_its_schema(model: str) -> None:
    animal = LocalLLMClient(model).complete_structured("Describe a dog.", Animal)
    assert animal.kind in ("bird", "mammal", "insect") and len(animal.name) <= 20


def test_half_a_json_object_is_an_unusable_answer_that_names_max_tokens(model: str) -> None:
    client = LocalLLMClient(model, max_tokens=4, validation_retries=1)
    with pytest.raises(UnusableAnswerError, match="cut off at max_tokens") as caught:
        client.complete_structured("Describe a dog.", Animal)
    assert len(caught.value.raw_answers) == client.usage.calls == 2


def test_a_prompt_that_is_too_long_is_reported_with_both_numbers(model: str) -> None:
    client = LocalLLMClient(model, max_tokens=16, context_tokens=512, slots=1)
    with pytest.raises(
        LLMCallError, match=r"the prompt has \d+ tokens, but prompt and answer together may have 512; .*context_tokens"
    ):
        client.complete("word " * 2000)
    assert client.usage.failed_requests == 1


def test_a_call_that_takes_too_long_is_ended_and_the_next_one_works(model: str) -> None:
    client = LocalLLMClient(model, timeout=0.001)
    with pytest.raises(LLMCallError, match=r"no answer within 0\.001 s; raise timeout"):
        client.complete("Tell a long story.")
    assert LocalLLMClient(model).complete("Say hello.", max_tokens=2).text


def test_an_answer_that_is_not_a_json_object_is_an_error_of_the_call(model: str) -> None:
    client = LocalLLMClient(model, max_tokens=2)
    with pytest.raises(LLMCallError, match="gave no answer: it did not send a JSON object, but b'data: "):
        client.complete("Say hello.", stream=True)
    assert client.usage.failed_requests == 1
    assert client.complete("Say hello.").text


def test_several_threads_share_one_model(model: str) -> None:
    clients = [LocalLLMClient(model, max_tokens=8) for _ in range(2)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: clients[number % 2].complete(f"Count to {number}."), range(8)))
    assert all(answer.text for answer in answers)
    assert sum(client.usage.calls for client in clients) == 8


def test_repeatable_answers_are_equal_also_after_a_restart(model: str) -> None:
    client = LocalLLMClient(model, repeatable=True, max_tokens=12)
    prompts = [f"Tell me something about the number {number}." for number in range(2)]
    first = [client.complete(prompt).text for prompt in prompts]
    close_servers()
    assert [client.complete(prompt).text for prompt in reversed(prompts)] == first[::-1]


def test_a_model_that_is_freed_as_soon_as_it_is_loaded_is_freed(model: str) -> None:
    code = (
        "from ace.providers.local import LocalLLMClient, close_servers\n"
        "for _ in range(3):\n"
        f"    LocalLLMClient({model!r}, context_tokens=512, max_tokens=2).load()\n"
        "    close_servers()\n"
    )
    # On busy cores, the thread of the runtime that serves requests begins late.
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait() for process in running] == [0] * 3


@pytest.mark.parametrize(
    "call", ["client.complete(story, ignore_eos=True)", "asyncio.run(client.acomplete(story, ignore_eos=True))"]
)
def test_a_process_ends_while_a_thread_waits_for_an_answer(model: str, call: str) -> None:
    code = (
        "import asyncio, threading, time\n"
        "from ace.protocols import LLMCallError\n"
        "from ace.providers.local import LocalLLMClient, close_servers\n"
        "from ace.providers.local.server import shared_server\n"
        f"client = LocalLLMClient({model!r}, context_tokens=2048, max_tokens=2000)\n"
        "story = 'Tell a long story.'\n"
        "def ask():\n"
        "    try:\n"
        f"        {call}\n"
        "    except LLMCallError as error:\n"
        "        print(f'{error}\\n', end='', flush=True)\n"  # in one write, because three threads print
        "client.load()\n"
        "asking = [threading.Thread(target=ask, daemon=True) for _ in range(3)]\n"
        "for thread in asking: thread.start()\n"
        "while len(shared_server(client._server_settings())._connections) < 3: time.sleep(0.01)\n"
        "close_servers()\n"
        "for thread in asking: thread.join()\n"
        "threading.Thread(target=ask, daemon=True).start()\n"
        "time.sleep(2)\n"
    )
    done = run_python(code)
    closed = f"local model '{model}' gave no answer: the model has been closed"
    assert done.stdout.splitlines()[:3] == [closed] * 3


def test_calls_are_reported_to_observers(model: str) -> None:
    seen: list[object] = []
    with observing(seen.append):
        LocalLLMClient(model, max_tokens=2).complete("Say hello.")
    (called,) = [event for event in seen if isinstance(event, ModelCalled)]
    assert (called.model, called.output_tokens, called.cost) == (model, 2, 0.0)


def test_the_port_requires_a_key_and_nothing_is_printed(model: str) -> None:
    code = (
        "import urllib.request, urllib.error\n"
        "from ace.providers.local import LocalLLMClient, model_file\n"
        "from ace.providers.local.server import shared_server\n"
        f"client = LocalLLMClient({model!r}, max_tokens=2)\n"
        "client.complete('Say hello.')\n"
        "address = shared_server(client._server_settings())._address.geturl()\n"
        "try:\n"
        "    urllib.request.urlopen(address + '/v1/models?', timeout=60).close()\n"
        "    urllib.request.urlopen(address + '/v1/chat/completions', data=b'{}', timeout=60).close()\n"
        "except urllib.error.HTTPError as error:\n"
        "    print(error.code); error.close()\n"
    )
    done = run_python(code)
    assert (done.stdout.strip(), done.stderr) == ("401", "")


def test_a_model_string_makes_a_client(model: str) -> None:
    client = client_from_model(f"local/{model}", max_tokens=2, temperature=0.0)
    assert client.complete("Say hello.").text


def test_any_gguf_file_works(model: str, tmp_path: Path) -> None:
    from ace.providers.local import model_file

    link = tmp_path / "mine.gguf"
    link.symlink_to(model_file(model).path)
    assert client_from_model(f"local/{link}", max_tokens=2).complete("Say hello.").text


def test_a_file_that_is_not_a_model_is_reported(tmp_path: Path) -> None:
    needed_model("smollm2-135m")
    broken = tmp_path / "broken.gguf"
    broken.write_text("hello", encoding="utf-8")
    with pytest.raises(LocalModelError, match=r"broken\.gguf' cannot be loaded; it is incomplete, not a GGUF file"):
        LocalLLMClient(broken).complete("Hello?")


def test_what_is_missing_is_reported_with_the_command_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACE_MODELS", str(tmp_path))
    with pytest.raises(ModelNotPulledError, match=r"download it with: ace models pull qwen2\.5-coder-1\.5b"):
        LocalLLMClient().complete("Hello?")
    with pytest.raises(LocalModelError, match=r"no such local model: .gpt-9.; the catalogue has .qwen2\.5"):
        LocalLLMClient("gpt-9").complete("Hello?")
    with pytest.raises(LocalModelError, match="no such model file"):
        LocalLLMClient(tmp_path / "none.gguf").complete("Hello?")


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="slots must be at least 1"):
        LocalLLMClient(slots=0)
    for timeout in (0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="timeout must be more than 0 seconds"):
            LocalLLMClient(timeout=timeout)
    with pytest.raises(ValueError, match="must be larger than max_tokens"):
        LocalLLMClient(context_tokens=100, max_tokens=100)
    with pytest.raises(ValueError, match="api_base does not apply"):
        client_from_model("local/smollm2-135m", api_base="http://localhost")


def test_making_a_client_loads_nothing_heavy() -> None:
    code = (
        "import sys, json; from ace.providers.local import LocalLLMClient; LocalLLMClient()\n"
        "print(json.dumps([name for name in ('litellm', 'numpy', 'pydantic', 'xllamacpp') if name in sys.modules]))"
    )
    assert json.loads(run_python(code).stdout) == []


def test_the_runtimes_settings_leave_the_environment_as_it_was(model: str) -> None:
    LocalLLMClient(model).load()
    assert "OMP_WAIT_POLICY" not in os.environ


def test_it_can_be_awaited(model: str) -> None:
    client = LocalLLMClient(model, max_tokens=40, repeatable=True)

    async def main() -> list[str]:
        several = await asyncio.gather(*(client.acomplete("Say hello.", max_tokens=8) for _ in range(3)))
        animal = await client.acomplete_structured("Describe a dog.", Animal)
        return [*(answer.text for answer in several), animal.kind]

    *texts, kind = asyncio.run(main())
    assert texts == [client.complete("Say hello.", max_tokens=8).text] * 3
    assert kind == client.complete_structured("Describe a dog.", Animal).kind
    with pytest.raises(LLMCallError, match=r"no answer within 0\.001 s; raise timeout"):
        asyncio.run(LocalLLMClient(model, timeout=0.001).acomplete("Tell a long story."))
