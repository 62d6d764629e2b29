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
        summary="A member that is thrown out while it joins keeps what it owned, and claims it when it is back.",
        story=(
            "A member prepares once for a join: it gives up what it must and tells its listener. If the group threw it"
            " out in the midst of that join it began another one without preparing again, and so without losing what"
            " it owned; by then others owned it."
        ),
        was="a join that starts over is not prepared again",
        today="whatever resets a membership makes the next join start with onJoinPrepare",
        past=Past(consumer={"prepare_after_reset": False}),
        caught_by="cooperative",
        kind="handed-over-too-soon",
    ),
    PastBug(
        issue="KAFKA-8104",
        rule="take-after-reset",
        where=Where.CONSUMER,
        fixed_in="2.4.0",
        summary="A member takes an assignment that came before its heartbeat thread left the group, and fails.",
        story=(
            "The polling thread takes an assignment when it next polls. If the application was busy until"
            " max.poll.interval.ms was over, the heartbeat thread had left the group by then and cleared generation and"
            " protocol. The polling thread went on with the assignment all the same, looked for an assignor without a"
            " name, and raised an error to the application."
        ),
        was="an assignment is taken whatever became of the membership since it came",
        today="the polling thread looks whether the membership is still there, and joins again if not",
        past=Past(consumer={"heeds_resets_while_joining": False}),
        caught_by="liveness",
        kind="member-failed",
    ),
    PastBug(
        issue="KAFKA-12257",
        rule="epochs-of-deleted-topics",
        where=Where.CONSUMER,
        fixed_in="2.8.2",
        summary="Clients take a topic that was deleted and created again for older news, and pass over it.",
        story=(
            "Metadata of a lower leader epoch than a client has seen comes from a broker that is behind, and is passed"
            " over (KIP-320). A topic that is deleted and created again begins at epoch 0. Clients that had seen more"
            " of its former life, and that were interested in it all the time, passed over all they were told of it:"
            " for them it was not there, until it had been elected for as often as before."
        ),
        was="only the leader epoch says which metadata is newer",
        today="a topic of another id (KIP-516) begins anew (3.0.0 must know the former id, 3.0.1 need not)",
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
        summary="What is not on its owner's rack goes to another member while its owner still works on it.",
        story=(
            "Since 3.5 the sticky assignors look at racks (KIP-881): what a member owns and its rack has no replica of"
            " is dealt anew. cooperative-sticky takes out of an assignment what moves, so that its owner gives it up"
            " first; what had been passed over for its rack was not counted among that, and went to its new member in"
            " the same rebalance. Until the old one had revoked it both worked on it."
        ),
        was="only what is owned beyond the share is in transfer",
        today="so is what its owner's rack does not have",
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
        summary="The leader checks its assignor by claims that this had passed over for stale, and fails.",
        story=(
            "The leader of a cooperative group checks that its assignor gives nobody what another member still owns. It"
            " believed every claim for that, also those that cooperative-sticky had passed over for stale"
            " (KAFKA-12984), and raised an error to its application instead of an assignment."
        ),
        was="the leader checks what any assignor decided by all claims, those it had taken for none (KAFKA-14639) too",
        today="Kafka's own cooperative-sticky, which knows stale claims from good ones, is not checked",
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
        summary="What a member that missed a generation still holds is given to another in the same rebalance.",
        story=(
            "After KAFKA-12984 only members of the newest generation were believed. A member that was in the group but"
            " had missed a generation still held its partitions; the leader took them for free and gave them to others"
            " at once, without waiting for them to be revoked."
        ),
        was="what only members of older generations claim is nobody's",
        today="generations are compared partition by partition: a claim that nobody newer makes stands",
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
        summary="cooperative-sticky believes what a member back from a pause says that it owns.",
        story=(
            "Members tell their leader what they own. One that missed a rebalance says what it owned before, and"
            " nothing in it said when that was: cooperative-sticky kept the partitions with it and took them from the"
            " member that worked on them by now."
        ),
        was="every claim is as good as any other",
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
        summary="sticky gives a partition to two members that both say that they had it.",
        story=(
            "The sticky assignor's user data is what a member was assigned last. A member that missed a rebalance still"
            " told of the assignment before it, a newer owner of the same partition told of its own, and the"
            " assignor preserved both: one partition, two consumers."
        ),
        was="what members had is preserved for each of them",
        today="the user data carries its generation, and the newest counts (KIP-341)",
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
        summary="Offsets of a group at work expire because it has not committed them for a while.",
        story=(
            "Offsets were kept for a while after their commit, whether or not anybody worked on their partitions. A"
            " member of a quiet topic has nothing to commit: its offset was gone when it, or whoever came after it,"
            " asked for it, and auto.offset.reset decided where to go on."
        ),
        was="an offset expires offsets.retention.minutes after its commit",
        today="while a group has members the topics they subscribe to do not expire; later its being empty counts"
        " (KIP-211)",
        past=Past(coordinator={"keeps_offsets_of_members": False}),
        caught_by="commits",
        kind="removed-too-early",
    ),
    PastBug(
        issue="KAFKA-13636",
        rule="expire-while-rebalancing",
        where=Where.COORDINATOR,
        fixed_in="2.8.2",
        summary="Offsets expire while the first members of a group that was empty wait for the others.",
        story=(
            "Offsets of topics that nobody in a group subscribes to expire by the time of their commit. In a group that"
            " had been empty for a moment the subscriptions of the last generation were none: while its members were"
            " joining again, every offset older than the retention time was dropped."
        ),
        was="the subscriptions of the last generation count, whatever the group does",
        today="only those of a Stable group do",
        past=Past(coordinator={"keeps_offsets_while_rebalancing": False}),
        caught_by="commits",
        kind="removed-too-early",
    ),
    PastBug(
        issue="KAFKA-9801",
        rule="replace-while-completing",
        where=Where.COORDINATOR,
        fixed_in="2.5.0",
        summary="A static member that comes back while the leader assigns gets an empty assignment.",
        story=(
            "A static member that restarts gets a new id in the place of its old one, without a rebalance. If its"
            " leader was about to bring the assignment, that named the old id; the coordinator gave the new one an"
            " empty assignment, which is none that a member can read."
        ),
        was="a static member that comes back never causes a rebalance",
        today="while an assignment is being made it does",
        past=Past(coordinator={"replacement_rebalances_completing": False}),
        caught_by="liveness",
        kind="member-failed",
    ),
    PastBug(
        issue="KAFKA-10284",
        rule="replacement-unwritten",
        where=Where.COORDINATOR,
        fixed_in="2.6.1",
        summary="The new id of a static member that came back is forgotten when another broker takes the group over.",
        story=(
            "A static member that restarts gets a new id in the place of its old one. That was kept in the"
            " coordinator's memory alone: a broker that took the group over knew the old id, and fenced the member that"
            " worked under the new one for good."
        ),
        was="the replacement is not written to the group's log",
        today="it is, before the member is told its id",
        past=Past(coordinator={"writes_replacements": False}),
        caught_by="liveness",
        kind="member-failed",
    ),
)
