"""Cases: extracts the questions that skills are learned from out of traces, and checks answers to them strictly."""

from ace.cases.checks import (
    answer_passes,
    cases_of,
    check_for,
    check_of_correction,
    check_passes,
    other_alternatives,
    why_not,
)
from ace.cases.corrections import (
    accepted_answer,
    answer_in,
    correction_in_feedback,
    corrections_in,
    steps_of_dialogue,
)
from ace.cases.recoveries import FailedCall, call_text, failed_calls, is_about_call
from ace.cases.values import deciding_values, missing_values, right_values, worked_example

__all__ = [
    "FailedCall",
    "accepted_answer",
    "answer_in",
    "answer_passes",
    "call_text",
    "cases_of",
    "check_for",
    "check_of_correction",
    "check_passes",
    "correction_in_feedback",
    "corrections_in",
    "deciding_values",
    "failed_calls",
    "is_about_call",
    "missing_values",
    "other_alternatives",
    "right_values",
    "steps_of_dialogue",
    "why_not",
    "worked_example",
]
