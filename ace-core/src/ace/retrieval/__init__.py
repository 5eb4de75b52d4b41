"""Retrieval: selects the skills that fit a question, by meaning, words or vectors, weighted by their counters."""

from ace.retrieval.lexical import LexicalRanker, helpfulness, proven_relevance, words
from ace.retrieval.meaning import MeaningRanker
from ace.retrieval.top import FindsBest, HasSkills, RanksSkills, TopSkills
from ace.retrieval.vectors import Embeds, VectorRanker

__all__ = [
    "Embeds",
    "FindsBest",
    "HasSkills",
    "LexicalRanker",
    "MeaningRanker",
    "RanksSkills",
    "TopSkills",
    "VectorRanker",
    "helpfulness",
    "proven_relevance",
    "words",
]
