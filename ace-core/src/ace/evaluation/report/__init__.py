"""Reports of evaluations: JSON, Markdown and one page that is self-contained."""

from ace.evaluation.report.charts import learning_curve_svg, step_chart_svg
from ace.evaluation.report.evaluation_report import (
    EvaluationReport,
    json_report,
    markdown_report,
    measure_rows,
    percent_text,
)
from ace.evaluation.report.page import html_page

__all__ = [
    "EvaluationReport",
    "html_page",
    "json_report",
    "learning_curve_svg",
    "markdown_report",
    "measure_rows",
    "percent_text",
    "step_chart_svg",
]
