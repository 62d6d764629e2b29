"""Past bugs of consumer groups: members, their leaders' assignors, and coordinators.

Source: the issues named, in Apache Kafka's history; KIP-341, KIP-429, KIP-792.
"""

from kemu.emulator.past_bugs.bug import Past, PastBug, Where
from kemu.protocol.assign.cooperative import (
    COOPERATIVE_STICKY,
    COOPERATIVE_STICKY_2_8,
    COOPERATIVE_STICKY_2_8_MENDED,
    COOPERATIVE_STICKY_3_0,
    COOPERATIVE_STICKY_3_4,
    COOPERATIVE_STICKY_3_7,
    COOPERATIVE_STICKY_OF_NEWEST_ALONE,
    COOPERATIVE_STICKY_WITHOUT_GENERATION,
)
from kemu.protocol.assign.sticky import STICKY_WITHOUT_GENERATION
from kemu.protocol.rebalancing.rules import given_while_claimed

CONSUMER = (
    PastBug(
        issue="KAFKA-12983",
        rule="join-unprepared",
        where=Where.CONSUMER,
        fixed_in="2.7.2",
        summary="A member evicted during a join keeps its partitions, and claims them when it rejoins.",
        story=(
            "A member prepares once for a join: it revokes partitions and calls its listener. If the group evicted"
            " the member during that join, the member began another join without preparing again, and so without"
            " losing its partitions. Other members owned them by then."
        ),
        was="a join that starts again is not prepared again",
        today="any reset of a membership makes the next join start with onJoinPrepare",
        past=Past(consumer={"prepare_after_reset": False}),
        caught_by="cooperative",
        kind="handed-over-too-soon",
    ),
    PastBug(
        issue="KAFKA-8104",
        rule="take-after-reset",
        where=Where.CONSUMER,
        fixed_in="2.4.0",
        summary="A member adopts an assignment that came before its heartbeat thread left the group, and fails.",
        story=(
            "The polling thread adopts an assignment at the next poll. If the application was busy until"
            " max.poll.interval.ms was over, the heartbeat thread had left the group and cleared generation and"
            " protocol. The polling thread adopted the assignment all the same, looked for an assignor without a name,"
            " and raised an error to the application."
        ),
        was="an assignment is adopted whatever happened to the membership since",
        today="the polling thread checks the membership, and rejoins if it ended",
        past=Past(consumer={"heeds_resets_while_joining": False}),
        caught_by="liveness",
        kind="member-failed",
    ),
    PastBug(
        issue="KAFKA-12257",
        rule="epochs-of-deleted-topics",
        where=Where.CONSUMER,
        fixed_in="2.8.2",
        summary="Clients take the metadata of a recreated topic for old metadata, and ignore it.",
        story=(
            "Metadata with a lower leader epoch than a client has seen comes from a broker that is behind, and is"
            " ignored (KIP-320). A recreated topic begins at epoch 0. A client that had seen higher epochs of the"
            " deleted topic ignored the metadata of the new topic until the new topic had as many elections."
        ),
        was="only the leader epoch says which metadata is newer",
        today="a topic with another id (KIP-516) begins anew (3.0.0 must know the former id, 3.0.1 need not)",
        past=Past(metadata={"new_topic_ids_reset_epochs": False}),
        caught_by="liveness",
        kind="not-at-rest",
    ),
)

