"""Deduplication: finds and merges duplicate skills."""

from ace.deduplication.consolidation import (
    ConsolidationOperation,
    ConsolidationReport,
    DeleteOp,
    KeepOp,
    MergeOp,
    SkippedConsolidation,
    UpdateOp,
    apply_consolidation_operations,
    parse_consolidation_operations,
)
from ace.deduplication.detector import SimilarityDetector, SimilarPair
from ace.deduplication.manager import ConsolidationResult, DeduplicationManager
from ace.protocols.deduplication import DeduplicationConfig

__all__ = [
    "ConsolidationOperation",
    "ConsolidationReport",
    "ConsolidationResult",
    "DeduplicationConfig",
    "DeduplicationManager",
    "DeleteOp",
    "KeepOp",
    "MergeOp",
    "SimilarPair",
    "SimilarityDetector",
    "SkippedConsolidation",
    "UpdateOp",
    "apply_consolidation_operations",
    "parse_consolidation_operations",
]
