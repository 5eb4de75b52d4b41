"""What roles return, as pydantic models that take a model's answer as it tends to come."""

from ace.outputs.agent_output import AgentOutput, CaseVerdict
from ace.outputs.consolidation_output import ConsolidationOutput
from ace.outputs.reflector_output import ExtractedLearning, ReflectorOutput, SkillTag
from ace.outputs.skill_manager_output import SkillManagerOutput

__all__ = [
    "AgentOutput",
    "CaseVerdict",
    "ConsolidationOutput",
    "ExtractedLearning",
    "ReflectorOutput",
    "SkillManagerOutput",
    "SkillTag",
]
