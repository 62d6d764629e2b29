"""What releases decide otherwise about replicas: how an ISR is changed, what followers cut off, and how a
partition is moved to other brokers.

Each is a value that a profile picks (``protocol.profiles``) and a scenario may set.
"""

from enum import StrEnum


class IsrPath(StrEnum):
    """How a leader changes the ISR of a partition."""

    STORE = "store"
    """The leader writes the state node itself, and tells the controller by a node in /isr_change_notification.

    Brokers with inter.broker.protocol.version 2.6 or lower. A leader that is cut off from the controller, and not from
    the store, goes on taking followers out and in.
    """
    CONTROLLER = "controller"
    """The leader asks the controller, which writes the state node (AlterIsr; AlterPartition since 3.2).

    KIP-497, inter.broker.protocol.version 2.7. While the controller does not answer, the ISR stays as it is.
    """


class Truncation(StrEnum):
    """How a new follower finds out what to cut off its log."""

    HIGH_WATERMARK = "high-watermark"
    """Before KIP-101: everything above its own high watermark, without asking."""
    SINGLE_ROUND = "epoch-single-round"
    """KIP-101: one question about its latest epoch; whatever epoch the answer is about, its offset counts."""
    MULTI_ROUND = "epoch-multi-round"
    """KIP-279: when the leader does not know the epoch, cut to what both may have and ask about the one before."""
    ON_FETCH = "on-fetch"
    """KIP-595, inter.broker.protocol.version 2.7: it fetches at once and says the epoch of its last record; a leader
    where that epoch ends earlier tells the end instead of records. One without epochs cuts to its high watermark.

    Source: ``AbstractFetcherThread.truncateOnFetchResponse``, ``ReplicaFetcherThread.isTruncationOnFetchSupported``.
    """


class ReassignmentAlgorithm(StrEnum):
    """How a controller moves a partition to other brokers."""

    ALL_AT_ONCE = "all-at-once"
    """To Kafka 2.3: the node /admin/reassign_partitions asks for it; all new replicas beside all old ones, at once.

    Until the node is gone no other can be asked for; nothing is cancelled; the target stands in that node alone.
    """
    KIP_455 = "kip-455"
    """Since 2.4: any time, cancelled and overridden by requests; what comes and goes stands in the topic's node."""
    KIP_435 = "kip-435"
    """As KIP-455, in batches where reassignment.max.concurrent.*.movements limit it; without limits it is KIP-455."""
