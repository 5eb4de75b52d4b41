from __future__ import annotations

import pytest
from pydantic import ValidationError

from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput, SkillTag
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
