"""``offsets-partition-under-min-isr``: the coordinator cannot write the group's record."""

from typing import ClassVar

from kemu.tools.diagnosis.causes.base import Finding, KnownCause, Remedy
from kemu.tools.incident.incident import Incident
from kemu.tools.incident.words import plural


class OffsetsPartitionUnderMinIsr(KnownCause):
    """Each SyncGroup fails, because the partition of __consumer_offsets has too few replicas in sync."""

    id: ClassVar[str] = "offsets-partition-under-min-isr"
    means: ClassVar[str] = (
        "The coordinator cannot append the assignment to __consumer_offsets, and begins the next rebalance."
    )
    addressed_by: ClassVar[tuple[Remedy, ...]] = (
        Remedy(
            "action",
            "bring the missing replicas back, or reassign the partition",
            "GroupMetadataManager.storeGroup (3.9)",
        ),
        Remedy(
            "setting",
            "replicas of __consumer_offsets at least min.insync.replicas; offsets.topic.replication.factor counts only"
            " when the topic is created",
            "KafkaConfig (3.9)",
        ),
    )

    def find(self, incident: Incident) -> Finding | None:
        """Rebalances that begin for a store error, and appends to __consumer_offsets that were refused."""
        stores = [event for event in incident.begins if event.cause == "store-error"]
        appends = [
            event for event in incident.of("append-refused") if (event.partition or "").startswith("__consumer_offsets")
        ]
        if not stores and not appends:
            return None
        both = bool(stores and appends)
        return Finding(
            says=f"not stored: {plural(len(stores), 'assignment')}; refused: {plural(len(appends), 'append')}",
            confidence=0.95 if both else 0.6,
            evidence=(*appends, *stores),
            against=() if both else ("only one of the two signs: a failed store, and a refused append",),
        )
