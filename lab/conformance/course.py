"""An operator's view of one plan: generations, rebalances, partitions without an owner, and errors.

Times are milliseconds since the start of the first member, as exact as the logs. A course ends at ``until_ms``, when
the recording closes the members.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import cattrs
from attrs import field, frozen

RECORDED = "Apache Kafka 3.4.1 and kafka-clients 3.4.1 on a loaded machine with 2 cores"
"""Source of the recordings in which drawn times of the emulator were measured."""
Owners = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Client -> topic -> partitions."""
Exchange = tuple[str, int]
"""(a response such as "SyncGroup", "JoinGroup 3" or "Heartbeat REBALANCE_IN_PROGRESS", number of repetitions)."""
COORDINATOR, BROKERS = "coordinator", "brokers"
"""The kinds of a member's connections: to the group's coordinator, and to brokers. Each API uses only one kind.
"""
HEARTBEAT = "ConsumerGroupHeartbeat"
"""The heartbeat of the consumer protocol (KIP-848)."""
_OF_COORDINATOR = frozenset(
    ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", HEARTBEAT)
)
_PERIODIC = frozenset(
    (
        "Heartbeat",
        HEARTBEAT,
        "OffsetCommit",
        "Metadata",
        "Metadata UNKNOWN_TOPIC_OR_PARTITION",
        "Metadata LEADER_NOT_AVAILABLE",
        "FindCoordinator",
        "FindCoordinator COORDINATOR_NOT_AVAILABLE",
        "JoinGroup COORDINATOR_LOAD_IN_PROGRESS",
        "JoinGroup NOT_COORDINATOR",
        "Heartbeat COORDINATOR_LOAD_IN_PROGRESS",
        "Heartbeat NOT_COORDINATOR",
        "OffsetCommit COORDINATOR_LOAD_IN_PROGRESS",
        "OffsetCommit NOT_COORDINATOR",
    )
)
"""Responses that a timer repeats until another event. Only the number of these responses is compared, not their
order."""


@frozen
class RebalanceSeen:
    """A completed join phase, which is one generation; in the consumer protocol, a computed target assignment.

    There, ``generation`` is the group's epoch, ``leader`` and ``reason`` are "", and the group is stable when every
    member has the epoch and holds no partition of another member.

    ``members``: client ids, sorted; ``leader``: client id of the leader. ``began_ms``: time at which the group prepared
    for this rebalance; None if only a failed broker's lost log has the time. ``stable_ms``: arrival of the leader's
    assignment; None without an arrival within the plan. ``owners``: each member's assignment in this generation.
    """

    generation: int
    members: tuple[str, ...]
    leader: str
    reason: str
    began_ms: int | None
    joined_ms: int
    stable_ms: int | None
    owners: Owners

    @property
    def took_ms(self) -> int | None:
        """Time from PreparingRebalance to Stable; None if either time is unknown."""
        return None if self.began_ms is None or self.stable_ms is None else self.stable_ms - self.began_ms


