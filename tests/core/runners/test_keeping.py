"""What a run leaves in files: skillbooks, stores, checkpoints, and what others wrote meanwhile."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext
from ace.deduplication import DeduplicationManager
from ace.environments import Sample, SimpleEnvironment
from ace.pipeline import Pipeline
from ace.protocols import DeduplicationConfig, LLMCallError
from ace.roles import Agent, Reflector, SkillManager
from ace.runners import ACE, SkillbookNotWrittenError, TraceAnalyser
from ace.skill import Provenance
from ace.skillbook import Skillbook
from ace.steps import CheckpointStep, ObservabilityStep, PersistStep, SaveSkillbookStep, learning_tail
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer
from tests.support.subprocesses import run_python


def test_a_json_file_is_started_saved_and_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "skills.json"
    with ScriptedServer(secrets_world.answer) as server:
        client = client_for(server)
        ACE.from_client(client, prove=False, environment=SimpleEnvironment(), skillbook_path=path).run(
            secrets_world.samples(3)
        )
        assert len(Skillbook.load_from_file(path)) == 3
        runner = ACE.from_client(client, prove=False, environment=SimpleEnvironment(), skillbook_path=path)
        results = runner.run(secrets_world.samples(4), max_in_flight=1)
    metrics = [result.output.trace["metrics"] for result in results if result.output is not None]  # type: ignore[index]  # a dict
    assert metrics == [{"correct": 1.0}] * 3 + [{"correct": 0.0}]
    saved = Skillbook.load_from_file(path)
    assert [skill.helpful for skill in saved.skills()] == [1, 1, 1, 0]
    assert saved.dumps() == runner.skillbook.dumps()


def saved_before_each_sample(path: Path, found: list[int]) -> Callable[[ScriptedRequest], dict[str, Any]]:
    """Return a script that notes, whenever the agent is asked, how many skills the file holds."""

    def script(request: ScriptedRequest) -> dict[str, Any]:
        if request.role == "agent":
            found.append(len(Skillbook.load_from_file(path)) if path.exists() else 0)
        return secrets_world.answer(request)

    return script


def test_a_json_file_is_saved_during_the_run_however_long_a_save_takes(tmp_path: Path) -> None:
    path = tmp_path / "skills.json"
    found: list[int] = []
    with ScriptedServer(saved_before_each_sample(path, found)) as server:
        runner = ACE.from_client(client_for(server), prove=False, environment=SimpleEnvironment(), skillbook_path=path)
        runner.run(secrets_world.samples(22), max_in_flight=1)
    assert found[:2] == [0, 1]
    unsaved = [index - saved for index, saved in enumerate(found)]
    assert len(unsaved) == 22 and max(unsaved) < 10, "the interval of a save that is slow"
    assert len(Skillbook.load_from_file(path)) == 22


def test_a_json_file_is_saved_after_every_sample_with_an_interval_of_one(tmp_path: Path) -> None:
    path = tmp_path / "skills.json"
    book = Skillbook()
    found: list[int] = []
    with ScriptedServer(saved_before_each_sample(path, found)) as server:
        runner = ACE.from_client(
            client_for(server),
            prove=False,
            environment=SimpleEnvironment(),
            skillbook=book,
            extra_steps=[SaveSkillbookStep(path, book, interval=1)],
        )
        runner.run(secrets_world.samples(5), max_in_flight=1)
    assert found == [0, 1, 2, 3, 4]
    assert len(Skillbook.load_from_file(path)) == 5


def test_what_another_process_saved_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "skills.json"
    Skillbook().save_to_file(path)
    with ScriptedServer(secrets_world.answer) as server:
        runner = ACE.from_client(client_for(server), prove=False, environment=SimpleEnvironment(), skillbook_path=path)
        run_python(
            "from ace import Skillbook\n"
            f"book = Skillbook.load_from_file({str(path)!r})\n"
            "book.add_skill('others', 'Written by somebody else.')\n"
            f"book.save_to_file({str(path)!r})"
        )
        runner.run(secrets_world.samples(2))
    contents = [skill.content for skill in Skillbook.load_from_file(path).skills()]
    assert contents[0] == "Written by somebody else."
    assert len(contents) == 3


def test_a_store_gets_one_transaction_for_each_sample(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with ScriptedServer(secrets_world.answer) as server:
        runner = ACE.from_client(client_for(server), prove=False, environment=SimpleEnvironment(), skillbook_path=path)
        runner.run(secrets_world.samples(3), epochs=2)
    history = runner.skillbook.history()
    assert [entry.key.epoch for entry in history if entry.key is not None] == [1, 1, 1, 2, 2, 2]
    assert len({entry.key.run for entry in history if entry.key is not None}) == 1
    assert [entry.author for entry in history] == ["ace"] * 6
    [first] = runner.skillbook.as_of(1).skills()
    assert (first.helpful, runner.skillbook.as_of(4).skills()[0].helpful) == (0, 1)
    reopened = Skillbook.open(path)
    assert reopened.dumps() == runner.skillbook.dumps()
    store = reopened.store
    assert store is not None
    key = history[0].key
    assert key is not None
    notes = [json.loads(row.note) for row in store.progress(key.run)]
    assert [note["index"] for note in notes] == [1, 2, 3, 4, 5, 6]
    runner.skillbook.add_skill("later", "Committed at once, since no run is going on.")
    assert len(Skillbook.open(path)) == 4


def test_tags_of_a_sample_whose_update_failed_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"

    def script(request: ScriptedRequest) -> str | dict[str, Any]:
        if request.role == "skill_manager" and '"tag": "helpful"' in request.text:
            return "no"
        return secrets_world.answer(request)

    with ScriptedServer(script) as server:
        runner = ACE.from_client(client_for(server), prove=False, environment=SimpleEnvironment(), skillbook_path=path)
        results = runner.run(secrets_world.samples(1), epochs=2)
    assert [result.failed_at for result in results] == [None, "UpdateStep"]
    assert [skill.helpful for skill in Skillbook.open(path).skills()] == [1]


def test_two_processes_learn_into_one_store(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with ScriptedServer(secrets_world.answer) as server:
        runner = ACE.from_client(client_for(server), prove=False, environment=SimpleEnvironment(), skillbook_path=path)
        run_python(
            "from ace import ACE, SimpleEnvironment\n"
            "from tests.support import secrets_world\n"
            f"runner = ACE.from_model('openai/scripted', api_base={server.api_base!r}, api_key='k' * 9,\n"
            f"    environment=SimpleEnvironment(), skillbook_path={str(path)!r})\n"
            "runner.run(secrets_world.samples(2))"
        )
        results = runner.run(secrets_world.samples(3), max_in_flight=1)
    # The runner was opened before the other process learned: it takes that over at the start of each sample.
    metrics = [result.output.trace["metrics"] for result in results if result.output is not None]  # type: ignore[index]  # a dict
    assert metrics == [{"correct": 1.0}] * 2 + [{"correct": 0.0}]
    assert len(Skillbook.open(path)) == 3


def test_checkpoints_on_the_way_and_at_the_end(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        runner = ACE.from_client(
            client_for(server),
            prove=False,
            environment=SimpleEnvironment(),
            checkpoint_dir=tmp_path / "c",
            checkpoint_interval=2,
        )
        runner.run(secrets_world.samples(5))
    names = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert names == ["checkpoint_2.json", "checkpoint_4.json", "checkpoint_5.json", "latest.json"]
    sizes = [len(Skillbook.load_from_file(tmp_path / "c" / name)) for name in names]
    assert sizes == [2, 4, 5, 5]
    latest = json.loads((tmp_path / "c" / "latest.json").read_text())
    assert latest.pop("checkpoint")["sample"] == 5
    assert latest == json.loads(runner.skillbook.dumps())


class MergesEverything:
    """A deduplication manager that merges all skills of the book into the first."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def get_similarity_report(self, skillbook: Skillbook) -> str | None:
        raise AssertionError("consolidate goes first")

    def consolidate(self, skillbook: Skillbook) -> str:
        first, *others = [skill.id for skill in skillbook.skills()]
        self.sizes.append(1 + len(others))
        if others:
            skillbook.merge_skills(first, others)
        return f"{len(others)} merged"


