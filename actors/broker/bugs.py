"""Past bugs of replication as rules: what Kafka did before an issue was fixed, and which checker notices.

Source: the issues named; spec section 4.4, whose rows the docstring names give.
"""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve, frozen

from kemu.actors.broker.leader_epochs import Truncation
from kemu.actors.broker.rules import TODAY, ReplicaRules, StopEpoch
from kemu.protocol.replication import IsrPath


@frozen
class ReplicaBug:
    """One past decision. ``row``: of the spec's table ("": not there); ``breaks``: invariants it should break (2.8)."""

    row: str
    issue: str
    story: str
    rules: ReplicaRules
    breaks: tuple[str, ...]


def _rows(*bugs: ReplicaBug) -> Mapping[str, ReplicaBug]:
    return MappingProxyType({bug.issue: bug for bug in bugs})


REPLICA_BUGS: Mapping[str, ReplicaBug] = _rows(
    ReplicaBug(
        "B1",
        "KAFKA-1211",
        "A returning follower cuts its log to its late high watermark; elected then, it lacks acked records.",
        evolve(TODAY, truncation=Truncation.HIGH_WATERMARK),
        ("I4", "I5", "I6"),
    ),
    ReplicaBug(
        "B3",
        "KAFKA-6361",
        "The leader answers about an older epoch than asked; the follower cuts by offset, keeping a foreign tail.",
        evolve(TODAY, truncation=Truncation.SINGLE_ROUND),
        ("I6",),
    ),
    ReplicaBug(
        "B4",
        "KAFKA-7164",
        "A follower that missed an epoch follows the same leader again without truncating.",
        evolve(TODAY, follows_same_leader_again=False),
        ("I6",),
    ),
    ReplicaBug(
        "B5",
        "KAFKA-7415",
        "A leader that appended nothing does not know its own epoch, and answers followers wrongly.",
        evolve(TODAY, leader_writes_epoch=False),
        ("I5", "I6"),
    ),
    ReplicaBug(
        "B6",
        "KAFKA-7128",
        "A replica joins the ISR of a new leader by its high watermark alone, without records that were committed.",
        evolve(TODAY, joins_at_epoch_start=False, joins_after_fetch_in_epoch=False),
        ("I4", "I5"),
    ),
    ReplicaBug(
        "B7",
        "KAFKA-7395",
        "Fetches of another leader epoch count: the position of a follower that is about to truncate.",
        evolve(TODAY, fences_fetches=False),
        ("I4", "I5"),
    ),
    ReplicaBug(
        "B8",
        "KAFKA-7786",
        "An answer to an epoch question of an older epoch stops the fetching of a partition for good.",
        evolve(TODAY, checks_answer_epoch=False),
        ("Q4",),
    ),
    ReplicaBug(
        "B9",
        "KAFKA-7235",
        "A broker that came back executes what was meant for its former life.",
        evolve(TODAY, checks_broker_epoch=False),
        ("Q3", "Q4"),
    ),
    ReplicaBug(
        "B10",
        "KAFKA-9539",
        "A late StopReplica stops a replica that was assigned again.",
        evolve(TODAY, stop_epoch=StopEpoch.UNCHECKED),
        ("Q3", "I5"),
    ),
    ReplicaBug(
        "B13",
        "KAFKA-1188",
        "Late requests of a controller that is deposed are obeyed.",
        evolve(TODAY, checks_controller_epoch=False, checks_leader_epoch=False),
        ("I1", "I10"),
    ),
    ReplicaBug(
        "B14",
        "KAFKA-1382",
        "An ISR write whose answer was lost leaves the leader with an old version: the ISR never changes again.",
        evolve(TODAY, isr_path=IsrPath.STORE, reads_back=False),
        ("Q4",),
    ),
    ReplicaBug(
        "",
        "KAFKA-1367",
        "Leaders change ISRs in the store and nobody hears of it: brokers tell clients of ISRs that are long over.",
        evolve(TODAY, isr_path=IsrPath.STORE, announces_isr_changes=False),
        ("Q2",),
    ),
    ReplicaBug(
        "B20",
        "KAFKA-13972",
        "StopReplica with an equal leader epoch is refused: the replica stays where it should not be.",
        evolve(TODAY, stop_epoch=StopEpoch.HIGHER),
        ("Q3",),
    ),
    ReplicaBug(
        "B21",
        "KAFKA-14140",
        "A replica whose broker is dead or leaving joins the ISR.",
        evolve(TODAY, joins_only_alive=False),
        ("I4", "Q1"),
    ),
    ReplicaBug(
        "B23",
        "KAFKA-8836",
        "While an ISR write is under way the high watermark passes over the replica that it adds.",
        evolve(TODAY, maximal_isr=False),
        ("I9", "I5"),
    ),
    ReplicaBug(
        "B26",
        "KAFKA-8400",
        "A fetch that was refused counts as a position.",
        evolve(TODAY, failed_fetches_count=True),
        ("I4",),
    ),
    ReplicaBug(
        "B27",
        "KAFKA-7152",
        "A follower that has everything leaves the ISR because it asked too long ago.",
        evolve(TODAY, shrinks_idle=True),
        ("Q4",),
    ),
)
"""By issue."""
