"""A misspelt argument is answered with the right one, in the name of what the caller called."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ace
import ace.deduplication
import ace.evaluation
import ace.providers
import ace.retrieval
import ace.roles
import ace.steps
from ace.deduplication import DeduplicationManager
from ace.environments import EnvironmentResult, Sample, SimpleEnvironment
from ace.evaluation import Evaluator, Trainer, ValidationSettings, compare, split_samples
from ace.protocols.deduplication import DeduplicationConfig
from ace.providers import InstructorClient, LiteLLMClient, LiteLLMConfig, wrap_with_instructor
from ace.roles import Agent, Reflector, SkillManager
from ace.runners import ACE, ACELiteLLM, IntegrationRunner, LearningSettings, TraceAnalyser
from ace.skillbook import Skillbook
from ace.steps import AgentStep, ApplyStep, CheckpointStep, DeduplicateStep, PersistStep, ReflectStep, learning_tail
from tests.support import misspelt


class Nothing:
    """A client and all roles at once; none of it is called."""

    def complete(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the call was not refused")

    complete_structured = generate = reflect = update_skills = evaluate = complete


class Execute:
    requires, provides = frozenset({"sample", "skillbook"}), frozenset({"trace"})

    def __init__(self, agent: str, *, loudness: int = 1) -> None: ...

    def __call__(self, ctx: Any) -> Any:
        return ctx


class ToTrace:
    requires = provides = frozenset({"trace"})

    def __call__(self, ctx: Any) -> Any:
        return ctx


class Shouter(IntegrationRunner):
    execute_step = Execute
    to_trace = ToTrace


class OwnRunner(ACE):
    """Somebody's subclass: errors carry its name."""


ROLES: dict[str, Any] = {"agent": Nothing(), "reflector": Nothing(), "skill_manager": Nothing()}
LOOKING_BACK = {name: ROLES[name] for name in ("reflector", "skill_manager")}
CLIENT: Any = Nothing()


