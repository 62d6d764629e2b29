"""The decisions of replication that Kafka once took otherwise, each with the issue that changed it.

A past bug is a rule of its own: ``evolve(TODAY, truncation=Truncation.HIGH_WATERMARK)``. What each breaks is in the
spec's table of bugs (4.4); the names in the docstrings (B1, ...) are its rows.
"""

from enum import Enum

from attrs import frozen

from kemu.protocol.replication import IsrPath, Truncation


class StopEpoch(Enum):
    """Which leader epochs a StopReplica may carry."""

    UNCHECKED = "unchecked"
    """Before KIP-570: any (B10)."""
    HIGHER = "higher"
    """Kafka 2.6 to 3.4: higher than the replica's (B20)."""
    NOT_LOWER = "not-lower"
    """Since KAFKA-13972."""


@frozen
class ReplicaRules:
    """How a broker replicates. The defaults are today's."""

    isr_path: IsrPath = IsrPath.CONTROLLER
    """KIP-497."""
    truncation: Truncation = Truncation.ON_FETCH
    """KIP-101 (B1, B2), KIP-279 (B3), KIP-595."""
    follows_same_leader_again: bool = True
    """A new epoch of the same leader truncates, too. KAFKA-7164 (B4)."""
    leader_writes_epoch: bool = True
    """A new leader notes its epoch's start before anything is appended. KAFKA-7415 (B5)."""
    joins_at_epoch_start: bool = True
    """A replica joins the ISR only with all records from before the leader's epoch. KAFKA-7128 (B6)."""
    fences_fetches: bool = True
    """Fetches and epoch questions of another leader epoch are refused. KIP-320 (B7)."""
    checks_answer_epoch: bool = True
    """A follower ignores answers to what it asked in an older leader epoch. KAFKA-7786 (B8)."""
    checks_fetch_epoch: bool = True
    """Answers to fetches likewise: they may be of a log that its leader has cut since. Since 3.9.1 and 4.0.1, before
    that it takes the same offset alone (``AbstractFetcherThread.processFetchRequest``, KAFKA-18991); where followers
    asked for the ends of epochs first (to 2.6) such answers find none that fetches."""
    refuses_unassigned: bool = True
    """A fetch of a replica that is not assigned, as its leader knows, is refused with UNKNOWN_LEADER_EPOCH. To 3.2 it
    moves nothing, and adds no byte to what an answer waits for; one that has waited reads all the same
    (``ReplicaManager.updateFollowerFetchState``: ``DelayedFetch.onComplete`` 3.2.3; KAFKA-13837)."""
    checks_broker_epoch: bool = True
    """Control requests meant for an earlier life are refused. KIP-380 (B9)."""
    stop_epoch: StopEpoch = StopEpoch.NOT_LOWER
    """KIP-570 (B10), KAFKA-13972 (B20)."""
    checks_controller_epoch: bool = True
    """Control requests of an older controller are refused. KAFKA-1188 (B13)."""
    checks_leader_epoch: bool = True
    """LeaderAndIsr with a leader epoch that is not higher is ignored. KAFKA-1188 (B13)."""
    reads_back: bool = True
    """A refused ISR write is compared with what is there: it may be our own. KAFKA-1382 (B14)."""
    announces_isr_changes: bool = True
    """A leader tells the controller of the ISR changes it made in the store. KAFKA-1367, Kafka 0.9."""
    joins_only_alive: bool = True
    """A replica joins the ISR only while its broker counts as alive. KAFKA-14140 (B21)."""
    maximal_isr: bool = True
    """While an ISR write is under way, those it adds count for the high watermark. KAFKA-8836, KAFKA-13091 (B23)."""
    joins_after_fetch_in_epoch: bool = True
    """A replica joins the ISR only after a fetch in the current leader epoch (B24)."""
    failed_fetches_count: bool = False
    """A fetch that was refused moves what the leader knows of its follower. KAFKA-8400, KAFKA-13141 (B26)."""
    waits_twice_for_lost_fetches: bool = False
    """A fetch without an answer holds its loop back for ``replica.fetch.backoff.ms``, and then each of its partitions
    for as long: to 3.0 (``AbstractFetcherThread.processFetchRequest`` 3.0.2; not in 3.1.2, KAFKA-8529)."""
    min_isr_holds_watermark: bool = True
    """The high watermark stands while the ISR is smaller than ``min.insync.replicas`` (or than all replicas, where they
    are fewer). KAFKA-15583, since 3.7; before, a leader alone in its ISR commits what acks=1 wrote."""
    shrinks_idle: bool = False
    """A follower that has everything is removed when it asked too long ago. KAFKA-7152 (B27)."""


TODAY = ReplicaRules()
