"""Past bugs of Kafka Streams: when instances ask for rebalances, and what they say of themselves.

Source: the issues named, in Apache Kafka's history; KIP-441.
"""

from kemu.emulator.museum.bug import Past, PastBug, Where

STREAMS = (
    PastBug(
        issue="KAFKA-10455",
        rule="probe-with-old-bytes",
        where=Where.STREAMS,
        fixed_in="2.6.1",
        summary="A probing rebalance asked for by a follower never happens, and its warm-ups are never promoted.",
        story=(
            "While a task is warmed up, one instance is told to ask for another rebalance after"
            " probing.rebalance.interval.ms, in which the warm-up may take the task over. A coordinator answers a"
            " follower that joins with the same bytes as before by the generation there is. An instance whose own"
            " tasks had not changed said the same as before: no rebalance came of it, however often it asked, and the"
            " warm-up stayed one."
        ),
        was="a member's metadata says what it has, and is the same as long as that is",
        today="it holds a byte that is another one each time a rebalance is asked for",
        past=Past(streams={"tells_anew": False}),
        caught_by="tasks",
        kind="not-at-rest",
    ),
)