def call(function: Any, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda **more: function(*args, **kwargs, **more)


def facade() -> ACELiteLLM:
    return ACELiteLLM(CLIENT)


def a_trainer() -> Trainer:
    return Trainer(Evaluator(CLIENT, CLIENT), **LOOKING_BACK)


MATRIX: list[tuple[str, Callable[..., Any], str, str]] = [
    ("ACE.from_roles", call(ACE.from_roles, **ROLES), "skill_book", "skillbook"),
    ("ACE.from_roles", call(ACE.from_roles, **ROLES), "checkpoint_intervall", "checkpoint_interval"),
    ("ACE.from_client", call(ACE.from_client, CLIENT), "skill_book", "skillbook"),
    ("ACE.from_client", call(ACE.from_client, CLIENT), "enviroment", "environment"),
    ("ACE.from_model", call(ACE.from_model, "gpt-4o-mini"), "base_url", "api_base"),
    ("ACE.from_model", call(ACE.from_model, "gpt-4o-mini"), "skillbok_path", "skillbook_path"),
    ("ACE.build_steps", call(ACE.build_steps, **ROLES, skillbook=Skillbook()), "dedup_conf", "dedup_config"),
    ("OwnRunner.from_client", call(OwnRunner.from_client, CLIENT), "skill_book", "skillbook"),
    ("OwnRunner.from_model", call(OwnRunner.from_model, "gpt-4o-mini"), "temprature", "temperature"),
    ("TraceAnalyser.from_roles", call(TraceAnalyser.from_roles, **LOOKING_BACK), "playbook", "skillbook"),
    ("TraceAnalyser.from_client", call(TraceAnalyser.from_client, CLIENT), "extra_step", "extra_steps"),
    ("TraceAnalyser.from_model", call(TraceAnalyser.from_model, "gpt-4o"), "max_token", "max_tokens"),
    (
        "TraceAnalyser.build_steps",
        call(TraceAnalyser.build_steps, **LOOKING_BACK, skillbook=Skillbook()),
        *("failure_path", "failures_path"),
    ),
    ("ACELiteLLM", call(ACELiteLLM, CLIENT), "skill_book", "skillbook"),
    ("ACELiteLLM", call(ACELiteLLM, CLIENT), "skillmanager", "skill_manager"),
    ("ACELiteLLM.from_model", call(ACELiteLLM.from_model, "gpt-4o-mini"), "base_url", "api_base"),
    ("ACELiteLLM.ask", lambda **more: facade().ask("q", **more), "contxt", "context"),
    ("ACELiteLLM.learn", lambda **more: facade().learn([], **more), "env", "environment"),
    ("ACELiteLLM.learn_from_traces", lambda **more: facade().learn_from_traces([], **more), "epoch", "epochs"),
    (
        "ACELiteLLM.learn_from_feedback",
        lambda **more: facade().learn_from_feedback("wrong", **more),
        *("groundtruth", "ground_truth"),
    ),
    ("ACE.run", lambda **more: ACE.from_roles(**ROLES).run([], **more), "num_workers", "workers"),
    ("Shouter.from_roles", call(Shouter.from_roles, "a", **LOOKING_BACK), "loudnes", "loudness"),
    ("Shouter.from_model", call(Shouter.from_model, "a"), "ace_modl", "ace_model"),
    ("Shouter.from_model", call(Shouter.from_model, "a"), "base_url", "api_base"),
    ("Shouter.from_client", call(Shouter.from_client, CLIENT, "a"), "skill_book", "skillbook"),
    ("Shouter.build_steps", call(Shouter.build_steps, "a", **LOOKING_BACK), "skill_book", "skillbook"),
    ("Shouter.run", lambda **more: Shouter.from_client(CLIENT, "a").run([], **more), "max_costs", "max_cost"),
    ("LiteLLMClient", call(LiteLLMClient, "gpt-4o-mini"), "base_url", "api_base"),
    ("LiteLLMConfig", call(LiteLLMConfig, "gpt-4o-mini"), "max_retry", "max_retries"),
    ("InstructorClient", call(InstructorClient, CLIENT), "max_retry", "max_retries"),
    ("wrap_with_instructor", call(wrap_with_instructor, CLIENT), "mod", "mode"),
    ("Agent", call(Agent, CLIENT), "prompt", "prompt_template"),
    ("Reflector", call(Reflector, CLIENT), "max_retry", "max_retries"),
    ("SkillManager", call(SkillManager, CLIENT), "max_retry", "max_retries"),
    ("SimpleEnvironment", SimpleEnvironment, "tolerence", "tolerance"),
    ("Sample", call(Sample, "q"), "truth", "ground_truth"),
    ("EnvironmentResult", call(EnvironmentResult, "good"), "metric", "metrics"),
    ("DeduplicationConfig", DeduplicationConfig, "threshold", "similarity_threshold"),
    ("LearningSettings", LearningSettings, "skill_book", "skillbook"),
    ("AgentStep", call(AgentStep, Nothing()), "retreival", "retrieval"),
    ("ReflectStep", call(ReflectStep, Nothing()), "workers", "max_workers"),
    ("ApplyStep", call(ApplyStep, Skillbook()), "max_add", "max_adds"),
    ("CheckpointStep", call(CheckpointStep, Skillbook()), "dir", "directory"),
    ("DeduplicateStep", call(DeduplicateStep, Nothing()), "intervall", "interval"),
    ("PersistStep", call(PersistStep, Skillbook()), "target", "target_path"),
    ("Skillbook", Skillbook, "rankr", "ranker"),
    ("Skillbook.open", Skillbook.open, "pth", "path"),
    ("Skillbook.load_from_file", Skillbook.load_from_file, "file_path", "path"),
    ("Skillbook.save_to_file", call(Skillbook().save_to_file, "skills.json"), "overwrit", "overwrite"),
    ("Skillbook.add_skill", call(Skillbook().add_skill, "s", "c"), "meta", "metadata"),
    ("Skillbook.update_skill", call(Skillbook().update_skill, "s-1"), "contents", "content"),
    ("Skillbook.as_prompt", Skillbook().as_prompt, "budget", "budget_tokens"),
    ("Skillbook.rollback", call(Skillbook().rollback, 1), "autor", "author"),
    ("OwnRunner.save", lambda **more: OwnRunner.from_roles(**ROLES).save("s.json", **more), "overwrit", "overwrite"),
    ("OwnRunner.load", lambda **more: OwnRunner.from_roles(**ROLES).load(**more), "file_path", "path"),
    ("DeduplicationManager", DeduplicationManager, "configuration", "config"),
    ("Evaluator", call(Evaluator, Nothing(), Nothing()), "num_workers", "workers"),
    ("Evaluator.evaluate", call(Evaluator(CLIENT, CLIENT).evaluate, []), "repeat", "repeats"),
    ("Trainer", call(Trainer, CLIENT), "setings", "settings"),
    ("Trainer.train", call(a_trainer().train, [], []), "epoch", "epochs"),
    ("ValidationSettings", ValidationSettings, "patient", "patience"),
    ("compare", compare, "base", "baseline"),
    ("split_samples", call(split_samples, []), "sed", "seed"),
    ("learning_tail", call(learning_tail, CLIENT, CLIENT, Skillbook()), "dedup_intervall", "dedup_interval"),
]


@pytest.mark.parametrize(
    ("name", "function", "given", "meant"), MATRIX, ids=[f"{name}({given}=)" for name, _, given, _ in MATRIX]
)
def test_a_misspelt_keyword(name: str, function: Callable[..., Any], given: str, meant: str) -> None:
    message = f"{name}() got an unexpected keyword argument {given!r}; did you mean {meant!r}?"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        function(**{given: None})


PLAIN = {
    "ACEStepContext": "made for every step",
    "CancellationToken": "ace.pipeline uses the standard library alone",
    "CaseCheck": "made for every skill that is read",
    "FailedSample": "made by runners",
    "InsightSource": "made for every skill that is read",
    "LLMResponse": "made for every model call",
    "SampleResult": "made for every sample",
    "Skill": "made for every skill that is read",
    "SkillCase": "made for every skill that is read",
    "SkillbookView": "made for every sample",
    "StepContext": "made for every step",
    "UpdateBatch": "made for every sample",
    "UpdateOperation": "made for every sample",
    "Usage": "made for every model call",
    "extract_cited_skill_ids": "called for every sample",
    "read_trace": "called for every sample",
    "redact": "called for every text",
    "wrap_skillbook_for_external_agent": "called for every sample",
}
"""What has no check, so that it costs nothing, and why. Python's own error names them, without a suggestion."""

OTHERWISE = {
    *(
        "AgentOutput",
        "ExtractedLearning",
        "Judgement",
        "ReflectorOutput",
        "SkillManagerOutput",
        "SkillTag",
    ),  # checked by pydantic
    "MergeStrategy",  # an enumeration
    "wrap_skillbook_context",  # another name of wrap_skillbook_for_external_agent
}


@pytest.mark.parametrize("name", [name for name in misspelt.callables_of(ace) if name not in OTHERWISE])
def test_every_public_callable_refuses_a_wrong_keyword_in_its_own_name(name: str) -> None:
    if name in PLAIN:
        misspelt.check_plain_refusal(ace, name)
    else:
        misspelt.check_refusal(ace, name)


@pytest.mark.parametrize("name", misspelt.callables_of(ace.steps))
def test_every_step_refuses_a_wrong_keyword_in_its_own_name(name: str) -> None:
    misspelt.check_refusal(ace.steps, name)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *((ace.evaluation, name) for name in misspelt.callables_of(ace.evaluation) if name[0].islower()),
        *((ace.evaluation, name) for name in ("AnswerFile", "Evaluator", "Experiment", "Trainer", "ValidateStep")),
        *((ace.retrieval, name) for name in ("LexicalRanker", "TopSkills", "VectorRanker")),
        *((ace.providers, name) for name in misspelt.callables_of(ace.providers) if name.endswith(("Client", "der"))),
        *((ace.roles, name) for name in misspelt.callables_of(ace.roles) if name not in PLAIN),
    ],
)
def test_the_parts_that_callers_make_refuse_a_wrong_keyword(module: Any, name: str) -> None:
    misspelt.check_refusal(module, name)