def test_runs_end_with_a_merge_before_the_last_checkpoint(tmp_path: Path) -> None:
    manager = MergesEverything()
    with ScriptedServer(secrets_world.answer) as server:
        runner = ACE.from_client(
            client_for(server),
            prove=False,
            environment=SimpleEnvironment(),
            dedup_manager=manager,
            dedup_interval=3,
            checkpoint_dir=tmp_path,
            skillbook_path=tmp_path / "skills.db",
        )
        runner.run(secrets_world.samples(5))
    assert manager.sizes == [3, 3]
    assert len(Skillbook.load_from_file(tmp_path / "latest.json")) == 1
    assert [entry.author for entry in runner.skillbook.history()].count("deduplication") == 2


def test_settings_for_deduplication_make_the_manager() -> None:
    book = Skillbook()
    for _ in range(2):
        book.add_skill("secrets", "Look under the third stone.")
    with ScriptedServer(secrets_world.answer) as server:
        config = DeduplicationConfig(embedding_provider="lexical")
        ACE.from_client(
            client_for(server), prove=False, environment=SimpleEnvironment(), skillbook=book, dedup_config=config
        ).run(secrets_world.samples(1))
        off = ACE.build_steps(
            agent=Agent(client_for(server)),
            reflector=Reflector(client_for(server)),
            skill_manager=SkillManager(client_for(server)),
            skillbook=book,
            dedup_config=DeduplicationConfig(enabled=False),
        )
    assert [skill.content for skill in book.skills()] == [
        *("Look under the third stone.", "The secret of thing0 is value-of-thing0."),
    ]
    assert "DeduplicateStep" not in [type(step).__name__ for step in off]


