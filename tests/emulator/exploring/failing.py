"""A scenario that fails quickly, with much in it that has no part in that."""

import kemu


def failing() -> kemu.Scenario:
    """c3 of group g dies a second before all is to be well, and its session outlasts that by far."""
    return kemu.Scenario(
        name="dies too late",
        duration_us="12s",
        seed=4,
        brokers=kemu.BrokersSpec(count=2, config={"group.initial.rebalance.delay.ms": 1_000}),
        topics={
            "orders": kemu.TopicSpec(partitions=4, records_per_s=8),
            "users": kemu.TopicSpec(partitions=2, records_per_s=2),
        },
        groups={
            "h": kemu.GroupSpec(topics=("users",), members=1),
            "g": kemu.GroupSpec(
                topics=("orders", "users"), members=3, config={"session.timeout.ms": 10_000, "max.poll.records": 50}
            ),
        },
        network=kemu.NetworkSpec(links=(kemu.LinkSpec(a="c4", b="b0", latency_us="3ms"),)),
        checks=kemu.ChecksSpec(stable_within_us="2s"),
        plan=(
            kemu.At("5s", kemu.SetRateOf(topic="users", records_per_s=5)),
            kemu.At("6s", kemu.Disconnect(a="c2", b="b0")),
            kemu.At("7s", kemu.Pause(host="c4", for_us=kemu.duration_us("300ms"))),
            kemu.At("11123ms", kemu.Crash(host="c3")),
        ),
    )
