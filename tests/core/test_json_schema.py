"""JSON values against JSON schemas. The same table is judged by another implementation, where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ace.environments import HeuristicEnvironment, Sample, json
from ace.json_schema import JsonSchema
from ace.outputs import AgentOutput

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
    },
}

# A schema, a value, and the problem; empty if the value is valid.
CASES: list[tuple[Mapping[str, Any], Any, str]] = [
    ({}, {"anything": None}, ""),
    ({"type": "integer"}, 3, ""),
    ({"type": "integer"}, 3.0, ""),
    ({"type": "integer"}, 3.5, "must be of type integer"),
    ({"type": "integer"}, True, "must be of type integer"),
    ({"type": "number"}, False, "must be of type number"),
    ({"type": "number"}, 1.5, ""),
    ({"type": "string"}, 3, "must be of type string"),
    ({"type": ["string", "null"]}, None, ""),
    ({"type": ["string", "null"]}, 3, "must be of type string or null"),
    ({"type": "array"}, {}, "must be of type array"),
    ({"type": "object"}, [], "must be of type object"),
    ({"type": "boolean"}, 0, "must be of type boolean"),
    ({"enum": ["a", 1]}, 1.0, ""),
    ({"enum": ["a", 1]}, True, "must be one of 'a', 1"),
    ({"enum": [[1, {"a": 0}]]}, [1, {"a": 0.0}], ""),
    ({"enum": [[1, {"a": 0}]]}, [1, {"a": False}], "must be one of [1, {'a': 0}]"),
    ({"const": None}, None, ""),
    ({"const": None}, 0, "must be None"),
    ({"minimum": 2}, 2, ""),
    ({"minimum": 2}, 1, "must be at least 2"),
    ({"minimum": 2}, "a", ""),
    ({"maximum": 2}, 3, "must be at most 2"),
    ({"exclusiveMinimum": 2}, 2, "must be greater than 2"),
    ({"exclusiveMaximum": 2}, 2, "must be less than 2"),
    ({"exclusiveMaximum": 2}, 1.9, ""),
    ({"multipleOf": 5}, 15, ""),
    ({"multipleOf": 5}, 16, "must be a multiple of 5"),
    ({"minLength": 2}, "é", "must have at least 2 characters"),
    ({"maxLength": 2}, "abc", "must have at most 2 characters"),
    ({"pattern": "^a.c$"}, "abc", ""),
    ({"pattern": "^a.c$"}, "abd", "must match '^a.c$'"),
    ({"minItems": 1}, [], "must have at least 1 items"),
    ({"maxItems": 1}, [1, 2], "must have at most 1 items"),
    ({"uniqueItems": True}, [1, True, "1"], ""),
    ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}], "must not contain an item twice"),
    ({"uniqueItems": False}, [1, 1], ""),
    ({"items": {"type": "integer"}}, [1, "a"], "1: must be of type integer"),
    ({"items": False}, [1], "0: is not allowed"),
    ({"required": ["a", "b"]}, {"a": 1}, "'b' is required"),
    ({"required": ["a"]}, "text", ""),
    ({"minProperties": 1}, {}, "must have at least 1 properties"),
    ({"maxProperties": 1}, {"a": 1, "b": 2}, "must have at most 1 properties"),
    ({"properties": {"a": {"type": "string"}}}, {"a": 1}, "a: must be of type string"),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, ""),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, "b: is not allowed"),
    ({"additionalProperties": {"type": "integer"}}, {"b": "x"}, "b: must be of type integer"),
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 4, "must be at most 3"),
    ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, 2, "must match one of 2 alternatives, matches 0"),
    ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, 4, ""),
    ({"oneOf": [{"minimum": 1}, {"minimum": 3}]}, 4, "must match exactly one of 2 alternatives, matches 2"),
    ({"oneOf": [{"minimum": 1}, {"minimum": 3}]}, 2, ""),
    ({"not": {"type": "string"}}, "a", "matches what is excluded"),
    ({"not": {"type": "string"}}, 1, ""),
    (TREE, {"below": [{"below": []}]}, ""),
    (TREE, {"below": [{"below": [3]}]}, "below.0.below.0: must be of type object"),
    ({"$defs": {"a/b": {"type": "string"}}, "$ref": "#/$defs/a~1b"}, 1, "must be of type string"),
    ({"title": "Total", "description": "x", "default": 1, "format": "date", "type": "string"}, "no date", ""),
]


@pytest.mark.parametrize(("schema", "value", "problem"), CASES)
def test_a_value_is_valid_or_its_problem_is_named(schema: Mapping[str, Any], value: Any, problem: str) -> None:
    assert JsonSchema(schema).problem(value) == problem


@pytest.mark.parametrize(("schema", "value", "problem"), CASES)
def test_another_implementation_agrees(schema: Mapping[str, Any], value: Any, problem: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema)
    assert jsonschema.Draft202012Validator(schema).is_valid(value) == (problem == "")


def test_decimal_numbers_are_divided_exactly() -> None:
    assert JsonSchema({"multipleOf": 0.1}).problem(0.3) == ""
    assert JsonSchema({"multipleOf": 0.1}).problem(0.35) == "must be a multiple of 0.1"
    assert JsonSchema({"multipleOf": 3}).problem(10**400 * 3) == ""
    assert JsonSchema({"multipleOf": 3}).problem(float("inf")) == "must be a multiple of 3"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"if": {}}, "the JSON schema uses 'if', which is not supported"),
        ({"items": {"properties": {"a": {"contains": 1}}}}, "at /items/properties/a uses 'contains'"),
        ({"anyOf": [{}, {"dependentRequired": {}}]}, "at /anyOf/1 uses 'dependentRequired'"),
        ({"$defs": {"a": {"then": {}}}}, r"at /\$defs/a uses 'then'"),
        ({"type": "int"}, "'type' of the JSON schema must be one of null, boolean, integer"),
        ({"type": []}, "'type' of the JSON schema must be one of"),
        ({"minLength": -1}, "'minLength' of the JSON schema must be a whole number of at least 0, got -1"),
        ({"minLength": 1.5}, "'minLength' of the JSON schema must be a whole number"),
        ({"minimum": "2"}, "'minimum' of the JSON schema must be a number, got '2'"),
        ({"multipleOf": 0}, "must be a number greater than 0"),
        ({"pattern": "("}, "'pattern' of the JSON schema must be a regular expression of Python"),
        ({"required": "a"}, "'required' of the JSON schema must be a list of texts"),
        ({"enum": "ab"}, "'enum' of the JSON schema must be a list"),
        ({"items": [{}]}, "'items' of the JSON schema must be a schema"),
        ({"properties": {"a": 3}}, "the JSON schema at /properties/a must be an object or a boolean, got 3"),
        ({"anyOf": []}, "'anyOf' of the JSON schema must be a list of schemas"),
        ({"uniqueItems": "no"}, "'uniqueItems' of the JSON schema must be a boolean"),
        ({"$ref": "https://example.com/a.json"}, "refers to 'https://example.com/a.json', which it does not contain"),
        ({"items": {"$ref": "#/$defs/a"}}, r"refers to '#/\$defs/a', which it does not contain"),
        ({"$ref": "#"}, "the reference '#' of the JSON schema leads back to itself"),
        (
            {
                "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}},
                "$ref": "#/$defs/a",
            },
            "leads back to itself",
        ),
    ],
)
def test_a_schema_that_cannot_be_used_is_rejected_at_once(schema: Mapping[str, Any], said: str) -> None:
    for reading in (JsonSchema, json):
        read: Callable[[Mapping[str, Any]], object] = reading
        with pytest.raises(ValueError, match=said):
            read(schema)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ('{"total": 3}', ""),
        ('{"total": "3"}', "total: must be of type integer"),
        ('Here: {"total": 3}', "it is not JSON: Expecting value"),
        ('{"total": NaN}', "it is not JSON: JSON has no NaN"),
        ("[" * 100_000, "it is not JSON: "),
    ],
)
def test_the_check_json_takes_a_schema(answer: str, said: str) -> None:
    check = json({"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]})
    result = HeuristicEnvironment([check]).evaluate(Sample("?"), AgentOutput(reasoning="", final_answer=answer))
    assert result.metrics["json"] == float(not said)
    assert said in result.feedback and ("is not the JSON that is expected" in result.feedback) == bool(said)