@frozen
class Course:
    """An operator's view of one run of a plan.

    ``downtime_ms``: "topic-partition" -> (from, until) of each span without an owner, after the first owner
    (``HeldPartitions``). ``errors``: "JoinGroup MEMBER_ID_REQUIRED" -> number of such responses to members.
    ``requests``: API -> number of responses.
    """

    plan: str
    until_ms: int
    rebalances: tuple[RebalanceSeen, ...]
    downtime_ms: Mapping[str, tuple[tuple[int, int], ...]]
    errors: Mapping[str, int]
    requests: Mapping[str, int]
    source: str = ""
    timeline: tuple[tuple[int, str], ...] = ()
    """The actions of the plan: (time, text)."""
    verdict: str = ""
    """The verdict of an emulated run; "" for a recorded run."""
    took_effect: tuple[tuple[int, str], ...] = ()
    """The times at which actions took effect (``lab.conformance.timing``). "joins c1" is the arrival of a life's first
    JoinGroup. "closes c1" is the time at which the polling thread detected the close."""
    windows_ms: tuple[int, ...] = ()
    """For each start of the only broker: time for which the broker answered members without knowing the topic."""
    loads_ms: tuple[tuple[int, int], ...] = ()
    """For each new coordinator of the group: (time for which the group's log waited for the loading thread, loading
    time)."""
    hand_overs_ms: tuple[int, ...] = ()
    """Members' times from a generation's first JoinGroup response to their SyncGroup, in the order of time, without
    lives that had no assignment yet. These times indicate the load of the machine. A classic member in a group of the
    consumer protocol joins alone, and has no such time."""
    exchanges: Mapping[str, tuple[Exchange, ...]] = field(factory=dict)
    """"c1 coordinator", "c1 brokers" -> the responses to that member on the connection, in order (``ExchangesSeen``).
    """

    fitted: bool = False
    """Whether drawn times of the emulator were measured in this live run."""
    had_priority: bool = False
    """Whether this live run's processes had priority over the other work of their machine."""

    @property
    def is_recorded(self) -> bool:
        """Whether the run is one of the recordings of 3.4.1, and no live run."""
        return self.source.startswith(RECORDED)

    @property
    def is_fitted(self) -> bool:
        """Whether drawn times of the emulator were measured in this run (in-sample)."""
        return self.fitted or self.is_recorded

    @property
    def downtime_sum_ms(self) -> int:
        """Time without an owner, summed over all partitions, in partition-milliseconds."""
        return sum(until - since for spans in self.downtime_ms.values() for since, until in spans)

    @property
    def downtime_longest_ms(self) -> int:
        """The longest single span without an owner, in milliseconds."""
        return max((until - since for spans in self.downtime_ms.values() for since, until in spans), default=0)


class ExchangesSeen:
    """The responses to each member, by connection and in order; periodic responses are counted.

    The order has the numbers of periodic responses, sorted by name, between two other responses. Consecutive equal
    responses become one response with a number. Call the methods in the order of time.
    """

    def __init__(self) -> None:
        self._seen: dict[str, list[Exchange]] = {}
        self._periodic: dict[str, dict[str, int]] = {}
        self._epochs: dict[str, int] = {}

    def answered(self, member: str, api: str, error: str, generation: int = 0) -> None:
        """Add a response. ``error``: name of the error, or "". ``generation``: generation of a JoinGroup."""
        place = f"{member} {COORDINATOR if api in _OF_COORDINATOR else BROKERS}"
        what = api + (f" {error}" if error else f" {generation}" if generation else "")
        if what in _PERIODIC:
            counts = self._periodic.setdefault(place, {})
            counts[what] = counts.get(what, 0) + 1
        else:
            self._in_order(place, what)

    def _in_order(self, place: str, what: str) -> None:
        self._flush(place)
        seen = self._seen.setdefault(place, [])
        if seen and seen[-1][0] == what:
            seen[-1] = (what, seen[-1][1] + 1)
        else:
            seen.append((what, 1))

    def heartbeat_answered(self, member: str, error: str, epoch: int, partitions: int | None) -> None:
        """Add a response of the consumer protocol. A response that changes nothing is periodic.

        ``partitions``: number of assigned partitions in the response; None without an assignment.
        """
        changes = partitions is not None or self._epochs.get(member) != epoch
        if changes and not error:
            self._epochs[member] = epoch
            told = "" if partitions is None else f" of {partitions} partitions"
            self._in_order(f"{member} {COORDINATOR}", f"{HEARTBEAT} {epoch}{told}")
        else:
            self.answered(member, HEARTBEAT, error)

    def all(self) -> dict[str, tuple[Exchange, ...]]:
        """Responses by member and connection, sorted."""
        for place in list(self._periodic):
            self._flush(place)
        return {place: tuple(self._seen[place]) for place in sorted(self._seen)}

    def _flush(self, place: str) -> None:
        counts = self._periodic.pop(place, {})
        self._seen.setdefault(place, []).extend(sorted(counts.items()))


def totals_by_member(course: Course) -> dict[tuple[str, str], int]:
    """(member, API) -> number of responses, with and without an error."""
    found: dict[tuple[str, str], int] = {}
    for place, exchanges in course.exchanges.items():
        member = place.partition(" ")[0]
        for what, times in exchanges:
            key = member, what.partition(" ")[0]
            found[key] = found.get(key, 0) + times
    return found


