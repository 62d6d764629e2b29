"""Random variation of a run: a table of draws, each with its distribution.

A draw is a duration, or a share of a duration, that varies between hosts and over time. Examples: the delay of a
heartbeat thread, the processing time of a poll, the start time of a process. ``DRAWS`` has the distribution of each
draw in production (the set ``life``) and its source. The set ``calm`` draws nothing: all periods are exact. One draw
is no duration: the identities that processes create.

Distributions are written as text: ``"2s"`` (constant), ``"uniform 200ms 2s"``, ``"lognormal median=200ms p99=2s"``,
``"quantiles 0=300us 99=1ms 99.9=20ms 100=200ms"`` (linear between two quantiles). Shares are written in the same way
(``"40%"``). Each text becomes a table of quantiles in whole numbers, so that a draw is the same on every machine.
"""

from bisect import bisect_right
from collections.abc import Mapping
from decimal import Context, Decimal
from enum import StrEnum
from functools import cache
from math import exp

from kemu.protocol.frozen import frozen

SETS = ("life", "calm")
"""The sets that a scenario can choose; the first set is the default."""

ONE = 1 << 32
"""The number of values of a 32-bit draw."""
MILLION = 1_000_000
MOST_US = 24 * 3_600 * MILLION


UUIDS, READABLE = "uuid", "readable"
"""The values of ``DrawName.IDENTITY``, which draws no duration: see its row."""


class DrawName(StrEnum):
    """The rows of ``DRAWS``."""

    IDENTITY = "identity"
    HEARTBEAT_WAIT = "heartbeat.wait"
    HEARTBEAT_ALONE = "heartbeat.alone"
    HEARTBEAT_FOUND = "heartbeat.found"
    HEARTBEAT_PHASE = "heartbeat.phase"
    COMMIT_PHASE = "commit.phase"
    HAND_OVER = "hand.over"
    REJOIN_NOTICE = "rejoin.notice"
    FOLLOWER_SYNC = "follower.sync"
    MACHINE_BUSY = "machine.busy"
    MACHINE_MOMENT = "machine.moment"
    THREAD_WAKE = "thread.wake"
    FIRST_ID = "first.id"
    FIRST_TURN = "first.turn"
    FIRST_JOIN = "first.join"
    FIRST_BEAT = "first.beat"
    FIRST_ACK = "first.ack"
    CLOSE_NOTICE = "close.notice"
    SUBSCRIBE_WAIT = "subscribe.wait"
    POLL_TURN = "poll.turn"
    POLL_WORK = "poll.work"
    RECORD_WORK = "record.work"
    GROUP_LOAD = "group.load"
    CALLBACK_REVOKED = "callback.revoked"
    CALLBACK_LOST = "callback.lost"
    CALLBACK_ASSIGNED = "callback.assigned"
    PRODUCER_PHASE = "producer.phase"
    PRODUCER_TURN = "producer.turn"
    NETWORK_LATENCY = "network.latency"
    NETWORK_RETRANSMIT = "network.retransmit"
    MEMBER_START = "member.start"
    BROKER_START = "broker.start"
    BROKER_WINDOW = "broker.window"
    BROKER_LEADS = "broker.leads"
    BROKER_RECOVERY = "broker.recovery"
    LEADER_CHANGE = "leader.change"
    CONTROLLER_START = "controller.start"
    BROKER_STOP = "broker.stop"
    GROUP_TIMER = "group.timer"
    OFFSETS_APPEND = "offsets.append"
    OFFSETS_WAIT = "offsets.wait"
    OFFSETS_LOAD = "offsets.load"
    BROKER_BEAT = "broker.beat"
    DOWN_TIME = "down.time"
    PLAN_JITTER = "plan.jitter"
    STORE_PING_PHASE = "store.ping.phase"
    STORE_TICK = "store.tick"
    STORE_GRID_PHASE = "store.grid.phase"
    STORE_ELECTION = "store.election"
    STORE_RECONNECT = "store.reconnect"
    FOLLOWER_FETCH_PHASE = "follower.fetch.phase"
    ISR_CHECK_PHASE = "isr.check.phase"
    RETENTION_CHECK_PHASE = "retention.check.phase"
    IMBALANCE_CHECK_PHASE = "leader.imbalance.phase"


# --- distributions -------------------------------------------------------------------------------------------------


@frozen
class Distribution:
    """Quantiles with linear interpolation: ``at[i]`` of 2^32 draws are at most ``values[i]``.

    ``shares``: values are millionths of a base duration, not microseconds.
    """

    text: str
    at: tuple[int, ...]
    values: tuple[int, ...]
    shares: bool
    pieces: tuple[tuple[int, int, int, int], ...]
    """Between two quantiles each: the draw and the value at the lower one, and the distances to the upper one."""

    def of(self, bits: int) -> int:
        """The value for 32 random bits: microseconds, or millionths."""
        at, value, draws, more = self.pieces[bisect_right(self.at, bits) - 1]
        return value + more * (bits - at) // draws

    @property
    def mean(self) -> int:
        """The mean of all draws, rounded."""
        steps = zip(self.at, self.at[1:], self.values, self.values[1:], strict=False)
        return sum((above - below) * (low + high) for below, above, low, high in steps) // (2 * ONE)

    @property
    def most(self) -> int:
        """The largest possible draw."""
        return self.values[-1]


