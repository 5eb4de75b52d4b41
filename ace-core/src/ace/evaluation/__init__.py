"""Measure what skills are worth, and train by it. Nothing is imported before it is used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ace.evaluation.answer_file import AnswerFile
    from ace.evaluation.budget import Budget
    from ace.evaluation.call_costs import Spent
    from ace.evaluation.comparison import Comparison, Measure, SampleChange, compare
    from ace.evaluation.effects import LeftOut, SkillEffect, leave_one_out, skill_effects
    from ace.evaluation.evaluation import Evaluation, UnfinishedEvaluationError
    from ace.evaluation.evaluator import Evaluator
    from ace.evaluation.experiment import Experiment, ExperimentRun, pooled, run_experiment
    from ace.evaluation.judged import JudgedAnswer
    from ace.evaluation.naming import sample_names
    from ace.evaluation.report import EvaluationReport, html_page, json_report, markdown_report
    from ace.evaluation.skill_test_report import CaseTest, SkillTestReport, SkillVerdict, Verdict, junit_xml
    from ace.evaluation.skill_tests import SkillTestProgress, SkillTests, case_samples
    from ace.evaluation.splits import Splits, split_samples
    from ace.evaluation.statistics import Interval, bootstrap_interval, mcnemar_test, pass_hat_k, sign_flip_test
    from ace.evaluation.trainer import Trainer, TrainingResult
    from ace.evaluation.training_log import TrainingLog, ValidationPoint
    from ace.evaluation.validate_step import ValidateStep
    from ace.evaluation.validation_course import ValidationCourse
    from ace.evaluation.validation_settings import ValidationSettings

__all__ = [
    "AnswerFile",
    "Budget",
    "CaseTest",
    "Comparison",
    "Evaluation",
    "EvaluationReport",
    "Evaluator",
    "Experiment",
    "ExperimentRun",
    "Interval",
    "JudgedAnswer",
    "LeftOut",
    "Measure",
    "SampleChange",
    "SkillEffect",
    "SkillTestProgress",
    "SkillTestReport",
    "SkillTests",
    "SkillVerdict",
    "Spent",
    "Splits",
    "Trainer",
    "TrainingLog",
    "TrainingResult",
    "UnfinishedEvaluationError",
    "ValidateStep",
    "ValidationCourse",
    "ValidationPoint",
    "ValidationSettings",
    "Verdict",
    "bootstrap_interval",
    "case_samples",
    "compare",
    "html_page",
    "json_report",
    "junit_xml",
    "leave_one_out",
    "markdown_report",
    "mcnemar_test",
    "pass_hat_k",
    "pooled",
    "run_experiment",
    "sample_names",
    "sign_flip_test",
    "skill_effects",
    "split_samples",
]

_NAMES = {
    "answer_file": ("AnswerFile",),
    "budget": ("Budget",),
    "call_costs": ("Spent",),
    "comparison": ("Comparison", "Measure", "SampleChange", "compare"),
    "evaluation": ("Evaluation", "UnfinishedEvaluationError"),
    "evaluator": ("Evaluator",),
    "experiment": ("Experiment", "ExperimentRun", "pooled", "run_experiment"),
    "judged": ("JudgedAnswer",),
    "report": ("EvaluationReport", "html_page", "json_report", "markdown_report"),
    "naming": ("sample_names",),
    "effects": ("LeftOut", "SkillEffect", "leave_one_out", "skill_effects"),
    "skill_test_report": ("CaseTest", "SkillTestReport", "SkillVerdict", "Verdict", "junit_xml"),
    "skill_tests": ("SkillTestProgress", "SkillTests", "case_samples"),
    "splits": ("Splits", "split_samples"),
    "statistics": ("Interval", "bootstrap_interval", "mcnemar_test", "pass_hat_k", "sign_flip_test"),
    "trainer": ("Trainer", "TrainingResult"),
    "training_log": ("TrainingLog", "ValidationPoint"),
    "validate_step": ("ValidateStep",),
    "validation_course": ("ValidationCourse",),
    "validation_settings": ("ValidationSettings",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
