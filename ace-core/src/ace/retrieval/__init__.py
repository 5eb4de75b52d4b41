"""Retrieval: selects the skills that are relevant to a question, by words or by vectors, weighted by their counters."""

from ace.retrieval.lexical import LexicalRanker, helpfulness, proven_relevance, words
from ace.retrieval.top import FindsBest, HasSkills, RanksSkills, TopSkills
from ace.retrieval.vectors import Embeds, VectorRanker

__all__ = [
    "Embeds",
    "FindsBest",
    "HasSkills",
    "LexicalRanker",
    "RanksSkills",
    "TopSkills",
    "VectorRanker",
    "helpfulness",
    "proven_relevance",
    "words",
]
