"""Cases: questions that taught a skill, found in traces by code, and the strict checks of their answers."""

from ace.cases.checks import answer_passes, check_passes
from ace.cases.corrections import corrections_in
from ace.cases.extraction import cases_of
from ace.cases.values import deciding_values, missing_values, right_values, worked_example

__all__ = [
    "answer_passes",
    "cases_of",
    "check_passes",
    "corrections_in",
    "deciding_values",
    "missing_values",
    "right_values",
    "worked_example",
]
