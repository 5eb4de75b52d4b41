"""Which skills belong to a question: by their words, or by vectors; and which of them have proven themselves."""

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
