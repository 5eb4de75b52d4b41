"""Writes a skillbook as JSON, indented by two spaces and with keys in a fixed order, so that diffs are readable.

The standard encoder indents in Python, object by object. These templates produce the same bytes four times faster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from json.encoder import encode_basestring as quote

from ace._internal.json_fields import JsonValue
from ace.skill import InsightSource, SimilarityDecision, Skill, SkillCase
from ace.skillbook.state import BookState

SCHEMA_VERSION = 1


def book_json(state: BookState) -> str:
    """Return the text of the whole file, ending in a newline."""
    skills = ",\n".join(f"    {quote(skill.id)}: {skill_json(skill)}" for skill in state.ordered_skills().values())
    sections = ",\n".join(
        f"    {quote(name)}: [\n{_members(state.sections[name])}\n    ]" for name in state.ordered_sections()
    )
    decisions = ",\n".join(
        f"    {quote(','.join(pair))}: {_decision_json(pair, state.decisions[pair])}"
        for pair in sorted(state.decisions)
    )
    return (
        f'{{\n  "schema_version": {SCHEMA_VERSION},\n'
        f'  "skills": {_object(skills)},\n'
        f'  "sections": {_object(sections)},\n'
        f'  "next_id": {state.next_id},\n'
        f'  "similarity_decisions": {_object(decisions)}\n}}\n'
    )


def book_dict(state: BookState) -> dict[str, JsonValue]:
    """Return the book as the dict whose JSON is `book_json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "skills": {id: skill.to_dict() for id, skill in state.ordered_skills().items()},
        "sections": {name: list[JsonValue](state.sections[name]) for name in state.ordered_sections()},
        "next_id": state.next_id,
        "similarity_decisions": {
            ",".join(pair): {"skill_ids": list[JsonValue](pair), **state.decisions[pair].to_dict()}
            for pair in sorted(state.decisions)
        },
    }


def skill_json(skill: Skill) -> str:
    """Return the JSON of one skill, indented for its place in the file."""
    sources = skill.sources
    sources_json = "[\n" + ",\n".join(map(_source_json, sources)) + "\n      ]" if sources else "[]"
    merged = skill.merged_into
    end = "" if merged is None else f',\n      "merged_into": {quote(merged)}'
    if skill.pinned:
        end += ',\n      "pinned": true'
    if skill.cases:
        end += ',\n      "cases": [\n' + ",\n".join(map(_case_json, skill.cases)) + "\n      ]"
    if skill.reason:
        end += f',\n      "reason": {quote(skill.reason)}'
    justification, evidence = skill.justification, skill.evidence
    return (
        f'{{\n      "id": {quote(skill.id)},\n'
        f'      "section": {quote(skill.section)},\n'
        f'      "content": {quote(skill.content)},\n'
        f'      "helpful": {skill.helpful},\n'
        f'      "harmful": {skill.harmful},\n'
        f'      "neutral": {skill.neutral},\n'
        f'      "justification": {"null" if justification is None else quote(justification)},\n'
        f'      "evidence": {"null" if evidence is None else quote(evidence)},\n'
        f'      "created_at": {quote(skill.created_at)},\n'
        f'      "updated_at": {quote(skill.updated_at)},\n'
        f'      "status": {quote(skill.status)},\n'
        f'      "sources": {sources_json}{end}\n    }}'
    )


def _source_json(source: InsightSource) -> str:
    end = "" if source.evidence == "none" else f',\n          "evidence": {quote(source.evidence)}'
    return (
        f'        {{\n          "trace_id": {quote(source.trace_id)},\n'
        f'          "sample_question": {quote(source.sample_question)},\n'
        f'          "epoch": {source.epoch},\n'
        f'          "step": {source.step},\n'
        f'          "integration": {quote(source.integration)},\n'
        f'          "error_identification": {quote(source.error_identification)},\n'
        f'          "learning_text": {quote(source.learning_text)}{end}\n        }}'
    )


def _case_json(case: SkillCase) -> str:
    end = "" if case.evidence == "truth" else f',\n          "evidence": {quote(case.evidence)}'
    return (
        f'        {{\n          "id": {quote(case.id)},\n'
        f'          "question": {quote(case.question)},\n'
        f'          "check": {{\n            "kind": {quote(case.check.kind)},\n'
        f'            "value": {quote(case.check.value)}\n          }},\n'
        f'          "context": {quote(case.context)},\n'
        f'          "wrong": {quote(case.wrong)},\n'
        f'          "correction": {quote(case.correction)},\n'
        f'          "expected": {quote(case.expected)},\n'
        f'          "trace_id": {quote(case.trace_id)},\n'
        f'          "made_at": {quote(case.made_at)},\n'
        f'          "last_result": {quote(case.last_result)},\n'
        f'          "last_run_at": {quote(case.last_run_at)},\n'
        f'          "model": {quote(case.model)},\n'
        f'          "answer": {quote(case.answer)}{end}\n        }}'
    )


def _decision_json(pair: tuple[str, str], decision: SimilarityDecision) -> str:
    text = json.dumps({"skill_ids": pair, **decision.to_dict()}, indent=2, ensure_ascii=False)
    return text.replace("\n", "\n    ")


def _members(ids: Iterable[str]) -> str:
    return ",\n".join(f"      {quote(id)}" for id in ids)


def _object(lines: str) -> str:
    return f"{{\n{lines}\n  }}" if lines else "{}"
