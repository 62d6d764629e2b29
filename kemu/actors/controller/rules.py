"""Decisions in which past controllers had bugs: each decision is a value, and so is its past bug.

A machine never checks for a bug; it reads its rules. ``emulator.past_bugs`` lists the values of each past
bug.
"""

from collections.abc import Callable

from kemu.protocol.frozen import frozen
from kemu.protocol.messages.store import StoreOp, StoreOpKind
from kemu.protocol.nodes import CONTROLLER_EPOCH
from kemu.protocol.replication import ReassignmentAlgorithm

Fence = Callable[[tuple[StoreOp, ...], int], tuple[StoreOp, ...]]
"""(operations, version of /controller_epoch from the controller's election) -> the transaction to send."""


def check_epoch_version(ops: tuple[StoreOp, ...], epoch_zk_version: int) -> tuple[StoreOp, ...]:
    """A transaction that fails if another controller was elected since. Source: KAFKA-6082, Kafka 2.1."""
    return (StoreOp(kind=StoreOpKind.CHECK, path=CONTROLLER_EPOCH, version=epoch_zk_version), *ops)


def no_fence(ops: tuple[StoreOp, ...], epoch_zk_version: int) -> tuple[StoreOp, ...]:
    """The operations without a fence, as before KAFKA-6082: a controller that lost its session continues to write."""
    return ops


LAST_WITHOUT_TOPIC_IDS = 4
"""The last version of LeaderAndIsr without topic ids: inter.broker.protocol.version 2.4 to 2.7."""
LAST_METADATA_WITHOUT_TOPIC_IDS = 6
"""The last version of UpdateMetadata without topic ids: inter.broker.protocol.version 2.4 to 2.7."""


@frozen(kw_only=True)
class ControllerRules:
    """The decisions of one controller. The defaults are Kafka 2.8's, or a later release's if an issue is named."""

    fence: Fence = check_epoch_version
    adopts_newest_epoch: bool = False
    """Whether a controller that learns of another election adopts the newest epoch in the store as its own."""
    notices_bounces: bool = True
    """Whether a broker registered under a new epoch is treated as restarted (KIP-380)."""
    checks_shutdown_epoch: bool = True
    """Whether a ControlledShutdown of a former registration is refused (KIP-380)."""
    leader_and_isr_version: int = 5
    stop_replica_version: int = 3
    update_metadata_version: int = 7
    """These three fields are the versions of the controller's requests.

    LeaderAndIsr below 2, StopReplica below 1 and UpdateMetadata below 5 have no broker epoch (KIP-380).
    StopReplica below 3 has no leader epoch (KIP-570). LeaderAndIsr below 5 and UpdateMetadata below 7 have no topic ids
    (KIP-516).
    """
    failover_takes_offline_replicas_out: bool = True
    """Whether a new controller removes offline replicas from the ISRs that it reads (KAFKA-3143)."""
    metadata_before_leadership: bool = True
    """Whether brokers learn of the live brokers before LeaderAndIsr, after a failover and after a broker's start
    (KAFKA-4443).
    """
    registers_over_own_former_session: bool = True
    """Whether a broker deletes the registration that its expired session left behind (KAFKA-7165)."""
    answers_preempted: bool = True
    """Whether waiting admin requests are answered when the controller resigns (KAFKA-10193)."""
    deleted_topics_take_no_partitions: bool = True
    """Whether partitions added to a topic that is being deleted are refused (KAFKA-6612)."""
    reassignment: ReassignmentAlgorithm = ReassignmentAlgorithm.KIP_435
    """The algorithm that moves partitions to other brokers."""
    isrs_of_serving_only: bool = True
    """Whether a leader's new ISR is refused when a broker in it is down or in controlled shutdown (KAFKA-14140)."""
    balances_while_reassigning: bool = True
    """Whether leadership returns to preferred replicas while partitions are reassigned, as since Kafka 3.4.0
    (``KafkaController.checkAndTriggerAutoLeaderRebalance``, KAFKA-10149). Up to 3.3.2 the leader rebalance waits until
    no partition is reassigned.
    """


RULES = ControllerRules()
