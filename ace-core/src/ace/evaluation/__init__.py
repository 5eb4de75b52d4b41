"""Measuring the effect of skills, and training with validation. Nothing is imported before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.evaluation.call_costs import Spent
    from ace.evaluation.comparison import Comparison, Measure, SampleChange, compare
    from ace.evaluation.counters import CounterGate, CounterMetrics, counter_metrics
    from ace.evaluation.effects import LeftOut, SkillEffect, leave_one_out, skill_effects
    from ace.evaluation.evaluation import Evaluation, JudgedAnswer, UnfinishedEvaluationError
    from ace.evaluation.evaluator import AnswerFile, Budget, Evaluator, sample_names
    from ace.evaluation.experiment import Experiment, ExperimentRun, pooled, run_experiment
    from ace.evaluation.gates import AllGates, CaseGate
    from ace.evaluation.held_out import CaseEnvironment, case_of, case_questions, memory_of
    from ace.evaluation.mistakes import MistakeRate, is_mistake, mistake_rates
    from ace.evaluation.report import (
        EvaluationReport,
        html_page,
        json_report,
        learning_curve_svg,
        markdown_report,
        step_chart_svg,
    )
    from ace.evaluation.skill_test_report import CaseTest, SkillTestReport, SkillVerdict, Verdict, junit_xml
    from ace.evaluation.skill_tests import SkillTestProgress, SkillTests, case_samples
    from ace.evaluation.splits import Splits, split_samples
    from ace.evaluation.statistics import (
        Interval,
        bootstrap_difference,
        bootstrap_interval,
        mcnemar_test,
        mean_interval,
        paired_interval,
        pass_hat_k,
        permutation_test,
        share_interval,
        sign_flip_test,
    )
    from ace.evaluation.trainer import Trainer, TrainingResult, ValidateStep
    from ace.evaluation.validation_schedule import TrainingLog, ValidationPoint, ValidationSchedule, ValidationSettings

__all__ = [
    "AllGates",
    "AnswerFile",
    "Budget",
    "CaseEnvironment",
    "CaseGate",
    "CaseTest",
    "Comparison",
    "CounterGate",
    "CounterMetrics",
    "Evaluation",
    "EvaluationReport",
    "Evaluator",
    "Experiment",
    "ExperimentRun",
    "Interval",
    "JudgedAnswer",
    "LeftOut",
    "Measure",
    "MistakeRate",
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
    "ValidationPoint",
    "ValidationSchedule",
    "ValidationSettings",
    "Verdict",
    "bootstrap_difference",
    "bootstrap_interval",
    "case_of",
    "case_questions",
    "case_samples",
    "compare",
    "counter_metrics",
    "html_page",
    "is_mistake",
    "json_report",
    "junit_xml",
    "learning_curve_svg",
    "leave_one_out",
    "markdown_report",
    "mcnemar_test",
    "mean_interval",
    "memory_of",
    "mistake_rates",
    "paired_interval",
    "pass_hat_k",
    "permutation_test",
    "pooled",
    "run_experiment",
    "sample_names",
    "share_interval",
    "sign_flip_test",
    "skill_effects",
    "split_samples",
    "step_chart_svg",
]


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AllGates": "gates",
        "AnswerFile": "evaluator",
        "Budget": "evaluator",
        "CaseEnvironment": "held_out",
        "CaseGate": "gates",
        "CaseTest": "skill_test_report",
        "Comparison": "comparison",
        "CounterGate": "counters",
        "CounterMetrics": "counters",
        "Evaluation": "evaluation",
        "EvaluationReport": "report",
        "Evaluator": "evaluator",
        "Experiment": "experiment",
        "ExperimentRun": "experiment",
        "Interval": "statistics",
        "JudgedAnswer": "evaluation",
        "LeftOut": "effects",
        "Measure": "comparison",
        "MistakeRate": "mistakes",
        "SampleChange": "comparison",
        "SkillEffect": "effects",
        "SkillTestProgress": "skill_tests",
        "SkillTestReport": "skill_test_report",
        "SkillTests": "skill_tests",
        "SkillVerdict": "skill_test_report",
        "Spent": "call_costs",
        "Splits": "splits",
        "Trainer": "trainer",
        "TrainingLog": "validation_schedule",
        "TrainingResult": "trainer",
        "UnfinishedEvaluationError": "evaluation",
        "ValidateStep": "trainer",
        "ValidationPoint": "validation_schedule",
        "ValidationSchedule": "validation_schedule",
        "ValidationSettings": "validation_schedule",
        "Verdict": "skill_test_report",
        "bootstrap_difference": "statistics",
        "bootstrap_interval": "statistics",
        "case_of": "held_out",
        "case_questions": "held_out",
        "case_samples": "skill_tests",
        "compare": "comparison",
        "counter_metrics": "counters",
        "html_page": "report",
        "is_mistake": "mistakes",
        "json_report": "report",
        "junit_xml": "skill_test_report",
        "learning_curve_svg": "report",
        "leave_one_out": "effects",
        "markdown_report": "report",
        "mcnemar_test": "statistics",
        "mean_interval": "statistics",
        "memory_of": "held_out",
        "mistake_rates": "mistakes",
        "paired_interval": "statistics",
        "pass_hat_k": "statistics",
        "permutation_test": "statistics",
        "pooled": "experiment",
        "run_experiment": "experiment",
        "sample_names": "evaluator",
        "share_interval": "statistics",
        "sign_flip_test": "statistics",
        "skill_effects": "effects",
        "split_samples": "splits",
        "step_chart_svg": "report",
    },
)