def test_the_list_of_what_has_no_check_is_true() -> None:
    assert set(PLAIN) | OTHERWISE <= set(misspelt.callables_of(ace))


def test_a_word_like_no_argument_is_answered_with_all_of_them() -> None:
    with pytest.raises(TypeError, match=r"argument 'hologram'; it takes agent, .*skillbook_path"):
        ACELiteLLM(CLIENT, hologram=1)  # type: ignore[call-arg]  # the mistake that is tested


def test_a_client_in_the_place_of_a_model() -> None:
    for owner in (ACE, TraceAnalyser):
        with pytest.raises(TypeError, match=rf"{owner.__name__}\.from_model\(\) .*{owner.__name__}\.from_client\(cl"):
            owner.from_model(CLIENT)
    with pytest.raises(TypeError, match=r"ACELiteLLM\.from_model\(\) takes a model string, .*ACELiteLLM\(client\)"):
        ACELiteLLM.from_model(CLIENT)


def test_roles_in_the_place_of_a_pipeline() -> None:
    client = LiteLLMClient("openai/none", api_key="none")
    given: Any = (Reflector(client), SkillManager(client))
    with pytest.raises(
        TypeError, match=r"pipeline must be a Pipeline, got .*; make the runner .* TraceAnalyser\.from_role"
    ):
        TraceAnalyser(*given)
    with pytest.raises(TypeError, match=r"^ACE\(\) missing 1 required .* 'skillbook'; create a runner .* from_roles"):
        ACE(client)  # type: ignore[call-arg, arg-type]  # the mistake that is tested


