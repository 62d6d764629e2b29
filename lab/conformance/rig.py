"""The machine of a real run, as draws of a scenario: what its processes, clocks and logs took beyond Kafka's timers.

All runs were on machines with two cores and other work. Each draw is measured over several runs
(``kemu.protocol.draws`` has the figures); only the load of the members' machine (``machine.busy``) is estimated from
the compared run itself.
"""

import math
import re
import statistics
from collections.abc import Mapping, Sequence

from kemu.protocol.draws import DRAWS, DrawName, distribution
from lab.conformance.course import Course

MACHINES_SPREAD = 0.6
"""Standard deviation of the logarithm of machines' load (``machine.busy`` of the set life: p99 400 %)."""
SPANS_SPREAD = 1.0
"""Standard deviation of single hand-overs on one machine, divided by their mean (16 runs of 10 to 33 hand-overs)."""
DRIFT = 0.36
"""Standard deviation of the logarithm of a machine's load between parts of a run (``machine.moment``)."""
NORMAL_P99 = 2.326
_TIME = re.compile(r"(\d+)ms")
LEAST_US = 500
"""Least span in us, because logs have a resolution of milliseconds."""

MEASURED = (
    DrawName.HEARTBEAT_WAIT,
    DrawName.HEARTBEAT_FOUND,
    DrawName.HAND_OVER,
    DrawName.FOLLOWER_SYNC,
    DrawName.REJOIN_NOTICE,
    DrawName.MACHINE_BUSY,
    DrawName.MACHINE_MOMENT,
    DrawName.FIRST_TURN,
    DrawName.GROUP_TIMER,
    DrawName.OFFSETS_APPEND,
)
"""Draws with the distribution of the set life."""
RECORDED: Mapping[DrawName, str] = {
    **{name: DRAWS[name.value].life for name in MEASURED},
    DrawName.FIRST_ID: "quantiles 0=2ms 10=5ms 25=10ms 50=15ms 75=21ms 90=31ms 100=39ms",
    DrawName.FIRST_JOIN: "quantiles 0=4ms 10=14ms 25=16ms 50=33ms 75=56ms 90=77ms 100=100ms",
    DrawName.NETWORK_LATENCY: "uniform 20us 100us",
    DrawName.CLOSE_NOTICE: "quantiles 0=0us 10=1ms 25=2ms 50=6ms 75=25ms 90=110ms 96=140ms 100=250ms",
}
"""The rig of the recordings of 3.4.1: loopback; clients log at DEBUG in a new JVM. ``close.notice``: time from the row
"closing" until onPartitionsRevoked, without the commit; 31 closes of kafka-clients 3.4.1, 3.9.1 and 4.1.1.
``first.id``: 12 processes of one to three members, and the process of 20, whose 154 ms are divided by half the number
of its other members.
``first.join``: the eleven recordings with one broker. They are less slow than live runs."""
LIVE: Mapping[DrawName, str] = {
    **RECORDED,
    DrawName.FIRST_ID: "0s",
    DrawName.FIRST_JOIN: DRAWS[DrawName.FIRST_JOIN.value].life,
    DrawName.POLL_TURN: DRAWS[DrawName.POLL_TURN.value].life,
    DrawName.FIRST_TURN: "quantiles 0=1ms 25=2ms 50=4ms 75=8ms 90=20ms 100=40ms",
    DrawName.LEADER_CHANGE: "quantiles 0=4ms 10=5.5ms 25=14ms 50=19ms 75=33ms 90=37ms 95=50ms 100=92ms",
    DrawName.CONTROLLER_START: "quantiles 0=14ms 25=18ms 50=45ms 75=85ms 100=106ms",
}
"""The rig of ``lab.conformance.live``: clients do not log, and the JVM has run a group before.

``leader.change``: localTimeMs of 28 LeaderAndIsr requests that made a broker lead 88 partitions, in the four runs of
plans 5 and 12 of 28 November that preceded the newest. Each of a request's partitions has an equal part of its time.
``controller.start``: seven new controllers of the same runs. From the end of the former controller's session to
UpdateMetadata passed at most 62 to 106 ms, and 15 to 30 ms more to LeaderAndIsr.
"""
CONSUMER_PROTOCOL: Mapping[DrawName, str] = {
    DrawName.NETWORK_LATENCY: "quantiles 0=170us 10=310us 25=400us 50=520us 75=860us 90=1.65ms 95=2.3ms 99=3.8ms"
    " 100=13ms",
    DrawName.OFFSETS_APPEND: "quantiles 0=50us 25=410us 50=770us 75=1.3ms 90=3ms 95=4.7ms 99=9.6ms 100=67ms",
    DrawName.FIRST_BEAT: "quantiles 0=1.6ms 10=3.1ms 25=4.8ms 50=7ms 75=14ms 90=36ms 95=39ms 100=90ms",
    DrawName.FIRST_ACK: "quantiles 0=300us 10=1.7ms 25=3.5ms 50=7.4ms 75=10.5ms 90=16ms 95=19ms 100=22ms",
}
"""The rig of live runs with members of the consumer protocol, from the requests' logs of 24 in-sample runs: 16 of
4.2.1, and four each of 4.0.2 and 4.1.1. The releases do not differ in these figures.

- ``network.latency``: half of the time from arrival to answer of 771 requests without a write (heartbeats without news,
  OffsetFetch). The broker's queues and threads take it; the network is loopback.
- ``offsets.append``: 945 OffsetCommits, the purgatory's time without ``group.coordinator.append.linger.ms`` and without
  the 0.3 ms of a heartbeat without news.
- ``first.beat``: 93 first heartbeats, from the answer of FindCoordinator.
- ``first.ack``: 43 empty first assignments that did not wait for the next poll(). The time is from the rise of the
  group's epoch to the next heartbeat, without linger, and without 2.3 ms for a write and two ways.
"""
FIRST_ASSIGNMENT = "quantiles 0=10ms 25=15ms 50=16ms 75=19ms 100=21ms"
"""``first.join`` of a live member of the consumer protocol: from the answer with its first assignment until the
callback, without the wait for the next poll(). Its process has run a group of this protocol before. Twelve in-sample
runs of 4.2.1."""
FIRST_ASSIGNMENT_UNTIL_4_1 = "quantiles 0=4ms 50=6ms 100=9ms"
"""The same of the in-sample runs of 4.0.2 and 4.1.1 without a wait: 4.3 to 8.7 ms in four of them."""
FIRST_OF_ITS_PROTOCOL = "quantiles 0=0us 50=0us 51=20us 100=90us"
"""``subscribe.wait`` in a process that has run classic consumers only. In two of four in-sample runs (plans 6 and 7 on
4.2.1), subscribe() came while the first Metadata request was in flight. The emulated answer takes at least 100 us."""
_CONSUMER_PROTOCOL = "group__protocol=consumer"
_UNTIL_4_1 = re.compile(r"Kafka 4\.[01]\.")
WITH_PRIORITY: Mapping[DrawName, str] = {
    **LIVE,
    DrawName.FIRST_JOIN: "quantiles 0=3ms 10=4ms 25=5ms 50=7ms 75=12ms 90=23ms 100=41ms",
    DrawName.GROUP_TIMER: "quantiles 0=0us 25=200us 50=600us 75=1.7ms 90=4ms 100=11ms",
    DrawName.HEARTBEAT_WAIT: "quantiles 0=0us 25=250us 50=1.1ms 75=3ms 90=7ms 95=10.8ms 99=21ms 100=39ms",
    DrawName.HEARTBEAT_ALONE: "quantiles 0=8ms 50=18ms 100=29ms",
    DrawName.OFFSETS_APPEND: "quantiles 0=430us 10=1.2ms 25=1.8ms 50=2.8ms 75=4.8ms 90=8.2ms 95=10.6ms 99=15ms"
    " 100=27ms",
}
"""The rig of live runs whose processes had priority, measured in the in-sample runs. The figures of ``heartbeat.wait``
and ``offsets.append`` are divided by the square root of their run's load (``busy_as``).

- ``first.join``: 22 first generations of kafka-clients 3.4.1, 3.9.1 and 4.1.1 (4 to 23 ms, median 7), and six runs of
  3.9.1 (3 to 41 ms).
- ``group.timer``: 16 first join phases of two timers took 0 to 13 ms more than both timers, in the mean 3.1 ms.
- ``heartbeat.wait``: 1,108 intervals of 3 s had a mean of 3,002.2 ms. The variance of sums of one to four intervals
  grows by 14 square ms for each interval. So nearly all lateness adds up, and is none of the log.
- ``heartbeat.alone``: five intervals without poll(), of a stopped member and of two members in callbacks, were 10 to
  31 ms longer than 3 s, of which 2.2 ms are ``heartbeat.wait``.
- ``offsets.append``: 494 OffsetCommits of 3.4.1 and 3.9.1, and 30 SyncGroups of leaders with the same mean.
"""
WARM_RECORDS, FRESH_RECORDS = 400, 100
"""Records after which a new broker and its clients need half of the time for a first generation; records of most runs
until then. In-sample live runs took 82 ms (geometric mean of 11) after 80 to 240 records, 39 ms (of 3) after 740 to
1,000 records, and 7 ms after 2,030 records."""