ASSIGNORS = (
    PastBug(
        issue="KAFKA-15170",
        rule="moved-to-its-rack-at-once",
        where=Where.ASSIGNORS,
        fixed_in="3.7.1",
        summary="A partition outside its owner's rack goes to another member while its owner still processes it.",
        story=(
            "Since 3.5 the sticky assignors use racks (KIP-881): a partition without a replica in its owner's rack is"
            " assigned anew. The assignor cooperative-sticky removes moving partitions from the assignment, so that"
            " their owners revoke them first. The assignor did not count those partitions as moving, and assigned"
            " them to new members in the same rebalance. Until the old owner had revoked a partition, two members"
            " processed it."
        ),
        was="only partitions beyond a member's share count as moving",
        today="partitions outside their owner's rack do, too",
        past=Past(
            assignors={"cooperative-sticky": COOPERATIVE_STICKY_3_7},
            of_releases=((COOPERATIVE_STICKY_3_7, COOPERATIVE_STICKY),),
        ),
        caught_by="cooperative",
        kind="handed-over-too-soon",
    ),
    PastBug(
        issue="KAFKA-13406",
        rule="leader-checks-claims",
        where=Where.ASSIGNORS,
        fixed_in="2.8.2",
        summary="The leader checks its assignor against stale claims that the assignor had ignored, and fails.",
        story=(
            "The leader of a cooperative group checks that its assignor assigns no partition that another member"
            " still owns. The leader believed every claim in that check, also the stale claims that cooperative-sticky"
            " had ignored (KAFKA-12984), and raised an error to its application instead of sending an assignment."
        ),
        was="the leader checks any assignor against all claims, even those that the assignor ignores (KAFKA-14639)",
        today="Kafka's own cooperative-sticky, which recognizes stale claims, is not checked",
        past=Past(
            consumer={"moved_too_early": given_while_claimed},
            assignors={"cooperative-sticky": COOPERATIVE_STICKY_OF_NEWEST_ALONE},
        ),
        caught_by="liveness",
        kind="member-failed",
    ),
    PastBug(
        issue="KAFKA-14639",
        rule="newest-generation-alone",
        where=Where.ASSIGNORS,
        fixed_in="3.4.1",
        summary="Partitions of a member that missed a generation are assigned to others in the same rebalance.",
        story=(
            "After KAFKA-12984 the assignor believed only members of the newest generation. A member that was in the"
            " group but had missed a generation still owned its partitions. The leader took them for free and assigned"
            " them to others at once, without waiting for their revocation."
        ),
        was="partitions claimed only by members of older generations are free",
        today="generations are compared for each partition: a claim stands if no newer one exists",
        past=Past(
            assignors={"cooperative-sticky": COOPERATIVE_STICKY_OF_NEWEST_ALONE},
            of_releases=(
                (COOPERATIVE_STICKY_2_8, COOPERATIVE_STICKY_2_8_MENDED),
                (COOPERATIVE_STICKY_3_0, COOPERATIVE_STICKY_3_4),
            ),
        ),
        caught_by="cooperative",
        kind="handed-over-too-soon",
    ),
    PastBug(
        issue="KAFKA-12984",
        rule="believe-stale-claims",
        where=Where.ASSIGNORS,
        fixed_in="2.8.1",
        summary="cooperative-sticky believes the old claims of a member that resumes after a pause.",
        story=(
            "Members send their owned partitions to the leader. A member that missed a rebalance sends its former"
            " partitions, without saying of which generation. cooperative-sticky kept the partitions with that member"
            " and took them from their present owner."
        ),
        was="all claims count alike",
        today="the claim of the highest generation counts (in the user data first, then by KIP-792)",
        past=Past(assignors={"cooperative-sticky": COOPERATIVE_STICKY_WITHOUT_GENERATION}),
        caught_by="cooperative",
        kind="handed-over-too-soon",
    ),
    PastBug(
        issue="KAFKA-7026",
        rule="claims-without-generation",
        where=Where.ASSIGNORS,
        fixed_in="2.3.0",
        summary="sticky assigns a partition to two members that both claim to have owned it.",
        story=(
            "The sticky assignor's user data has a member's last assignment. A member that missed a rebalance sent"
            " the assignment before it, a newer owner of the same partition sent its own, and the assignor preserved"
            " both: one partition, two consumers."
        ),
        was="every member's former partitions are preserved",
        today="the user data has a generation, and the newest counts (KIP-341)",
        past=Past(assignors={"sticky": STICKY_WITHOUT_GENERATION}),
        caught_by="one-owner",
        kind="two-owners",
    ),
)

COORDINATOR = (
    PastBug(
        issue="KAFKA-4682",
        rule="expire-by-commit",
        where=Where.COORDINATOR,
        fixed_in="2.1.0",
        summary="Offsets of an active group expire because the group has not committed for a while.",
        story=(
            "Offsets were kept for some time after their commit, whether or not a member processed their partitions."
            " A member of a quiet topic has nothing to commit. The group's offset had expired when the member, or"
            " its successor, fetched it, and auto.offset.reset chose the position."
        ),
        was="an offset expires offsets.retention.minutes after its commit",
        today=(
            "offsets of subscribed topics do not expire while a group has members; later the time counts since it"
            " became empty (KIP-211)"
        ),
        past=Past(coordinator={"keeps_offsets_of_members": False}),
        caught_by="commits",
        kind="removed-too-early",
    ),
    PastBug(
        issue="KAFKA-13636",
        rule="expire-while-rebalancing",
        where=Where.COORDINATOR,
        fixed_in="2.8.2",
        summary="Offsets expire while the first members of an empty group wait for the others.",
        story=(
            "Offsets of topics without a subscriber in the group expire by the time of their commit. In a group that"
            " had been empty for a moment the last generation had no subscriptions. While its members were rejoining,"
            " every offset older than the retention time was removed."
        ),
        was="the subscriptions of the last generation count, whatever the group's state",
        today="only the subscriptions of a Stable group count",
        past=Past(coordinator={"keeps_offsets_while_rebalancing": False}),
        caught_by="commits",
        kind="removed-too-early",
    ),
    PastBug(
        issue="KAFKA-9801",
        rule="replace-while-completing",
        where=Where.COORDINATOR,
        fixed_in="2.5.0",
        summary="A static member that rejoins during the leader's assignment gets an empty assignment.",
        story=(
            "A static member that restarts gets a new member id without a rebalance. If the leader was about to send"
            " the assignment, the assignment had the old id. The coordinator sent the new id an empty assignment,"
            " which no member can decode."
        ),
        was="a static member that rejoins never causes a rebalance",
        today="it causes one while an assignment is outstanding",
        past=Past(coordinator={"replacement_rebalances_completing": False}),
        caught_by="liveness",
        kind="member-failed",
    ),
    PastBug(
        issue="KAFKA-10284",
        rule="replacement-unwritten",
        where=Where.COORDINATOR,
        fixed_in="2.6.1",
        summary="A new coordinator does not know the new id of a static member that rejoined.",
        story=(
            "A static member that restarts gets a new member id. Only the coordinator's memory had that id. A broker"
            " that took over the group knew the old id, and fenced the member with the new id for good."
        ),
        was="the new id is not written to the group's log",
        today="it is written before the member gets its id",
        past=Past(coordinator={"writes_replacements": False}),
        caught_by="liveness",
        kind="member-failed",
    ),
)
