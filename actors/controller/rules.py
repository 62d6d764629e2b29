"""Where controllers of the past decided wrongly: each decision is a value here, the old one beside the right one.

A machine never asks whether a bug is on; it asks its rules. ``CONTROLLER_BUGS`` has a row per bug: which rules it
needs, and what it is expected to break. Source: the issues named; spec section 4.4.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from attrs import evolve, frozen

from kemu.protocol.messages.store import StoreOp, StoreOpKind
from kemu.protocol.nodes import CONTROLLER_EPOCH
from kemu.protocol.replication import ReassignmentAlgorithm

Fence = Callable[[tuple[StoreOp, ...], int], tuple[StoreOp, ...]]
"""(operations, version of /controller_epoch at our election) -> the transaction to send."""


def check_epoch_version(ops: tuple[StoreOp, ...], epoch_zk_version: int) -> tuple[StoreOp, ...]:
    """Nothing of it happens when another controller was elected since. Source: KAFKA-6082, Kafka 2.2."""
    return (StoreOp(kind=StoreOpKind.CHECK, path=CONTROLLER_EPOCH, version=epoch_zk_version), *ops)


def trust_ourselves(ops: tuple[StoreOp, ...], epoch_zk_version: int) -> tuple[StoreOp, ...]:
    """Before KAFKA-6082: a controller that lost its session in a pause writes on."""
    return ops


@frozen(kw_only=True)
class ControllerRules:
    """The decisions of one controller. The defaults are Kafka 2.8's."""

    fence: Fence = check_epoch_version
    adopts_newest_epoch: bool = False
    """Whether a controller that is told of another election takes the newest epoch from the store as its own."""
    notices_bounces: bool = True
    """Whether a broker registered under a new epoch counts as having been away (KIP-380)."""
    checks_shutdown_epoch: bool = True
    """Whether ControlledShutdown of a former life is refused (KIP-380)."""
    leader_and_isr_version: int = 5
    stop_replica_version: int = 3
    update_metadata_version: int = 7
    """Below 2, 1 and 5 these carry no broker epoch (KIP-380); StopReplica below 3 no leader epoch (KIP-570)."""
    failover_takes_offline_replicas_out: bool = True
    """Whether a new controller takes dead replicas out of the ISRs it finds (KAFKA-3143)."""
    metadata_before_leadership: bool = True
    """Whether brokers learn who lives before they are told whom to follow, on failover and on a broker's start
    (KAFKA-4443)."""
    registers_over_own_former_session: bool = True
    """Whether a broker deletes the registration that its expired session left behind (KAFKA-7165)."""
    answers_preempted: bool = True
    """Whether admin requests that wait when the controller resigns are answered (KAFKA-10193)."""
    deleted_topics_take_no_partitions: bool = True
    """Whether partitions added to a topic that is being deleted are refused (KAFKA-6612)."""
    reassignment: ReassignmentAlgorithm = ReassignmentAlgorithm.KIP_435
    """How partitions are moved to other brokers."""
    isrs_of_serving_only: bool = True
    """Whether a leader's new ISR is refused when a broker in it is down or in controlled shutdown (KAFKA-14140)."""


RULES = ControllerRules()


@frozen
class ControllerBug:
    """A past bug: its rules, its story, and the invariant (spec 2.8) that notices it."""

    issue: str
    story: str
    rules: ControllerRules
    breaks: str


CONTROLLER_BUGS: Mapping[str, ControllerBug] = MappingProxyType(
    {
        "no_zk_fence": ControllerBug(
            "KAFKA-6082",
            "A controller that slept through its session's end wakes and writes states as if it still controlled.",
            evolve(RULES, fence=trust_ourselves),
            "I1 I2",
        ),
        "adopt_newest_ce": ControllerBug(
            "KAFKA-1096",
            "A deposed controller takes the newest epoch from the store, and brokers believe its requests again.",
            evolve(RULES, adopts_newest_epoch=True),
            "I2 I10",
        ),
        "no_broker_epoch": ControllerBug(
            "KAFKA-7235",
            "Requests meant for a broker's former life are carried out in its new one; a quick bounce is not noticed.",
            evolve(
                RULES,
                notices_bounces=False,
                checks_shutdown_epoch=False,
                leader_and_isr_version=1,
                stop_replica_version=0,
                update_metadata_version=4,
            ),
            "Q3 Q4",
        ),
        "stop_replica_no_epoch": ControllerBug(
            "KAFKA-9539",
            "A late StopReplica stops, or deletes, a replica that was assigned again meanwhile.",
            evolve(RULES, stop_replica_version=2),
            "Q3 I5",
        ),
        "failover_skips_offline_replicas": ControllerBug(
            "KAFKA-3143",
            "A broker dies together with the controller; the new controller leaves it in the ISRs.",
            evolve(RULES, failover_takes_offline_replicas_out=False),
            "Q1",
        ),
        "leadership_before_metadata": ControllerBug(
            "KAFKA-4443",
            "A broker is told to follow a leader of which it does not know yet that it lives, and does not follow it.",
            evolve(RULES, metadata_before_leadership=False),
            "Q4",
        ),
        "registration_conflict": ControllerBug(
            "KAFKA-7165",
            "After its session expired a broker finds its own old registration, gives up, and stays out for good.",
            evolve(RULES, registers_over_own_former_session=False),
            "Q2",
        ),
        "preempted_callbacks_lost": ControllerBug(
            "KAFKA-10193",
            "Admin requests queued at a controller that resigns are never answered.",
            evolve(RULES, answers_preempted=False),
            "Q7",
        ),
        "partitions_for_deleted_topic": ControllerBug(
            "KAFKA-6612",
            "Partitions added while a topic is being deleted are created, and its deletion never ends.",
            evolve(RULES, deleted_topics_take_no_partitions=False),
            "Q6",
        ),
        "isr_of_leaving": ControllerBug(
            "KAFKA-14140",
            "A broker that shuts down, and was taken out of the ISRs for that, comes back into them on its way out.",
            evolve(RULES, isrs_of_serving_only=False),
            "Q1",
        ),
    }
)
