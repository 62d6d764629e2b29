"""Decisions about replicas that differ between releases: ISR changes, truncation of followers, reassignment.

Each decision is a value that a profile selects (``protocol.profiles``) and a scenario may set.
"""

from enum import StrEnum


class IsrPath(StrEnum):
    """The way in which a leader changes the ISR of a partition."""

    STORE = "store"
    """The leader writes the state node, and informs the controller by a node in /isr_change_notification.

    Brokers with inter.broker.protocol.version 2.6 or lower use this way. A leader that can reach the store but not the
    controller still shrinks and expands the ISR.
    """
    CONTROLLER = "controller"
    """The leader asks the controller, which writes the state node (AlterIsr; AlterPartition since 3.2).

    KIP-497, inter.broker.protocol.version 2.7. While the controller does not answer, the ISR is unchanged.
    """


class Truncation(StrEnum):
    """The way in which a new follower finds the offset to truncate its log to."""

    HIGH_WATERMARK = "high-watermark"
    """Before KIP-101: truncate to the follower's own high watermark, without asking the leader."""
    SINGLE_ROUND = "epoch-single-round"
    """KIP-101: one request with the latest epoch; the end offset in the answer is used, whatever its epoch."""
    MULTI_ROUND = "epoch-multi-round"
    """KIP-279: if the leader does not know the epoch, truncate to the common part and ask for the epoch before."""
    ON_FETCH = "on-fetch"
    """KIP-595, inter.broker.protocol.version 2.7: truncation by Fetch. The follower sends the epoch of its last record.

    If this epoch ends earlier on the leader, the leader answers with the epoch's end instead of records. A follower
    without epochs truncates to its high watermark.

    Source: ``AbstractFetcherThread.truncateOnFetchResponse``, ``ReplicaFetcherThread.isTruncationOnFetchSupported``.
    """


class ReassignmentAlgorithm(StrEnum):
    """The algorithm by which a controller moves a partition to other brokers."""

    ALL_AT_ONCE = "all-at-once"
    """Up to Kafka 2.3: the node /admin/reassign_partitions requests the move; all new replicas join the old ones at
    once.

    Until the node is deleted, no other move can be requested and no move can be cancelled. Only this node stores the
    target.
    """
    KIP_455 = "kip-455"
    """Since 2.4: a move is requested, cancelled and overridden at any time; the topic's node stores the changes."""
    KIP_435 = "kip-435"
    """KIP-455 in batches, if reassignment.max.concurrent.*.movements sets limits."""
