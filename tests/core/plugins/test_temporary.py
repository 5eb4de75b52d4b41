"""What a plugin gives reaches those who use plain `ace`; here with plugins that are there for one block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ace
from ace.context import ACEStepContext
from ace.deduplication import SimilarityDetector
from ace.logs.trace import read_trace
from ace.plugins import (
    EmbedderSpec,
    ExecuteStepSpec,
    LLMClientSpec,
    MissingFrameworkError,
    ObserverSpec,
    PluginConflictError,
    PluginError,
    RunnerSpec,
    StoreSpec,
    TraceConverterSpec,
    UnknownPluginError,
    get_execute_step,
    get_llm_client,
    get_runner,
    get_trace_converter,
    hookimpl,
    list_plugins,
    temporary,
)
from ace.protocols import AmbiguousTraceError, DeduplicationConfig, TraceConversionError, find_model_prefix
from ace.protocols.observers import Event, ModelCalled, RunEnded, RunStarted
from ace.runners import IntegrationRunner, TraceAnalyser
from ace.skillbook import Skillbook
from ace.skillbook.sqlite_store import SqliteStore
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedServer

HERE = __name__
EVENTS: list[Event] = []


class Claimed:
    """A result of the framework; without its converter, its task is taken for the question as it is."""

    __slots__ = ("task",)

    def __init__(self, task: str) -> None:
        self.task = task


class ToTrace:
    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        record: Any = ctx.trace
        task = record.task if isinstance(record, Claimed) else record.read_text(encoding="utf-8")
        return ctx.replace(trace={"question": f"converted: {task}"})


class Broken:
    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        return ctx.replace(trace=["no", "dict"])


def score(record: object) -> float:
    return 0.5 if isinstance(record, Claimed) or (isinstance(record, bytes) and record.startswith(b"claimed")) else 0.0


def client(model: str, **settings: object) -> Any:
    return SimpleNamespace(model=model, settings=settings)


def open_store(location: str) -> SqliteStore:
    return SqliteStore(Path(location.removeprefix("acme://")).with_suffix(".acme"))


class Embedder:
    def __init__(self, model: str | None) -> None:
        self.model = model

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[1.0, 0.0] if "twin" in text else [0.0, 1.0] for text in texts]


def observe(event: Event) -> None:
    EVENTS.append(event)


class Converting:
    """A hook object; `spec` is what it yields."""

    ACE_API = 1

    def __init__(self, name: str = "acme", **fields: Any) -> None:
        self.spec = TraceConverterSpec(name=name, **{"target": f"{HERE}:ToTrace", **fields})

    @hookimpl
    def ace_trace_converters(self) -> Iterator[TraceConverterSpec]:
        yield self.spec


class Everything:
    ACE_API = 1

    @hookimpl
    def ace_llm_clients(self) -> Iterator[LLMClientSpec]:
        yield LLMClientSpec(name="acme", target=f"{HERE}:client")

    @hookimpl
    def ace_stores(self) -> Iterator[StoreSpec]:
        yield StoreSpec(name="acme", target=f"{HERE}:open_store", schemes=("acme",), suffixes=(".acme",))

    @hookimpl
    def ace_embedders(self) -> list[EmbedderSpec]:
        return [EmbedderSpec(name="acme", target=f"{HERE}:Embedder")]

    @hookimpl
    def ace_observers(self) -> tuple[ObserverSpec, ...]:
        return (ObserverSpec(name="acme", target=f"{HERE}:observe"),)


def question(trace: object) -> str:
    return read_trace(trace)["question"]


def test_a_converter_is_used_within_the_block_and_not_after_it(tmp_path: Path) -> None:
    trace = Claimed("boat")
    assert question(trace) == "boat"
    with temporary(Converting(accepts=f"{HERE}:Claimed"), name="acme"):
        assert question(trace) == "converted: boat"
    assert question(trace) == "boat"


def test_the_more_specific_converter_wins_and_a_tie_names_both() -> None:
    sure, unsure = Converting("sure", accepts=f"{HERE}:Claimed"), Converting("unsure", recognises=f"{HERE}:score")
    with temporary(unsure, name="unsure"), temporary(sure, name="sure"):
        assert question(Claimed("boat")) == "converted: boat"
    again = Converting("again", recognises=f"{HERE}:score")
    with (
        temporary(unsure, name="unsure"),
        temporary(again, name="again"),
        pytest.raises(AmbiguousTraceError, match="'again' and 'unsure'"),
    ):
        question(Claimed("boat"))
    assert question(Claimed("boat")) == "boat"


def test_a_converter_that_gives_no_dict_is_named() -> None:
    broken = Converting(target=f"{HERE}:Broken", accepts=f"{HERE}:Claimed")
    said = r"plugin 'acme' .*standard trace dict.*not a list"
    with temporary(broken, name="acme"), pytest.raises(TraceConversionError, match=said):
        question(Claimed("boat"))


def test_a_model_string_reaches_the_client_of_a_plugin() -> None:
    with temporary(Everything(), name="acme"):
        found = find_model_prefix("acme/large/v2")
        assert found is not None
        factory, rest = found
        made: Any = factory(rest, max_tokens=3)
        assert (made.model, made.settings) == ("large/v2", {"max_tokens": 3})
        assert get_llm_client("acme") is client
    assert find_model_prefix("acme/large") is None


def test_a_store_opens_its_scheme_and_its_suffix(tmp_path: Path) -> None:
    place = f"acme://{tmp_path}/skills"
    with temporary(Everything(), name="acme"):
        with Skillbook.open(place) as book:
            book.add_skill("maths", "Check the units.")
        with Skillbook.open(tmp_path / "skills.acme") as again:
            assert (len(again), again.version) == (1, 1)
        with Skillbook.load_from_file(place) as loaded:
            assert len(loaded) == 1
        copy = Skillbook()
        copy.add_skill("maths", "Name the unit.")
        copy.save_to_file(f"acme://{tmp_path}/copy")
        with pytest.raises(FileExistsError):
            copy.save_to_file(place)
        with Skillbook.open(f"acme://{tmp_path}/copy") as saved:
            assert [skill.content for skill in saved.skills()] == ["Name the unit."]
    with pytest.raises(ValueError, match=r"no store is installed for 'acme://.*; available: .*'sqlite'"):
        Skillbook.open(place)


def test_a_run_keeps_its_skillbook_in_the_store_of_a_plugin(tmp_path: Path) -> None:
    place = f"acme://{tmp_path}/skills"
    trace = {"question": "What is the secret of boat?", "ground_truth": "value-of-boat"}
    EVENTS.clear()
    with temporary(Everything(), name="acme"):
        with ScriptedServer(secrets_world.answer) as server:
            runner = TraceAnalyser.from_client(client_for(server), skillbook_path=place)
            runner.run([trace])
            runner.skillbook.close()
        with Skillbook.open(place) as book:
            assert secrets_world.things_taught(book.as_prompt()) == ["boat"]
            assert book.version
        assert {RunStarted, ModelCalled, RunEnded} <= set(map(type, EVENTS))
        seen = len(EVENTS)
    with ScriptedServer(secrets_world.answer) as server:
        TraceAnalyser.from_client(client_for(server)).run([trace])
    assert len(EVENTS) == seen


def test_an_embedder_is_chosen_by_name() -> None:
    book = Skillbook()
    for content in ("a twin", "its twin", "another"):
        book.add_skill("s", content)
    with temporary(Everything(), name="acme"):
        detector = SimilarityDetector(DeduplicationConfig(embedding_provider="acme"))
        assert detector.ensure_embeddings(book) == 3
        assert [(pair.first.content, pair.second.content) for pair in detector.detect_similar_pairs(book)] == [
            ("a twin", "its twin")
        ]
    with pytest.raises(ValueError, match="'auto', 'litellm', 'local', 'lexical', got 'acme'"):
        DeduplicationConfig(embedding_provider="acme")


def test_a_store_cannot_take_what_is_taken(tmp_path: Path) -> None:
    class Greedy:
        ACE_API = 1

        @hookimpl
        def ace_stores(self) -> Iterator[StoreSpec]:
            yield StoreSpec(name="greedy", target=f"{HERE}:open_store", suffixes=(".db",))

    with temporary(Greedy(), name="greedy"), Skillbook.open(tmp_path / "book.db") as book:
        assert isinstance(book.store, SqliteStore)
        assert book.store.path == tmp_path / "book.db"


def test_what_a_plugin_does_not_give_is_said() -> None:
    with temporary(Converting(), name="acme"):
        assert get_trace_converter("acme") is ToTrace
        with pytest.raises(UnknownPluginError, match="an execute step; it provides: trace_converters"):
            get_execute_step("acme")
        with pytest.raises(UnknownPluginError, match="does not provide a runner"):
            get_runner("acme")
    with pytest.raises(LookupError, match="'acme'"):
        get_runner("acme")


def test_one_that_is_there_already_is_hidden_and_comes_back() -> None:
    with temporary(Converting(accepts=f"{HERE}:Claimed"), name="acme"):
        assert question(Claimed("boat")) == "converted: boat"
        with temporary(Everything(), name="acme"):
            assert question(Claimed("boat")) == "boat"
            assert get_llm_client("acme") is client
        assert question(Claimed("boat")) == "converted: boat"
        assert [info.status for info in list_plugins("acme")] == ["ok"]


class RunStep:
    requires = frozenset({"sample", "skillbook"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        return ctx.replace(trace=Claimed(ctx.sample))


class BothSteps(Converting):
    @hookimpl
    def ace_execute_steps(self) -> Iterator[ExecuteStepSpec]:
        yield ExecuteStepSpec(name="acme_agent", target=f"{HERE}:RunStep")


def test_a_composed_runner_is_one_class_for_all_threads() -> None:
    with temporary(BothSteps("acme_agent"), name="acme_agent"), ThreadPoolExecutor(8) as threads:
        found = set(threads.map(get_runner, ["acme_agent"] * 50))
        [runner] = found
    assert (runner.__name__, runner.integration) == ("AcmeAgentRunner", "acme_agent")
    assert issubclass(runner, IntegrationRunner)


def test_an_integration_is_found_under_its_name_in_ace() -> None:
    class Hooks:
        ACE_API = 1

        @hookimpl
        def ace_runners(self) -> Iterator[RunnerSpec]:
            yield RunnerSpec(name="openclaw", target="ace.runners:TraceAnalyser")

    with temporary(Hooks(), name="openclaw"):
        assert ace.OpenClaw is TraceAnalyser


def test_errors_are_of_the_kinds_that_callers_know() -> None:
    assert issubclass(UnknownPluginError, LookupError)
    assert issubclass(MissingFrameworkError, ImportError)
    assert issubclass(PluginConflictError, PluginError)