ALIKE = ("Look under the third stone.", "Look under the third big stone.", "Look below the third stone.")


@pytest.mark.parametrize("how", ["dedup_manager", "dedup_config", "own_skill_manager", "learning_tail"])
def test_doubtful_pairs_are_put_to_the_skill_manager(how: str) -> None:
    book = Skillbook()
    for content in ALIKE:
        book.add_skill("secrets", content)
    questions: list[str] = []

    def script(request: ScriptedRequest) -> dict[str, Any]:
        if "consolidation_operations" in request.text:
            questions.append(request.model)
            return {"reasoning": "they differ", "consolidation_operations": []}
        return secrets_world.answer(request)

    with ScriptedServer(script) as server:
        client, other = client_for(server), client_for(server, model="openai/other")
        config = DeduplicationConfig(embedding_provider="lexical", similarity_threshold=0.6)
        manager = DeduplicationManager(config, SkillManager(other) if how == "own_skill_manager" else None)
        reflector, skill_manager = Reflector(client), SkillManager(client)
        if how == "learning_tail":
            tail = learning_tail(reflector, skill_manager, book, dedup_manager=manager, dedup_interval=2)
            runner = TraceAnalyser(Pipeline(tail), book)
        else:
            runner = TraceAnalyser.from_roles(
                reflector=reflector,
                skill_manager=skill_manager,
                skillbook=book,
                dedup_interval=2,
                dedup_manager=None if how == "dedup_config" else manager,
                dedup_config=config if how == "dedup_config" else None,
            )
        runner.run([{"question": "Where?", "answer": f"There {number}."} for number in range(4)])
        assert manager.skill_manager is None or how == "own_skill_manager", "the manager of the caller stays as it is"
    assert questions and set(questions) == {"other" if how == "own_skill_manager" else questions[0]}
    assert (questions[0] == "other") is (how == "own_skill_manager")


