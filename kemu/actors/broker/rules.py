"""Decisions of replication that former Kafka releases made differently, each with the issue that changed the decision.

A past bug has a rule: ``evolve(TODAY, truncation=Truncation.HIGH_WATERMARK)``. ``emulator.past_bugs`` describes the
effect of each past bug.
"""

from enum import Enum

from kemu.protocol.frozen import frozen
from kemu.protocol.replication import IsrPath, Truncation


class StopEpoch(Enum):
    """The leader epochs that a StopReplica may contain."""

    UNCHECKED = "unchecked"
    """Any leader epoch: the rule before KIP-570."""
    HIGHER = "higher"
    """A leader epoch higher than the replica's: Kafka 2.6 to 3.4."""
    NOT_LOWER = "not-lower"
    """A leader epoch not lower than the replica's: since KAFKA-13972."""


@frozen
class ReplicaRules:
    """The rules of replication on a broker. The defaults are the rules of current releases."""

    isr_path: IsrPath = IsrPath.CONTROLLER
    """The way in which the leader changes ISRs: through the controller or the store. KIP-497."""
    truncation: Truncation = Truncation.ON_FETCH
    """The way in which a follower finds the offset to truncate to. KIP-101, KIP-279, KIP-595."""
    follows_same_leader_again: bool = True
    """A follower also truncates in a new epoch of the same leader. KAFKA-7164."""
    leader_writes_epoch: bool = True
    """A new leader records its epoch's start before the first append. KAFKA-7415."""
    joins_at_epoch_start: bool = True
    """A replica joins the ISR only with all records from before the leader's epoch. KAFKA-7128."""
    fences_fetches: bool = True
    """Fetches and OffsetForLeaderEpoch with another leader epoch are refused. KIP-320."""
    checks_answer_epoch: bool = True
    """A follower ignores answers to requests of an older leader epoch. KAFKA-7786."""
    checks_fetch_epoch: bool = True
    """A follower ignores answers to fetches of an older leader epoch: the leader may have truncated its log since.
    Followers do so since 3.9.1 and 4.0.1.

    Earlier releases compare only the offset (``AbstractFetcherThread.processFetchRequest``, KAFKA-18991). Up to 2.6,
    where followers requested epoch ends first, such an answer never meets a fetching partition.
    """
    refuses_unassigned: bool = True
    """Fetches of a replica that the leader does not know as assigned are refused with UNKNOWN_LEADER_EPOCH.

    Up to 3.2 such a fetch changes no position, and adds no bytes to the size of a delayed answer. After a delay the
    fetch still reads records (``ReplicaManager.updateFollowerFetchState``: ``DelayedFetch.onComplete`` 3.2.3;
    KAFKA-13837).
    """
    checks_broker_epoch: bool = True
    """Control requests for an earlier registration are refused. KIP-380."""
    stop_epoch: StopEpoch = StopEpoch.NOT_LOWER
    """The leader epochs that a StopReplica may contain. KIP-570, KAFKA-13972."""
    checks_controller_epoch: bool = True
    """Control requests of an older controller are refused. KAFKA-1188."""
    checks_leader_epoch: bool = True
    """LeaderAndIsr with a leader epoch that is not higher is ignored. KAFKA-1188."""
    reads_back: bool = True
    """After a refused ISR write the leader reads the node and compares: the node may have the leader's own write.
    KAFKA-1382.
    """
    announces_isr_changes: bool = True
    """A leader announces ISR changes in the store to the controller. KAFKA-1367, Kafka 0.9."""
    joins_only_alive: bool = True
    """A replica joins the ISR only while its broker is live. KAFKA-14140."""
    maximal_isr: bool = True
    """While an ISR write is pending, the high watermark also waits for replicas that the write adds. KAFKA-8836,
    KAFKA-13091.
    """
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

    KAFKA-15583, since 3.7. Before 3.7, a leader alone in its ISR commits acks=1 writes.
    """
    shrinks_idle: bool = False
    """A follower that has all records is removed from the ISR when its last fetch was too long ago. KAFKA-7152."""


TODAY = ReplicaRules()
