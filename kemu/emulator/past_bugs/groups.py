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
            "A member prepares for a join once: the member revokes partitions and calls its listener. If the group"
            " evicted the member during the join, the member began another join without preparing again. So the member"
            " kept partitions that other members owned."
        ),
        was="a repeated join is not prepared again",
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
        summary="A member adopts an assignment of a membership that its heartbeat thread has ended, and fails.",
        story=(
            "The polling thread adopts an assignment at the next poll. If the application was busy for longer than"
            " max.poll.interval.ms, the heartbeat thread had left the group and cleared generation and protocol. The"
            " polling thread still adopted the assignment, looked for an assignor without a name, and raised an error"
            " to the application."
        ),
        was="the polling thread adopts any assignment without checking the membership",
        today="the polling thread checks the membership, and rejoins if the membership has ended",
        past=Past(consumer={"heeds_resets_while_joining": False}),
        caught_by="liveness",
        kind="member-failed",
    ),
    PastBug(
        issue="KAFKA-12257",
        rule="epochs-of-deleted-topics",
        where=Where.CONSUMER,
        fixed_in="2.8.2",
        summary="Clients mistake the metadata of a recreated topic for old metadata, and ignore the new topic.",
        story=(
            "A client ignores metadata with a lower leader epoch than the client has seen, because the answering"
            " broker lags behind (KIP-320). A recreated topic begins at epoch 0. A client that had seen higher epochs"
            " of the deleted topic ignored the new topic's metadata until the new topic had as many elections."
        ),
        was="only the leader epoch decides which metadata is newer",
        today=(
            "a topic with another id (KIP-516) replaces the former topic (3.0.0 must know the former id, 3.0.1 need"
            " not)"
        ),
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
        summary=(
            "A partition outside its owner's rack is assigned to another member while the owner still processes it."
        ),
        story=(
            "Since 3.5 the sticky assignors use racks (KIP-881): a partition without a replica in its owner's rack is"
            " assigned anew. The assignor cooperative-sticky removes moving partitions from the assignment, so that"
            " their owners revoke them first. The assignor did not treat these partitions as moving, and assigned them"
            " to new members in the same rebalance. Until the old owner had revoked a partition, two members processed"
            " the partition."
        ),
        was="only partitions beyond a member's share are treated as moving",
        today="partitions outside their owner's rack are treated as moving, too",
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
            " still owns. The check believed every claim, even stale claims that cooperative-sticky had ignored"
            " (KAFKA-12984). The leader raised an error to its application instead of sending an assignment."
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
            " group but had missed a generation still owned its partitions. The leader treated these partitions as"
            " free, and assigned them to other members at once, without waiting for their revocation."
        ),
        was="partitions claimed only by members of older generations are free",
        today="generations are compared for each partition: a claim is valid if no newer claim exists",
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
            " partitions without their generation. cooperative-sticky kept these partitions with the member, and took"
            " them from their present owner."
        ),
        was="claims of all generations are equal",
        today="the claim of the highest generation wins (in the user data first, then by KIP-792)",
        past=Past(assignors={"cooperative-sticky": COOPERATIVE_STICKY_WITHOUT_GENERATION}),
        caught_by="cooperative",
        kind="handed-over-too-soon",
    ),
    PastBug(
        issue="KAFKA-7026",
        rule="claims-without-generation",
        where=Where.ASSIGNORS,
        fixed_in="2.3.0",
        summary="sticky assigns a partition to two members that both claim to have owned the partition.",
        story=(
            "The sticky assignor's user data has a member's last assignment. A member that missed a rebalance sent an"
            " older assignment, and a newer owner of the same partition sent the newest assignment. The assignor"
            " preserved both claims, so two members owned one partition."
        ),
        was="every member's former partitions are preserved",
        today="the user data has a generation, and the claim of the newest generation wins (KIP-341)",
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
        summary="Offsets of an active group expire because the group has not committed for some time.",
        story=(
            "A coordinator kept an offset for some time after its commit, even if a member processed the partition. A"
            " member of a topic without new records has nothing to commit. So the offset had expired when the member,"
            " or the next owner, fetched it, and auto.offset.reset chose the position."
        ),
        was="an offset expires offsets.retention.minutes after its commit",
        today=(
            "offsets of subscribed topics do not expire while a group has members; the retention of an empty group"
            " begins when the group becomes empty (KIP-211)"
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
        summary="Offsets expire while the first members of an empty group wait for other members.",
        story=(
            "Offsets of topics without a subscriber in the group expire by the time of their commit. The last"
            " generation of an empty group has no subscriptions. While the members of a briefly empty group were"
            " rejoining, the coordinator removed every offset older than the retention time."
        ),
        was="the subscriptions of the last generation decide, in any state of the group",
        today="only the subscriptions of a Stable group decide",
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
            " the assignment, the assignment had the old member id. The coordinator sent an empty assignment to the"
            " new member id, and no member can decode an empty assignment."
        ),
        was="a static member that rejoins never causes a rebalance",
        today="a static member that rejoins causes a rebalance while an assignment is outstanding",
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
            "A static member that restarts gets a new member id. Only the memory of the coordinator had the new id. A"
            " broker that took over the group knew only the old id, and fenced the member with the new id permanently."
        ),
        was="the new id is not written to the group's log",
        today="the coordinator writes the new id to the log before the member gets the id",
        past=Past(coordinator={"writes_replacements": False}),
        caught_by="liveness",
        kind="member-failed",
    ),
    PastBug(
        issue="KAFKA-16147",
        rule="returned-partition-free",
        where=Where.COORDINATOR,
        fixed_in="3.8.0",
        summary="A partition that a member had to give up and gets back is free, and has two owners later.",
        story=(
            "With the consumer protocol (KIP-848), the coordinator keeps the owner of each partition. A member had to"
            " give up a partition. Before the member did so, the target changed, and the member got the partition"
            " back. The coordinator noted the new assignment first, and then removed the former revocation, so that"
            " the partition had no owner. The next target gave the partition to another member at once."
        ),
        was="the partitions that a member had to give up are free after each change of its assignment",
        today="the former assignment of a member is removed before the new assignment is noted",
        past=Past(coordinator={"holds_returned_partitions": False}),
        caught_by="consumer-protocol",
        kind="held-twice",
    ),
)
