"""Decisions of replication that former Kafka releases made differently, each with the issue that changed it.

A past bug is a rule of its own: ``evolve(TODAY, truncation=Truncation.HIGH_WATERMARK)``. ``emulator.past_bugs``
describes the effect of each.
"""

from enum import Enum

from kemu.protocol.frozen import frozen
from kemu.protocol.replication import IsrPath, Truncation


class StopEpoch(Enum):
    """The leader epochs that a StopReplica may carry."""

    UNCHECKED = "unchecked"
    """Before KIP-570: any."""
    HIGHER = "higher"
    """Kafka 2.6 to 3.4: higher than the replica's."""
    NOT_LOWER = "not-lower"
    """Since KAFKA-13972."""


@frozen
class ReplicaRules:
    """How a broker replicates. The defaults are those of current releases."""

    isr_path: IsrPath = IsrPath.CONTROLLER
    """KIP-497."""
    truncation: Truncation = Truncation.ON_FETCH
    """KIP-101, KIP-279, KIP-595."""
    follows_same_leader_again: bool = True
    """A new epoch of the same leader truncates, too. KAFKA-7164."""
    leader_writes_epoch: bool = True
    """A new leader records its epoch's start before the first append. KAFKA-7415."""
    joins_at_epoch_start: bool = True
    """A replica joins the ISR only with all records from before the leader's epoch. KAFKA-7128."""
    fences_fetches: bool = True
    """Fetches and OffsetForLeaderEpoch with another leader epoch are refused. KIP-320."""
    checks_answer_epoch: bool = True
    """A follower ignores answers to requests of an older leader epoch. KAFKA-7786."""
    checks_fetch_epoch: bool = True
    """Likewise for fetches: the leader may have truncated its log since. Since 3.9.1 and 4.0.1.

    Earlier releases compare only the offset (``AbstractFetcherThread.processFetchRequest``, KAFKA-18991). Up to 2.6,
    where followers requested epoch ends first, such an answer never meets a fetching partition.
    """
    refuses_unassigned: bool = True
    """Fetches of replicas that the leader does not have as assigned are refused with UNKNOWN_LEADER_EPOCH.

    Up to 3.2 such a fetch changes no position, and adds no bytes to the count of a delayed answer. After a delay it
    still reads records (``ReplicaManager.updateFollowerFetchState``: ``DelayedFetch.onComplete`` 3.2.3; KAFKA-13837).
    """
    checks_broker_epoch: bool = True
    """Control requests for an earlier registration are refused. KIP-380."""
    stop_epoch: StopEpoch = StopEpoch.NOT_LOWER
    """KIP-570, KAFKA-13972."""
    checks_controller_epoch: bool = True
    """Control requests of an older controller are refused. KAFKA-1188."""
    checks_leader_epoch: bool = True
    """LeaderAndIsr with a leader epoch that is not higher is ignored. KAFKA-1188."""
    reads_back: bool = True
    """After a refused ISR write the node is read and compared: it may have the leader's own write. KAFKA-1382."""
    announces_isr_changes: bool = True
    """A leader announces ISR changes in the store to the controller. KAFKA-1367, Kafka 0.9."""
    joins_only_alive: bool = True
    """A replica joins the ISR only while its broker counts as live. KAFKA-14140."""
    maximal_isr: bool = True
    """While an ISR write is pending, replicas that it adds count for the high watermark. KAFKA-8836, KAFKA-13091."""
    joins_after_fetch_in_epoch: bool = True
    """A replica joins the ISR only after a fetch in the current leader epoch."""
    failed_fetches_count: bool = False
    """A refused fetch changes the leader's state of its follower. KAFKA-8400, KAFKA-13141."""
    waits_twice_for_lost_fetches: bool = False
    """After a fetch without an answer, first the loop and then each partition waits for ``replica.fetch.backoff.ms``.

    Up to 3.0 (``AbstractFetcherThread.processFetchRequest`` 3.0.2; not in 3.1.2, KAFKA-8529).
    """
    min_isr_holds_watermark: bool = True
    """The high watermark stops while the ISR is smaller than ``min.insync.replicas`` (or than the number of replicas,
    if lower).

    KAFKA-15583, since 3.7. Before, a leader alone in its ISR commits acks=1 writes.
    """
    shrinks_idle: bool = False
    """A follower that has everything is removed when its last fetch was too long ago. KAFKA-7152."""


TODAY = ReplicaRules()
