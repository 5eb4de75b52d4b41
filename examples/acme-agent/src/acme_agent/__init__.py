"""A small agent framework: an agent, its tools, and the log of a run."""

from acme_agent.agent import AcmeAgent, AgentGaveUp, Model
from acme_agent.log import Entry, RunLog

__all__ = ["AcmeAgent", "AgentGaveUp", "Entry", "Model", "RunLog"]