def draws_of(course: Course, records_per_s: int = 0) -> dict[str, str]:
    """The draws of the machine that ran this course.

    ``records_per_s``: load of a live run. The broker of a live run is new, and one process has its producers and
    members. The more records they handled before the first generation, the more code is compiled.
    """
    profile = RECORDED if course.is_recorded else WITH_PRIORITY if course.had_priority else LIVE
    rig = {name.value: text for name, text in profile.items()}
    starts = [what for _, what in course.timeline if what.startswith("start ")]
    if any(_CONSUMER_PROTOCOL in start for start in starts):
        rig |= {name.value: text for name, text in CONSUMER_PROTOCOL.items()}
    if starts and all(_CONSUMER_PROTOCOL in start for start in starts):
        early = _UNTIL_4_1.match(course.source)
        rig[DrawName.FIRST_JOIN.value] = FIRST_ASSIGNMENT_UNTIL_4_1 if early else FIRST_ASSIGNMENT
    elif not course.is_recorded and course.rebalances:
        rig[DrawName.SUBSCRIBE_WAIT.value] = FIRST_OF_ITS_PROTOCOL
        records = records_per_s * course.rebalances[0].joined_ms // 1000
        share = min((WARM_RECORDS + FRESH_RECORDS) / (WARM_RECORDS + records), 1.0)
        rig[DrawName.FIRST_JOIN.value] = _TIME.sub(
            lambda time: f"{int(time[1]) * share * 1000:.0f}us", rig[DrawName.FIRST_JOIN.value]
        )
    if course.hand_overs_ms:
        mean_us = distribution(rig[DrawName.FOLLOWER_SYNC]).mean
        rig[DrawName.MACHINE_BUSY.value] = busy_as(course.hand_overs_ms, mean_us)
    return rig


def busy_as(spans_ms: Sequence[int], mean_us: int) -> str:
    """Estimate a machine's load as a distribution, from the spans of its members. The mean of all machines is
    ``mean_us``.

    The prior is the spread of all machines (``MACHINES_SPREAD``). The mean of n spans has the errors ``SPANS_SPREAD`` /
    sqrt(n) and ``DRIFT``. The result combines prior and mean as normal distributions of logarithms.
    """
    seen = math.log(max(statistics.fmean(spans_ms) * 1000, LEAST_US) / mean_us)
    prior_weight, weight = MACHINES_SPREAD**-2, 1 / (SPANS_SPREAD**2 / len(spans_ms) + DRIFT**2)
    median = math.exp(seen * weight / (prior_weight + weight))
    p99 = median * math.exp(NORMAL_P99 * (prior_weight + weight) ** -0.5)
    return f"lognormal median={median:.0%} p99={p99:.0%}"