def is_periodic(what: str) -> bool:
    """Whether a timer repeats this response."""
    return what in _PERIODIC


class HeldPartitions:
    """Owners of partitions by the members' callbacks, and the spans without an owner.

    A member holds a partition from onPartitionsAssigned until onPartitionsRevoked or onPartitionsLost, or until the
    member is killed, has closed or has failed. A member with a paused process holds nothing. A partition with several
    holders has an owner. Both sides use only callbacks, and no connections, positions or records. Call the methods in
    the order of time.
    """

    def __init__(self) -> None:
        self._held: dict[str, dict[str, None]] = {}
        self._paused: dict[str, None] = {}
        self._down_since_ms: dict[str, int] = {}
        self._spans: dict[str, list[tuple[int, int]]] = {}

    def assigned(self, at_ms: int, member: str, partitions: Sequence[str]) -> None:
        """Note that the member now holds these partitions, too."""
        self._held.setdefault(member, {}).update(dict.fromkeys(partitions))
        if member not in self._paused:
            self._up(at_ms, partitions)

    def revoked(self, at_ms: int, member: str, partitions: Sequence[str]) -> None:
        """Note that the member no longer holds these partitions."""
        mine = self._held.get(member, {})
        given = [partition for partition in partitions if partition in mine]
        for partition in given:
            del mine[partition]
        self._look(at_ms, given)

    def ended(self, at_ms: int, member: str) -> None:
        """Note that the member no longer holds any partition."""
        self._paused.pop(member, None)
        self._look(at_ms, list(self._held.pop(member, {})))

    def paused(self, at_ms: int, member: str) -> None:
        """Note that the member's process was paused."""
        self._paused[member] = None
        self._look(at_ms, list(self._held.get(member, {})))

    def resumed(self, at_ms: int, member: str) -> None:
        """Note that the member's process was resumed, and that the member holds its partitions again."""
        self._paused.pop(member, None)
        self._up(at_ms, list(self._held.get(member, {})))

    def spans_ms(self, until_ms: int) -> dict[str, tuple[tuple[int, int], ...]]:
        """Partition -> spans without an owner until this time, for every partition that ever had an owner, sorted."""
        for partition, since in self._down_since_ms.items():
            if until_ms > since:
                self._spans[partition].append((since, until_ms))
        self._down_since_ms.clear()
        return {partition: tuple(self._spans[partition]) for partition in sorted(self._spans, key=_by_number)}

    def _up(self, at_ms: int, partitions: Sequence[str]) -> None:
        for partition in partitions:
            spans = self._spans.setdefault(partition, [])
            since = self._down_since_ms.pop(partition, None)
            if since is not None and at_ms > since:
                spans.append((since, at_ms))

    def _look(self, at_ms: int, partitions: Sequence[str]) -> None:
        for partition in partitions:
            held = any(partition in mine for member, mine in self._held.items() if member not in self._paused)
            if not held:
                self._down_since_ms.setdefault(partition, at_ms)


def _by_number(partition: str) -> tuple[str, int]:
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


_CONVERTER = cattrs.Converter(forbid_extra_keys=True, unstruct_collection_overrides={tuple: list})


def course_to_json(course: Course) -> str:
    """A course as JSON with one row per rebalance, partition and entry of the timeline."""
    data: dict[str, Any] = _CONVERTER.unstructure(course)
    lines = []
    for name, value in data.items():
        if isinstance(value, list) and value:
            inner = ",\n".join(f"    {json.dumps(item)}" for item in value)
            lines.append(f'  "{name}": [\n{inner}\n  ]')
        elif isinstance(value, dict) and value:
            inner = ",\n".join(f"    {json.dumps(key)}: {json.dumps(item)}" for key, item in value.items())
            lines.append(f'  "{name}": {{\n{inner}\n  }}')
        else:
            lines.append(f'  "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def course_from_json(text: str) -> Course:
    """Read the course from a text of ``course_to_json``.

    Raises:
        ValueError: the text is not a course.
    """
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("is no JSON object")
    try:
        return _CONVERTER.structure(data, Course)
    except cattrs.BaseValidationError as error:
        raise ValueError("; ".join(cattrs.transform_error(error))) from None
