from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, ValidationError

from ace.outputs import (
    AgentOutput,
    ConsolidationOutput,
    ExtractedLearning,
    ReflectorOutput,
    SkillManagerOutput,
    SkillTag,
)
from ace.updates import UpdateBatch, UpdateOperation

BATCH = UpdateBatch("r", [UpdateOperation("ADD", section="s", content="c")])


def test_an_agents_output_has_its_fields_and_defaults() -> None:
    output = AgentOutput(reasoning="r", final_answer="a")
    assert (output.skill_ids, output.raw) == ([], {})
    assert AgentOutput.model_validate({"reasoning": None, "final_answer": True}).final_answer == "true"


def test_a_reflectors_output_has_its_fields_and_defaults() -> None:
    names = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")
    output = ReflectorOutput.model_validate(dict.fromkeys(names, "x"))
    assert (output.extracted_learnings, output.skill_tags, output.raw) == ([], [], {})
    with pytest.raises(ValidationError):
        ReflectorOutput.model_validate({})


def test_a_tag_is_read_in_any_case_and_an_unknown_one_is_left_to_the_skillbook() -> None:
    assert SkillTag.model_validate({"id": 7, "tag": " Helpful "}) == SkillTag(id="7", tag="helpful")
    assert SkillTag(id="a-00001", tag="great").tag == "great"


@pytest.mark.parametrize("share", [0.9, "0.9", "90%", " 90 % ", 90, "90"], ids=repr)
def test_a_share_is_read_as_models_write_it(share: object) -> None:
    learning = ExtractedLearning.model_validate({"learning": "Check the units.", "atomicity_score": share})
    assert learning.atomicity_score == 0.9


@pytest.mark.parametrize("share", ["high", "high%", 900, -1])
def test_what_is_not_a_share_is_refused(share: object) -> None:
    with pytest.raises(ValidationError, match="atomicity_score"):
        ExtractedLearning.model_validate({"learning": "Check the units.", "atomicity_score": share})


def test_an_update_is_taken_as_object_dict_or_list() -> None:
    assert SkillManagerOutput(update=BATCH).update is BATCH
    shapes: list[object] = [
        {"update": BATCH.to_dict()},
        BATCH.to_dict(),
        {"update": BATCH.to_dict()["operations"]},
        SkillManagerOutput(update=BATCH).model_dump(),
    ]
    for shape in shapes:
        assert SkillManagerOutput.model_validate(shape).update.operations == BATCH.operations
    wrongs: list[object] = [{}, {"update": 3}, {"update": None}, {"operations": "ADD"}, []]
    for wrong in wrongs:
        with pytest.raises(ValidationError):
            SkillManagerOutput.model_validate(wrong)


def test_the_schema_for_models_is_flat_and_has_nothing_of_ours() -> None:
    schema = SkillManagerOutput.model_json_schema()
    assert set(schema["properties"]) == {"reasoning", "operations"}
    for output in (AgentOutput, ReflectorOutput):
        assert not {"raw", "skill_ids"} & set(output.model_json_schema()["properties"])


def test_an_update_survives_a_round_trip_through_json() -> None:
    output = SkillManagerOutput(update=BATCH)
    assert SkillManagerOutput.model_validate_json(output.model_dump_json()) == output


def test_a_reflection_on_what_went_well_names_no_error() -> None:
    output = ReflectorOutput(reasoning="fine", correct_approach="same", key_insight="k")
    assert (output.error_identification, output.root_cause_analysis) == ("", "")


def test_names_of_other_frameworks_are_read() -> None:
    assert AgentOutput.model_validate({"reasoning": "", "final_answer": "", "bullet_ids": ["a-00001"]}).skill_ids == [
        "a-00001"
    ]
    answer = {"reasoning": "", "correct_approach": "", "key_insight": "", "root_cause": "a slip"}
    output = ReflectorOutput.model_validate({**answer, "bullet_tags": [{"id": "a-00001", "tag": "helpful"}]})
    assert (output.root_cause_analysis, output.skill_tags) == ("a slip", [SkillTag(id="a-00001", tag="helpful")])
    del answer["root_cause"]
    named = ReflectorOutput.model_validate({**answer, "root_cause_analysis": "a slip"})
    assert named.root_cause_analysis == "a slip"


@pytest.mark.parametrize("output", [AgentOutput, ReflectorOutput, SkillManagerOutput, ConsolidationOutput])
def test_examples_for_programmers_are_not_sent_to_models(output: type[BaseModel]) -> None:
    class Further(output):  # type: ignore[valid-type, misc]  # parametrized
        """An answer of a subclass.

        Example:
            >>> Further
        """

    for schema in (output.model_json_schema(), Further.model_json_schema()):
        assert ">>>" not in json.dumps(schema)
        assert "Example" not in json.dumps(schema)
