"""A report as JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ace.arguments import checked_arguments
from ace.evaluation.evaluation import Evaluation
from ace.evaluation.report.evaluation_report import EvaluationReport

__all__ = ["REPORT_SCHEMA", "json_report"]

REPORT_SCHEMA = 1
"""It rises when a field is removed or changes its meaning."""


@checked_arguments()
def json_report(report: EvaluationReport) -> dict[str, Any]:
    """Return a report as an object of JSON values, with the number of its schema first.

    Args:
        report: The report.
    """
    comparison = report.comparison
    return {
        "schema": REPORT_SCHEMA,
        "title": report.title,
        "summary": report.summary,
        "settings": dict(report.settings),
        "confidence": comparison.confidence,
        "measures": [asdict(measure) for measure in comparison.measures],
        "runs": dict(report.runs),
        "baseline": _side(comparison.baseline),
        "learned": _side(comparison.learned),
        "samples": [
            {
                "sample_id": sample.sample_id,
                "question": sample.question,
                "ground_truth": sample.ground_truth,
                "outcome": sample.outcome,
                "baseline_correct": sample.baseline_correct,
                "learned_correct": sample.learned_correct,
                "baseline": [answer.to_dict() for answer in sample.baseline],
                "learned": [answer.to_dict() for answer in sample.learned],
            }
            for sample in comparison.samples
        ],
        "skills": [{**asdict(skill), "is_never_cited": skill.is_never_cited} for skill in report.skills],
        "left_out": [asdict(skill) for skill in report.left_out],
        "training": [point.to_dict() for point in report.training],
        "training_costs": {"learning": asdict(report.learning_costs), "validation": asdict(report.validation_costs)},
    }


def _side(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "name": evaluation.name,
        "answers": len(evaluation.answers),
        "failed": len(evaluation.failed),
        "input_tokens": sum(answer.input_tokens for answer in evaluation.answers),
        "output_tokens": sum(answer.output_tokens for answer in evaluation.answers),
        "cost": evaluation.cost,
        "seconds": sum(answer.seconds for answer in evaluation.answers),
    }