def test_a_step_in_the_place_of_a_list() -> None:
    with pytest.raises(TypeError, match=r"extra_steps must be a list of steps, got .*; put it into a list: \[step\]"):
        ACE.from_roles(**ROLES, extra_steps=ToTrace())  # type: ignore[arg-type]  # the mistake that is tested


def test_a_client_and_settings_of_a_client_exclude_each_other() -> None:
    with pytest.raises(TypeError, match=r"Shouter\.from_model\(\) takes api_base or ace_llm, not both"):
        Shouter.from_model("a", ace_llm=CLIENT, api_base="http://127.0.0.1:1")
    runner: Any = Shouter.from_model("a", ace_model="openai/x", api_base="http://127.0.0.1:1", api_key="k")
    assert runner.pipeline.steps[3].reflector.llm.config.api_base == "http://127.0.0.1:1"


def test_an_error_inside_the_function_keeps_its_own_words(tmp_path: Path) -> None:
    class Demanding(SimpleEnvironment):
        def evaluate(self, sample: Any, agent_output: Any) -> EnvironmentResult:
            raise TypeError("Demanding.evaluate() missing 1 required thing")

    class Answers(Nothing):
        def generate(self, **kwargs: Any) -> Any:
            from ace.outputs import AgentOutput

            return AgentOutput(reasoning="", final_answer="a")

    runner = ACE.from_roles(**{**ROLES, "agent": Answers()}, environment=Demanding())
    [result] = runner.run([Sample("q")])
    assert str(result.error) == "Demanding.evaluate() missing 1 required thing"


def test_an_environment_in_place_of_the_epochs_is_told_where_it_belongs() -> None:
    runner = ACE.from_roles(agent=Nothing(), reflector=Nothing(), skill_manager=Nothing())
    with pytest.raises(TypeError, match=r"from_roles\(\.\.\., environment=SimpleEnvironment\(\)\)"):
        runner.run([], SimpleEnvironment())  # type: ignore[arg-type]  # that is the mistake


def test_the_name_of_a_gate_in_place_of_a_gate_is_told_what_to_give() -> None:
    with pytest.raises(TypeError, match=r"got 'counters'; give a gate, such as ace.evaluation.CounterGate\(\)"):
        TraceAnalyser.from_roles(reflector=Nothing(), skill_manager=Nothing(), gate="counters")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("runner", "argument", "constructor"),
    [
        (ACELiteLLM, "model", "ACELiteLLM.from_model()"),
        (ACE, "model", "ACE.from_model()"),
        (ACE, "client", "ACE.from_client()"),
        (TraceAnalyser, "model", "TraceAnalyser.from_model()"),
    ],
)
def test_an_argument_of_another_constructor_is_answered_with_it(
    runner: Callable[..., object], argument: str, constructor: str
) -> None:
    with pytest.raises(TypeError, match=rf"{re.escape(constructor)} takes it$"):
        runner(**{argument: "gpt-4o-mini"})
