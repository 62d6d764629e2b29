"""Past bugs of consumer groups: members, their leaders' assignors, and coordinators.

Source: the issues named, in Apache Kafka's history; KIP-341, KIP-429, KIP-792.
"""

from kemu.emulator.museum.bug import Past, PastBug, Where
from kemu.protocol.assign.cooperative import COOPERATIVE_STICKY_2_4
from kemu.protocol.assign.sticky import STICKY_WITHOUT_GENERATION

CONSUMER = (
    PastBug(
        issue="KAFKA-12983",
        rule="join-unprepared",
        where=Where.CONSUMER,
        fixed_in="2.8.1",
        summary="A member that is thrown out while it joins keeps what it owned, and claims it when it is back.",
        story=(
            "A member prepares once for a join: it gives up what it must and tells its listener. If the group threw it"
            " out in the midst of that join it began another one without preparing again, and so without losing what"
            " it owned; by then others owned it."
        ),
        was="a join that starts over is not prepared again",
        today="whatever resets a membership makes the next join start with onJoinPrepare",
        past=Past(consumer={"prepare_after_reset": False}),
        caught_by="one-owner",
        kind="two-owners",
    ),
)

ASSIGNORS = (
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
        past=Past(assignors={"cooperative-sticky": COOPERATIVE_STICKY_2_4}),
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