def test_a_model_that_cannot_judge_at_the_end_costs_no_save(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Unreachable(MergesEverything):
        def consolidate(self, skillbook: Skillbook) -> str:
            raise LLMCallError("no route to the model")

    with ScriptedServer(secrets_world.answer) as server:
        runner = ACE.from_client(
            client_for(server),
            prove=False,
            environment=SimpleEnvironment(),
            dedup_manager=Unreachable(),
            skillbook_path=tmp_path / "skills.json",
        )
        assert len(runner.run(secrets_world.samples(2))) == 2
    assert len(Skillbook.load_from_file(tmp_path / "skills.json")) == 2
    assert "no route to the model" in caplog.text


def test_a_manager_without_consolidate_has_its_report_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Reports:
        def get_similarity_report(self, skillbook: Skillbook) -> str | None:
            return f"{len(skillbook)} skills look alike"

    caplog.set_level("INFO", "ace.steps.deduplicate")
    with ScriptedServer(secrets_world.answer) as server:
        runner = ACE.from_client(
            client_for(server), prove=False, environment=SimpleEnvironment(), dedup_manager=Reports()
        )
        runner.run(secrets_world.samples(2))
    assert "2 skills look alike" in caplog.text
    assert len(runner.skillbook) == 2


def test_load_rebinds_every_writing_step(tmp_path: Path) -> None:
    other = Skillbook()
    other.add_skill("old", "What was known before.")
    other.save_to_file(tmp_path / "other.json")
    book = Skillbook()
    extra = PersistStep(tmp_path / "CLAUDE.md", book)
    with ScriptedServer(secrets_world.answer) as server:
        runner = ACE.from_client(
            client_for(server),
            prove=False,
            environment=SimpleEnvironment(),
            skillbook=book,
            checkpoint_dir=tmp_path / "c",
            extra_steps=[extra],
        )
        runner.run(secrets_world.samples(1), wait=False)
        runner.load(tmp_path / "other.json")
        assert len(book) == 1
        runner.run(secrets_world.samples(2))
        for step in runner.pipeline.steps:
            assert getattr(step, "skillbook", runner.skillbook) is runner.skillbook
            assert getattr(step, "lane_key", runner.skillbook) is runner.skillbook
        assert (len(book), len(runner.skillbook)) == (1, 3)
        assert "What was known before." in (tmp_path / "CLAUDE.md").read_text()
        assert len(Skillbook.load_from_file(tmp_path / "c" / "latest.json")) == 3
        assert runner.learning_stats["completed"] == 3
        runner.save(tmp_path / "again.json")
    assert Skillbook.load_from_file(tmp_path / "again.json").dumps() == runner.skillbook.dumps()


def test_after_load_a_runner_with_a_file_saves_to_the_new_one(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    Skillbook().save_to_file(second)
    with ScriptedServer(secrets_world.answer) as server:
        runner = ACE.from_client(client_for(server), prove=False, environment=SimpleEnvironment(), skillbook_path=first)
        runner.run(secrets_world.samples(1))
        runner.load(second)
        runner.run(secrets_world.samples(2))
    assert (len(Skillbook.load_from_file(first)), len(Skillbook.load_from_file(second))) == (1, 2)


def test_a_file_that_is_no_skillbook_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "skills.json"
    path.write_text('{"skills": {')
    with ScriptedServer(secrets_world.answer) as server:
        with pytest.raises(ValueError, match=r"skills\.json"):
            ACE.from_client(client_for(server), prove=False, skillbook_path=path)
        with pytest.raises(ValueError, match=r"saves its skillbook as \.json or \.db"):
            ACE.from_client(client_for(server), prove=False, skillbook_path=tmp_path / "skills.md")
    assert path.read_text() == '{"skills": {'


EXIT = """
import logging
from pathlib import Path
from ace import ACE, LiteLLMClient, SimpleEnvironment
from tests.support import secrets_world
logging.basicConfig(level="WARNING")
client = LiteLLMClient("openai/scripted", api_base={api_base!r}, api_key="k" * 9)
runner = ACE.from_client(client, prove=False, environment=SimpleEnvironment(), skillbook_path={path!r})
results = runner.run(secrets_world.samples(6), wait=False, max_in_flight=101)
print(len(results), len(runner.skillbook))
Path({printed!r}).touch()
"""


@pytest.mark.parametrize("name", ["skills.json", "skills.db"])
def test_a_normal_exit_after_wait_false_loses_nothing(name: str, tmp_path: Path) -> None:
    printed = tmp_path / "printed"

    def script(request: ScriptedRequest) -> dict[str, Any]:
        while request.role == "reflector" and not printed.exists():
            time.sleep(0.01)  # so that the foreground is done first
        return secrets_world.answer(request)

    with ScriptedServer(script) as server:
        done = run_python(EXIT.format(api_base=server.api_base, path=str(tmp_path / name), printed=str(printed)))
        assert len(server.by_role("skill_manager")) == 6
    count, learned = map(int, done.stdout.split())
    assert count == 6
    assert learned == 0
    book = Skillbook.load_from_file(tmp_path / name)
    assert [skill.content for skill in book.skills()] == [
        f"The secret of thing{n} is value-of-thing{n}." for n in range(6)
    ]
    assert not (tmp_path / "failures.jsonl").exists()


def test_a_last_save_that_fails_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    with ScriptedServer(secrets_world.answer) as server:
        runner = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=folder / "skills.json")
        folder.rmdir() if folder.exists() else None
        folder.write_text("a file where the folder should be")
        trace = {"question": "What is the secret of x?", "ground_truth": "value-of-x"}
        with pytest.raises(SkillbookNotWrittenError, match="Not a directory"):
            runner.run([trace])
        runner.run([trace], wait=False)
        with pytest.raises(SkillbookNotWrittenError, match="Not a directory"):
            runner.wait_for_background()
        runner.wait_for_background()
    assert len(runner.skillbook) == 1


def test_the_log_line_of_each_sample(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ace.steps.observability")
    with ScriptedServer(secrets_world.answer) as server:
        runner = ACE.from_client(
            client_for(server), prove=False, environment=SimpleEnvironment(), extra_steps=[ObservabilityStep()]
        )
        runner.run([*secrets_world.samples(1), Sample("What is the secret of nothing?")])
    lines = [json.loads(record.message) for record in caplog.records if record.name == "ace.steps.observability"]
    assert [line["trace_id"].split("#")[-1] for line in lines] == ["thing0", "2"]
    assert [line["operations"] for line in lines] == [["ADD"], []]
    assert [line["skills"] for line in lines] == [1, 1]


def test_checkpoint_steps_on_their_own(tmp_path: Path) -> None:
    step = CheckpointStep(tmp_path / "a" / "b", Skillbook(), interval=3)
    for index in range(1, 7):
        step(ACEStepContext(global_sample_index=index))
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [
        *("checkpoint_3.json", "checkpoint_6.json", "latest.json"),
    ]
    with pytest.raises(ValueError, match="interval"):
        CheckpointStep(tmp_path, Skillbook(), interval=0)


@pytest.mark.parametrize("provenance", ["full", "ids"])
def test_checkpoints_record_run_epoch_step_time_and_recent_reflections(tmp_path: Path, provenance: Provenance) -> None:
    def script(request: ScriptedRequest) -> Mapping[str, Any]:
        if request.role == "reflector":
            number = re.findall(r"Do job (\d+)", request.text)[-1]
            return {"reasoning": "r", "correct_approach": "", "key_insight": f"Insight {number}."}
        return {"reasoning": "", "operations": []}

    before = datetime.now(UTC)
    with ScriptedServer(script) as server:
        runner = TraceAnalyser.from_client(
            client_for(server),
            skillbook_path=tmp_path / "skills.db",
            checkpoint_dir=tmp_path / "c",
            checkpoint_interval=3,
            provenance=provenance,
        )
        traces = [{"question": f"Do job {number}."} for number in (1, 2)]
        runner.run(traces, epochs=2, run_id="night", reflection_window=2, max_in_flight=1)
    seen = {}
    for path in sorted((tmp_path / "c").iterdir()):
        data = json.loads(path.read_bytes())["checkpoint"]
        assert before <= datetime.fromisoformat(data.pop("written_at")) <= datetime.now(UTC)
        seen[path.name] = data
        assert len(Skillbook.load_from_file(path)) == 0
    third, last = (
        {
            "run_id": "night",
            "epoch": 2,
            "step": step,
            "sample": 2 + step,
            "recent_reflections": texts if provenance == "full" else [],
        }
        for step, texts in ((1, ["Insight 2.", "Insight 1."]), (2, ["Insight 1.", "Insight 2."]))
    )
    assert seen == {"checkpoint_3.json": third, "checkpoint_4.json": last, "latest.json": last}