@cache
def distribution(text: str) -> Distribution:
    """Parse the text of a distribution.

    Raises:
        ValueError: the text is not a distribution; the message gives the reason.
    """
    words = text.split()
    kind = words[0] if words else ""
    if len(words) == 1:
        values, shares = _values(words)
        return _made(text, [(0, values[0]), (ONE, values[0])], shares)
    if kind == "uniform" and len(words) == 3:
        values, shares = _values(words[1:])
        return _made(text, [(0, values[0]), (ONE, values[1])], shares)
    if kind in ("lognormal", "quantiles"):
        named = [word.partition("=") for word in words[1:]]
        values, shares = _values([value for _, _, value in named])
        names = [name for name, _, _ in named]
        if kind == "quantiles":
            return _made(text, list(zip(map(_quantile, names), values, strict=True)), shares)
        if names == ["median", "p99"]:
            return _made(text, _lognormal(*values), shares)
    raise ValueError(f"{text!r} is not a distribution; {HOW}")


HOW = (
    'write "2s", "uniform 200ms 2s", "lognormal median=200ms p99=2s" or "quantiles 0=300us 99=1ms 99.9=20ms 100=200ms"'
    ' (or shares, such as "uniform 90% 110%")'
)


def _made(text: str, points: list[tuple[int, int]], shares: bool) -> Distribution:
    at, values = tuple(point[0] for point in points), tuple(point[1] for point in points)
    if list(at) != sorted(set(at)) or at[0] != 0 or at[-1] != ONE:
        raise ValueError(f"{text!r} must go from the 0th to the 100th percentile, upwards")
    if list(values) != sorted(values):
        raise ValueError(f"{text!r} decreases: write the smallest value first")
    if values[-1] > MOST_US:
        raise ValueError(f"{text!r} exceeds a day")
    ends = zip(at, at[1:], values, values[1:], strict=False)
    pieces = tuple((below, low, above - below, high - low) for below, above, low, high in ends)
    return Distribution(" ".join(text.split()), at, values, shares, pieces)


_UNITS = {"us": 1, "ms": 1_000, "s": MILLION, "m": 60 * MILLION, "h": 3_600 * MILLION}


def _values(words: list[str]) -> tuple[list[int], bool]:
    shares = [word.endswith("%") for word in words]
    if any(shares) != all(shares):
        raise ValueError("mixes shares (%) with times")
    return [_share(word) if share else _span(word) for word, share in zip(words, shares, strict=True)], any(shares)


def _share(word: str) -> int:
    return int(_number(word.removesuffix("%"), word) * 10_000)


def _span(word: str) -> int:
    if word == "0":
        return 0
    unit = next((unit for unit in ("us", "ms", "s", "m", "h") if word.endswith(unit) and word[: -len(unit)]), "")
    for longer in ("us", "ms"):
        if word.endswith(longer):
            unit = longer
    if not unit:
        raise ValueError(f"{word!r} is not a duration; write it like 250ms or 20s")
    return int(_number(word.removesuffix(unit), word) * _UNITS[unit])


def _number(digits: str, word: str) -> Decimal:
    if not digits.replace(".", "", 1).isascii() or not digits.replace(".", "", 1).isdigit():
        raise ValueError(f"{word!r} is neither a duration such as 250ms nor a share such as 40%")
    return Decimal(digits)


def _quantile(word: str) -> int:
    percent = _number(word, word)
    if percent > 100:
        raise ValueError(f"{word!r} is not a percentile")
    return int(percent * ONE / 100)


_EXACT = Context(prec=20)
_STEPS = 256
_TAIL = 12
_NEAR = 1e-3
"""The float of a quantile decides its whole number, unless it is as near as this to another whole number: the largest
quantile, ``MOST_US``, has 37 bits.
"""


def _lognormal(median: int, p99: int) -> list[tuple[int, int]]:
    """The quantiles at 256 steps, with the last step halved 12 times. The tail beyond 1 in 2^20 is dropped."""
    if not 0 < median <= p99:
        raise ValueError("a lognormal needs a median above 0 and a p99 of at least the median")
    shares, deviations, of_p99 = _normal()
    slope = _EXACT.divide(_EXACT.ln(_EXACT.divide(Decimal(p99), Decimal(median))), Decimal(of_p99))
    about = float(slope)
    points = []
    for (part, whole), z in zip(shares, deviations, strict=True):
        value: float | Decimal = median * exp(about * float(z))
        if not _NEAR < value % 1 < 1 - _NEAR:
            value = _EXACT.multiply(Decimal(median), _EXACT.exp(_EXACT.multiply(slope, Decimal(z))))
        points.append((part * ONE // whole, int(value)))
    return [(0, points[0][1]), *points[1:-1], (ONE, points[-1][1])]


@cache
def _normal() -> tuple[list[tuple[int, int]], list[str], str]:
    """The shares of a lognormal's steps as fractions, their normal quantiles, and the 99th percentile. The quantiles
    are rounded, so that the last bit of a machine's logarithm does not matter.
    """
    from statistics import NormalDist  # imported only if a lognormal is drawn

    inverse = NormalDist().inv_cdf
    shares = [(1, 4 * _STEPS)] + [(number, _STEPS) for number in range(1, _STEPS)]
    shares += [((_STEPS << halved) - 1, _STEPS << halved) for halved in range(1, _TAIL + 1)]
    return shares, [f"{inverse(part / whole):.9f}" for part, whole in shares], f"{inverse(0.99):.9f}"


# --- the table -----------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class DrawRow:
    """One draw: its distribution in the set ``life``, the behaviour in the set ``calm``, its meaning and its source."""

    name: DrawName
    life: str
    calm: str
    what: str
    source: str


_ROWS = (
    DrawRow(
        name=DrawName.IDENTITY,
        life=UUIDS,
        calm="short ids with a number: the same in every run",
        what='random UUIDs ("uuid") or short readable ids ("readable") of members, Streams processes and topics.'
        " Orders of hash maps follow from the ids of members and processes: the next leader, the leader's list of"
        " members, equals in assignors. No order follows from the ids of topics.",
        source="GroupMetadata.generateMemberId (3.4), ClassicGroup.generateMemberId (3.9), StateDirectory (process"
        " ids), AdminZkClient.writeTopicPartitionAssignment (topic ids, 3.4). FetchSession, FetchSessionHandler,"
        " AlterPartitionManager, LeaderAndIsrResponse, ZkMetadataCache and Metadata look topic ids up in maps, and list"
        " no map by topic id (3.4.1, 3.9.1)",
    ),
    DrawRow(
        name=DrawName.HEARTBEAT_WAIT,
        life="quantiles 0=200us 10=400us 25=800us 50=1.5ms 75=3.8ms 90=11ms 95=17ms 97=32ms 98=42ms 99.6=76ms"
        " 100=230ms",
        calm="each heartbeat is sent exactly when it is due",
        what="delay of a classic member's heartbeat beyond heartbeat.interval.ms: the heartbeat thread waits for"
        " retry.backoff.ms, 30 times by default, and each wait ends late. The square root of machine.busy multiplies"
        " the delay.",
        source="AbstractCoordinator.HeartbeatThread. 393 intervals (3 s) of kafka-clients 3.4.1 in ten recordings, with"
        " the same weight for each recorded process and minute: mean 3.0057 s, median 3.001, p90 3.012, p99 3.084. The"
        " means of recordings were 3 to 9 ms, whatever their hand-overs (5 to 38 ms). On a faster machine, 12 clients"
        " of 4.0.0 had hand-overs of 2.1 ms, and 145 delays of 2.0 ms in the mean, p90 5.9. So delays vary less than"
        " hand-overs. With priority over other work, 1,108 delays of 3.4.1, 3.9.1 and 4.1.1 were 2.2 ms in the mean"
        " (`WITH_PRIORITY` in lab/conformance/rig.py).",
    ),
    DrawRow(
        name=DrawName.HEARTBEAT_ALONE,
        life="0s",
        calm="nothing",
        what="further delay of a classic member's heartbeat that is due outside of poll(), such as in a callback. Then"
        " no poll() wakes the heartbeat thread, and all its waits end late. The next poll() ends the delay.",
        source="AbstractCoordinator.pollHeartbeat (3.4.1, 3.9.1, 4.1.1). With priority over other work, five intervals"
        " without poll() took 3.010 to 3.031 s, and others 3.002 s in the mean (`WITH_PRIORITY` in"
        " lab/conformance/rig.py). In the set life, heartbeat.wait was measured in both kinds of intervals.",
    ),
    DrawRow(
        name=DrawName.HEARTBEAT_FOUND,
        life="quantiles 0=0us 45=0us 46=1us 100=20us",
        calm="nothing",
        what="time from a found coordinator until a classic member's due heartbeat, if poll() waited for the lookup. A"
        " heartbeat without this time is sent before a due commit.",
        source="poll() wakes the heartbeat thread, and holds its monitor during the lookup (AbstractCoordinator, 3.4.1,"
        " 3.9.1, 4.1.1). Of nine members that resumed after 20 s, four sent Heartbeat before OffsetCommit.",
    ),
    DrawRow(
        name=DrawName.HEARTBEAT_PHASE,
        life="uniform 0% 100%",
        calm="unchanged since the last rebalance: all members send heartbeats in step",
        what="position of a member's next heartbeat in heartbeat.interval.ms, once the group is stable",
        source="delays add up: after an hour without a rebalance, members no longer share a rhythm",
    ),
    DrawRow(
        name=DrawName.COMMIT_PHASE,
        life="uniform 0% 100%",
        calm="unchanged since the start",
        what="position of a member's next auto-commit in auto.commit.interval.ms, once the group is stable",
        source="as heartbeat.phase",
    ),
    DrawRow(
        name=DrawName.HAND_OVER,
        life="quantiles 0=0us 10=590us 25=1.5ms 50=3ms 75=5.2ms 90=11.1ms 95=16.3ms 97=22.2ms 99=28.1ms 99.5=34ms"
        " 100=109ms",
        calm="nothing",
        what="delay of a member's polling thread before the next step of a rebalance. The step follows"
        " onPartitionsRevoked or an answer to SyncGroup, for a leader also to JoinGroup. machine.busy multiplies the"
        " delay. In one process, half of the delays of a second are common to its members. Heartbeats begin after half"
        " of the delay that follows JoinGroup.",
        source="148 delays of kafka-clients 3.4.1 on a loaded machine with two cores, and 234 of 4.0.0 on a faster one,"
        " from the broker's answer to the member's next request. Each is relative to the load of its machine. After 25"
        " delays of 10 to 58 ms, the first heartbeats were as late as after half of the delay.",
    ),
    DrawRow(
        name=DrawName.REJOIN_NOTICE,
        life="quantiles 0=20us 10=480us 25=910us 50=1.9ms 75=3.5ms 90=7.4ms 95=9.7ms 97=16ms 99=19.2ms 100=21.2ms",
        calm="nothing",
        what="delay of a member's polling thread from the answer REBALANCE_IN_PROGRESS to Heartbeat until the rebalance"
        " begins for the member, such as with its commit. machine.busy multiplies the delay.",
        source="64 delays of kafka-clients 3.4.1 and 110 of 4.0.0, as hand.over. The thread waits in poll(), and"
        " has less to do than in other steps.",
    ),
    DrawRow(
        name=DrawName.FOLLOWER_SYNC,
        life="quantiles 0=0us 10=0us 25=1.1ms 50=3.4ms 75=8.9ms 90=16.1ms 95=20.5ms 97=26.2ms 100=41.5ms",
        calm="nothing",
        what="delay of a follower's polling thread from the answer to JoinGroup to its SyncGroup (for a leader:"
        " hand.over). machine.busy multiplies the delay.",
        source="169 such delays of kafka-clients 3.4.1 in three runs of seven plans, after first generations. Each"
        " lasts from the generation's first answer to the SyncGroup at the broker, relative to the mean of the run's"
        " leaders. The leaders' delays exceed hand.over by 1.1 ms, which are subtracted. In all, 41 % of followers were"
        " later than their leaders.",
    ),
    DrawRow(
        name=DrawName.MACHINE_BUSY,
        life="lognormal median=100% p99=400%",
        calm="factor 1",
        what="load of a machine, constant over a run. The load multiplies the draws hand.over, follower.sync,"
        " rejoin.notice, first.id and first.turn. Its square root multiplies heartbeat.wait, and on a broker"
        " offsets.append. Members of one process share a machine.",
        source="mean of hand.over in each of eight recordings relative to the mean of all: 44 to 380 %. The logarithms"
        " spread by 0.70, of which the small samples explain 0.35.",
    ),
    DrawRow(
        name=DrawName.MACHINE_MOMENT,
        life="lognormal median=100% p99=230%",
        calm="factor 1",
        what="load of a machine in each ten seconds, relative to machine.busy. The load multiplies the draws hand.over,"
        " follower.sync and rejoin.notice.",
        source="hand.over in the halves of 16 runs: the logarithms of their means differ by 0.74, of which the small"
        " samples explain 0.53",
    ),
    DrawRow(
        name=DrawName.THREAD_WAKE,
        life="quantiles 0=20us 50=200us 90=1ms 99=10ms 100=20ms",
        calm="nothing: the events that waited happen in their order",
        what="time from the end of a pause until a process runs again. Of a classic consumer, the heartbeat thread then"
        " continues first, and the polling thread after such a time more. The threads of a consumer of the consumer"
        " protocol continue in a drawn order.",
        source="SIGCONT makes all threads runnable; the scheduler chooses. A process of kafka-clients 3.4.1 sent"
        " Heartbeat within 1 ms and OffsetCommit 6 ms after SIGCONT.",
    ),
    DrawRow(
        name=DrawName.FIRST_ID,
        life="quantiles 0=3ms 10=5ms 25=12ms 50=16ms 75=40ms 90=80ms 96=150ms 100=180ms",
        calm="nothing",
        what="time for class loading from the answer MEMBER_ID_REQUIRED to the second JoinGroup, in a new process."
        " In a process of several members, the time begins with the process and is common to its members: no"
        " member sends its second JoinGroup earlier. With more than two other members, half their number multiplies the"
        " time.",
        source="14 processes of kafka-clients 3.4.1: the first answer to the first second JoinGroup. Of 20 members in a"
        " process, six had answers in 92 ms; the first of the six continued after 154 ms, and was the fifth to join."
        " The other members create their consumers meanwhile, on the same cores: the other processes, of one to three"
        " members, took 3 to 39 ms.",
    ),
    DrawRow(
        name=DrawName.FIRST_TURN,
        life="quantiles 0=0us 10=1ms 25=4ms 50=4.8ms 75=14ms 90=32ms 100=50ms",
        calm="nothing",
        what="a member's further delay after first.id in a process of several members, times half the number of the"
        " other members",
        source="14 such delays of kafka-clients 3.4.1 in processes of 3 members. In a process of 20 members, the median"
        " was 97 ms and the longest 500 ms: threads wait in no order for the lock of the log's appender.",
    ),
    DrawRow(
        name=DrawName.FIRST_JOIN,
        life="quantiles 0=3ms 10=7ms 25=15ms 50=42ms 75=95ms 90=140ms 96=300ms 100=450ms",
        calm="nothing",
        what="delay like hand.over after JoinGroup's and SyncGroup's answers, until a process has its first"
        " assignment. In the consumer protocol: delay of the first assignment, and of the rejoin after the first loss.",
        source="29 first generations of kafka-clients 3.4.1, 3.9.1 and 4.1.1: time from the end of the join phase to"
        " the leader's SyncGroup. The JVM loads classes and has compiled nothing yet. The delay includes the load of"
        " the machine. In 16 in-sample runs, the last member's heartbeats began 60 ms (median, estimated) after the"
        " join phase; the longest draw of a group has a median of 113 ms.",
    ),
    DrawRow(
        name=DrawName.FIRST_BEAT,
        life="0us",
        calm="nothing",
        what="time from the coordinator's name until a new member's first heartbeat, in the consumer protocol",
        source="measured only in a process that has run such members before: 93 first heartbeats of kafka-clients"
        " 4.0.2, 4.1.1 and 4.2.1 took 1.6 to 90 ms, median 7 (`lab/conformance/rig.py`)",
    ),
    DrawRow(
        name=DrawName.FIRST_ACK,
        life="0us",
        calm="nothing",
        what="time from the answer to a new member's first heartbeat until the member can adopt an empty assignment",
        source="measured as first.beat, with the broker's longer work for a first heartbeat: 43 members took 0.3 to"
        " 22 ms, median 7",
    ),
    DrawRow(
        name=DrawName.CLOSE_NOTICE,
        life="quantiles 0=6ms 25=19ms 50=44ms 75=70ms 90=91ms 100=156ms",
        calm="nothing: poll() wakes up",
        what="time from the request to close until the polling thread closes",
        source="a loop of poll(100 ms) that checks a flag. 14 closes of kafka-clients 3.4.1: 6 to 156 ms, median 44",
    ),
    DrawRow(
        name=DrawName.SUBSCRIBE_WAIT,
        life="0us",
        calm="nothing",
        what="time from a consumer's first Metadata request until subscribe(), in the consumer protocol: the network"
        " thread starts in the constructor. 0: subscribe() comes first. In a process of several members, the time"
        " begins with the process and is common to its members.",
        source="18 new processes with kafka-clients 4.0.2, 4.1.1 and 4.2.1: subscribe() came first. In a process that"
        " had run classic consumers only, the Metadata request came first in two of four in-sample runs of 4.2.1.",
    ),
    DrawRow(
        name=DrawName.POLL_TURN,
        life="quantiles 0=50us 10=100us 25=210us 50=550us 75=820us 90=1.1ms 100=2.1ms",
        calm="nothing",
        what="time that each poll() without records takes beyond its timeout, in the consumer protocol. The next draw"
        " follows the next records.",
        source="22 members of kafka-clients 4.2.1 on a machine with two cores: time between the"
        " callbacks of the empty first assignment and of the next one, 50 polls of 100 ms",
    ),
    DrawRow(
        name=DrawName.POLL_WORK,
        life="lognormal median=200ms p99=2s",
        calm="nothing",
        what="work of the application per poll that returned records, in addition to record.work. group.load limits the"
        " work. There is none where emulated.process.us.per.record is set.",
        source="chosen: a call or two to a database or a service per poll",
    ),
    DrawRow(
        name=DrawName.RECORD_WORK,
        life="1ms",
        calm="emulated.process.us.per.record",
        what="work of the application per record. The work is scaled down if record.work alone exceeds group.load.",
        source="chosen",
    ),
    DrawRow(
        name=DrawName.GROUP_LOAD,
        life="40%",
        calm="poll.work is not drawn",
        what="largest average share of its time that a member works, when every member has its share of the load."
        " The draws record.work and poll.work are scaled down to this share, unless the scenario sets them.",
        source="chosen: a group sized with some reserve runs at 30 to 50 percent",
    ),
    DrawRow(
        name=DrawName.CALLBACK_REVOKED,
        life="lognormal median=100ms p99=1s",
        calm="emulated.on.revoked.ms",
        what="duration of onPartitionsRevoked with partitions",
        source="chosen: a commit and a flush of buffers",
    ),
    DrawRow(
        name=DrawName.CALLBACK_LOST,
        life="lognormal median=100ms p99=1s",
        calm="emulated.on.lost.ms",
        what="duration of onPartitionsLost with partitions",
        source="chosen, as callback.revoked",
    ),
    DrawRow(
        name=DrawName.CALLBACK_ASSIGNED,
        life="lognormal median=300ms p99=3s",
        calm="emulated.on.assigned.ms",
        what="duration of onPartitionsAssigned with partitions",
        source="chosen: reading state or positions from another system",
    ),
    DrawRow(
        name=DrawName.PRODUCER_PHASE,
        life="uniform 0% 100%",
        calm="nothing: all producers send in step",
        what="position of a producer's first batch in emulated.batch.interval.ms",
        source="producers start independently of each other",
    ),
    DrawRow(
        name=DrawName.PRODUCER_TURN,
        life="0us",
        calm="nothing",
        what="time that a producer's application works in each emulated.batch.interval.ms, the same for the life of the"
        " process. The interval is longer by this time, and has no more records.",
        source="an application that sends a record and then sleeps for 10 ms. The producers of three in-sample runs of"
        " kafka-clients 3.4.1, 3.9.1 and 4.1.1 sent every 10.44, 10.58 and 10.67 ms in the mean. The set life has"
        " applications with an exact rate.",
    ),
    DrawRow(
        name=DrawName.NETWORK_LATENCY,
        life="quantiles 0=300us 99=1ms 99.9=20ms 100=200ms",
        calm="uniform 500us 2ms",
        what="latency of a packet between two hosts, where the scenario gives none",
        source="a data centre. The tail ends at Linux's smallest retransmission timeout (200 ms)",
    ),
    DrawRow(
        name=DrawName.NETWORK_RETRANSMIT,
        life="200ms",
        calm="connections to a restarted process stay silent; packets held by a split arrive when it heals",
        what="first retransmission timeout of TCP. The timeout doubles each time.",
        source="RFC 6298; Linux: at least 200 ms, at most 120 s",
    ),
    DrawRow(
        name=DrawName.MEMBER_START,
        life="uniform 200ms 2s",
        calm="nothing",
        what="time from the request to start a member's or producer's process to its first request",
        source="ten consumers of 3.4.1 started within 57 ms joined over 0.85 s; plus the start of the JVM",
    ),
    DrawRow(
        name=DrawName.BROKER_START,
        life="uniform 2s 6s",
        calm="nothing",
        what="time from the request to start a broker to its registration, in addition to broker.recovery",
        source="Kafka 3.4.1 on one host: 1.6 to 4 s; more with many logs",
    ),
    DrawRow(
        name=DrawName.BROKER_WINDOW,
        life="uniform 1.6s 4.2s",
        calm="nothing: the broker knows its metadata at once",
        what="time in which a restarted broker answers requests without knowing any topic or coordinator, while no"
        " other broker is up, where brokers do not replicate; nothing since Kafka 4.0",
        source="two restarts of a single broker, Kafka 3.4.1. The time is from the broker's first answer to a member"
        " (0.7 and 1.3 s after the start) to its first answer with the topic (KafkaController.onControllerFailover)."
        " A broker of 4.0 accepts connections after it has replayed the metadata log (BrokerServer.startup).",
    ),
    DrawRow(
        name=DrawName.BROKER_LEADS,
        life="uniform 290ms 820ms",
        calm="nothing: the broker leads from the end of broker.window on",
        what="part of broker.window, at its end, in which the broker already leads its partitions and loads groups",
        source="two restarts of a single broker with 261 partitions, Kafka 3.4.1. The controller sends UpdateMetadata"
        " after the response to LeaderAndIsr (ControllerBrokerRequestBatch, RequestSendThread).",
    ),
    DrawRow(
        name=DrawName.BROKER_RECOVERY,
        life="uniform 5ms 20ms",
        calm="nothing",
        what="extra start time of a broker per MB of its logs after an unclean shutdown",
        source="LogManager.loadLogs recovers segments at 50 to 200 MB/s",
    ),
    DrawRow(
        name=DrawName.LEADER_CHANGE,
        life="0us",
        calm="nothing",
        what="time of a broker for each partition that a LeaderAndIsr makes it lead. The broker leads no partition of"
        " the request before the end of these times. Clients may learn of the new leader earlier, from other brokers.",
        source="ReplicaManager.becomeLeaderOrFollower (3.4.1), which writes the epochs of each log to the disk."
        " Measured: 28 requests of Kafka 3.4.1 and 3.9.1 about 88 such partitions took 13 to 218 ms; in the comparisons"
        " with such brokers only (lab/conformance/rig.py).",
    ),
    DrawRow(
        name=DrawName.CONTROLLER_START,
        life="lognormal median=1.3s p99=5.2s",
        calm="nothing beyond its reads and writes of the store",
        what="extra time of a newly elected controller until it has read the cluster and sent UpdateMetadata."
        " A second draw is the time from there until the controller elects leaders. The first controller of a run needs"
        " no extra time.",
        source="four elections of Kafka 3.4.1 on a loaded machine with two cores. From the election to UpdateMetadata"
        " passed 0.45 to 2.8 s, then 0.9 to 2.7 s until the controller was ready. KafkaController.onControllerFailover"
        " loads classes, starts a thread and a connection for one broker, and logs every transition. Session timeouts"
        " of failed brokers add to this time.",
    ),
    DrawRow(
        name=DrawName.BROKER_STOP,
        life="uniform 200ms 1s",
        calm="nothing",
        what="time from the end of the controlled shutdown to the end of the process: logs are flushed and closed",
        source="KafkaServer.shutdown; chosen",
    ),
    DrawRow(
        name=DrawName.GROUP_TIMER,
        life="quantiles 0=0us 25=500us 50=1.5ms 75=6ms 90=14ms 95=30ms 100=155ms",
        calm="nothing",
        what="delay of the coordinator's timer of a join phase",
        source="SystemTimer.advanceClock in the thread ExpiredOperationReaper (3.4.1), SystemTimerReaper (4.1)."
        " Measured: 29 first join phases of Kafka 3.4.1, 3.9.1 and 4.1.1 on a loaded machine, each with two or three"
        " timers. They took 0 to 309 ms more than group.initial.rebalance.delay.ms, half of them at most 3 ms. With"
        " priority over other work, 16 phases took 0 to 13 ms more (`WITH_PRIORITY` in lab/conformance/rig.py).",
    ),
    DrawRow(
        name=DrawName.OFFSETS_APPEND,
        life="quantiles 0=700us 10=1.4ms 25=1.9ms 50=2.7ms 75=4.6ms 90=12.5ms 95=19.8ms 97=36ms 98=47ms 99=140ms"
        " 99.5=243ms 100=293ms",
        calm="emulated.append.us",
        what="duration of a coordinator's write of a commit or a generation, where brokers do not replicate."
        " The square root of machine.busy multiplies the duration.",
        source="401 OffsetCommits of Kafka 3.4.1 on a loaded machine with two cores, from arrival to answer. Each is"
        " relative to its recording's median. The medians of ten recordings were 57 to 170 % of the usual, and did not"
        " follow the recordings' hand-overs. With priority over other work, the median was the same, relative to the"
        " square root of the load, and the longest of 494 took 27 ms (`WITH_PRIORITY` in lab/conformance/rig.py).",
    ),
    DrawRow(
        name=DrawName.OFFSETS_WAIT,
        life="quantiles 0=2ms 10=145ms 25=198ms 50=475ms 75=2564ms 90=3143ms 100=3145ms",
        calm="nothing",
        what="time from the moment a broker leads a non-empty partition of __consumer_offsets until the loading thread"
        " begins with that partition. The thread loads one partition after the other.",
        source='104 loads of Kafka 3.4.1 ("Finished loading offsets and group metadata": "was spent in the scheduler"),'
        " most by brokers that had just started, with 50 partitions",
    ),
    DrawRow(
        name=DrawName.OFFSETS_LOAD,
        life="quantiles 0=100us 50=1ms 75=10ms 90=120ms 95=165ms 100=1926ms",
        calm="emulated.load.us",
        what="time of a coordinator to load a partition of __consumer_offsets",
        source="the loads of offsets.wait. Few of these partitions held much data.",
    ),
    DrawRow(
        name=DrawName.BROKER_BEAT,
        life="uniform 0s 2s",
        calm="nothing: the last heartbeat coincides with the crash",
        what="age of a broker's last heartbeat when the broker crashes, where brokers do not replicate",
        source="broker.heartbeat.interval.ms 2000, Kafka 3.9",
    ),
    DrawRow(
        name=DrawName.DOWN_TIME,
        life="uniform 90% 130%",
        calm="exactly the plan's time, counted from the request to close",
        what='downtime as a share of the plan\'s downtime: "for" of crashes and "down" of rolling restarts.'
        " Downtime counts from the end of the process.",
        source="chosen: operators and schedulers are late more often than early",
    ),
    DrawRow(
        name=DrawName.PLAN_JITTER,
        life="0s",
        calm="nothing",
        what='upper limit of an action\'s delay after "at". "jitter" in the plan draws between 0 and this limit.',
        source="chosen: other phases are random, so an exact time of an action is a fair sample",
    ),
    DrawRow(
        name=DrawName.STORE_PING_PHASE,
        life="uniform 0% 100%",
        calm="unchanged since the start",
        what="position of a process's next ping of the metadata store in a third of its session timeout, once stable",
        source="as heartbeat.phase",
    ),
    DrawRow(
        name=DrawName.STORE_TICK,
        life="2s",
        calm="sessions expire to the microsecond",
        what="period of the metadata store's expiry check: sessions expire at the first check after their timeout",
        source="ZooKeeper: tickTime 2000; ExpiryQueue.roundToNextInterval",
    ),
    DrawRow(
        name=DrawName.STORE_GRID_PHASE,
        life="uniform 0% 100%",
        calm="there is no periodic check",
        what="phase of the metadata store's expiry check",
        source="the store starts independently of its clients",
    ),
    DrawRow(
        name=DrawName.STORE_ELECTION,
        life="uniform 1s 4s",
        calm="2s",
        what='time in which the metadata store serves no client while it elects a leader. "for" in the plan\'s'
        " line replaces this draw.",
        source="chosen: FastLeaderElection waits 200 ms for better votes, then a quorum syncs. A leader that fails"
        ' silently is noticed only after syncLimit ticks (10 s); such a plan sets "for".',
    ),
    DrawRow(
        name=DrawName.STORE_RECONNECT,
        life="uniform 0s 1s",
        calm="500ms",
        what="time for which a client of the metadata store waits before it reconnects",
        source="ZooKeeper 3.5: ClientCnxn.SendThread.startConnect, random below a second",
    ),
    DrawRow(
        name=DrawName.FOLLOWER_FETCH_PHASE,
        life="uniform 0% 100%",
        calm="unchanged since the start",
        what="delay of a follower's next fetch as a share of replica.fetch.wait.max.ms, once stable",
        source="as heartbeat.phase",
    ),
    DrawRow(
        name=DrawName.ISR_CHECK_PHASE,
        life="uniform 0% 100%",
        calm="unchanged since the start",
        what="position of a leader's next check for lagging replicas in half of replica.lag.time.max.ms, once stable",
        source="as heartbeat.phase",
    ),
    DrawRow(
        name=DrawName.RETENTION_CHECK_PHASE,
        life="uniform 0% 100%",
        calm="unchanged since the start",
        what="position of a broker's next retention check in log.retention.check.interval.ms, once stable, where"
        " anything can expire",
        source="as heartbeat.phase",
    ),
    DrawRow(
        name=DrawName.IMBALANCE_CHECK_PHASE,
        life="uniform 0% 100%",
        calm="unchanged since the start",
        what="position of the controller's next check for non-preferred leaders in"
        " leader.imbalance.check.interval.seconds, once stable",
        source="as heartbeat.phase",
    ),
)

TOGETHER: Mapping[DrawName, str] = {
    DrawName.HAND_OVER: "50%",
    DrawName.FOLLOWER_SYNC: "50%",
    DrawName.REJOIN_NOTICE: "50%",
    DrawName.HEARTBEAT_WAIT: "50%",
    DrawName.FIRST_JOIN: "95%",
}
"""Draw -> share of draws that the members of one process have in common while ``MOMENT_US`` passes.

Source: 77 delays until SyncGroup after first assignments, of kafka-clients 3.4.1 in seven plans. The logarithms of two
members of one generation correlate by 0.25, the square of 50 % (p 0.7 % by permutation). First assignments: 20 members
of one process took 6 to 18 ms, and one 76 ms. Heartbeats of six members were as late as heartbeats of three.
"""
MOMENT_US = MILLION
LOADED = (DrawName.HAND_OVER, DrawName.FOLLOWER_SYNC, DrawName.REJOIN_NOTICE)
"""The draws that ``machine.busy`` and ``machine.moment`` multiply."""
LOAD_US = 10 * MILLION
"""The time for which ``machine.moment`` is constant."""

DRAWS: Mapping[str, DrawRow] = {row.name.value: row for row in _ROWS}
"""Every draw by its name, in display order."""


# --- the draws of a machine ---------------------------------------------------------------------------------------


class Calm:
    """The draws of the set ``calm``: every duration has its fixed value."""

    def us(self, name: DrawName, calm_us: int, of_us: int = 0, at_us: int = -1) -> int:
        """Return ``calm_us``."""
        return calm_us

    def identity(self, readable: str) -> str:
        """Return ``readable``."""
        return readable


CALM = Calm()
