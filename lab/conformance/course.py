"""An operator's view of one plan: generations, rebalances, partitions without an owner, errors. Small enough to store.

Times are milliseconds since the start of the first member, as exact as the logs. A course ends at ``until_ms``, when
the members are closed to end the recording.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import cattrs
from attrs import field, frozen

Owners = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Client -> topic -> partitions."""
Exchange = tuple[str, int]
"""A response, such as "SyncGroup", "JoinGroup 3" or "Heartbeat REBALANCE_IN_PROGRESS", and its number."""
COORDINATOR, BROKERS = "coordinator", "brokers"
"""A member's connections: one to its group's coordinator, others to brokers. Each API uses only one of the two kinds.
"""
_OF_COORDINATOR = frozenset(("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"))
_PERIODIC = frozenset(
    (
        "Heartbeat",
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
"""Responses that a timer repeats until another event: only their number is compared, not their order."""


@frozen
class RebalanceSeen:
    """One completed join phase, which is one generation.

    ``members``: client ids, sorted; ``leader``: one of them. ``began_ms``: when the group prepared for this rebalance;
    None if that is only in the lost log of a failed broker. ``stable_ms``: when the leader's assignment arrived; None
    if it did not arrive within the plan. ``owners``: each member's assignment in this generation.
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
        """From PreparingRebalance to Stable."""
        return None if self.began_ms is None or self.stable_ms is None else self.stable_ms - self.began_ms


@frozen
class Course:
    """See the module.

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
    """Verdict of an emulated run."""
    took_effect: tuple[tuple[int, str], ...] = ()
    """The times at which actions took effect (``lab.conformance.timing``): "joins c1" when the first JoinGroup of that
    life arrived, "closes c1" when the polling thread noticed the close, and so on."""
    windows_ms: tuple[int, ...] = ()
    """After each start of the only broker: how long it answered members without knowing the topic."""
    loads_ms: tuple[tuple[int, int], ...] = ()
    """For each new coordinator of the group: how long the group's log waited for the loading thread, and how long its
    loading took."""
    hand_overs_ms: tuple[int, ...] = ()
    """Members' times from a generation's first JoinGroup response to their SyncGroup, in the order of time, without
    lives that had no assignment yet. These times show how busy the machine was."""
    exchanges: Mapping[str, tuple[Exchange, ...]] = field(factory=dict)
    """"c1 coordinator", "c1 brokers" -> the responses to that member on the connection, in order (``ExchangesSeen``).
    """

    @property
    def downtime_sum_ms(self) -> int:
        """Sum over all partitions, in partition-milliseconds."""
        return sum(until - since for spans in self.downtime_ms.values() for since, until in spans)

    @property
    def downtime_longest_ms(self) -> int:
        """The longest single span."""
        return max((until - since for spans in self.downtime_ms.values() for since, until in spans), default=0)


class ExchangesSeen:
    """The responses to each member, by connection and in order; periodic responses are counted.

    The numbers of periodic responses, sorted by name, come between two others. Equal responses in a row become one with
    a number. Call the methods in the order of time.
    """

    def __init__(self) -> None:
        self._seen: dict[str, list[Exchange]] = {}
        self._periodic: dict[str, dict[str, int]] = {}

    def answered(self, member: str, api: str, error: str, generation: int = 0) -> None:
        """Add a response; ``error``: its name, "" if there is none; ``generation``: that of a JoinGroup."""
        place = f"{member} {COORDINATOR if api in _OF_COORDINATOR else BROKERS}"
        what = api + (f" {error}" if error else f" {generation}" if generation else "")
        if what in _PERIODIC:
            counts = self._periodic.setdefault(place, {})
            counts[what] = counts.get(what, 0) + 1
            return
        self._flush(place)
        seen = self._seen.setdefault(place, [])
        if seen and seen[-1][0] == what:
            seen[-1] = (what, seen[-1][1] + 1)
        else:
            seen.append((what, 1))

    def all(self) -> dict[str, tuple[Exchange, ...]]:
        """Responses by member and connection, sorted."""
        for place in list(self._periodic):
            self._flush(place)
        return {place: tuple(self._seen[place]) for place in sorted(self._seen)}

    def _flush(self, place: str) -> None:
        counts = self._periodic.pop(place, {})
        self._seen.setdefault(place, []).extend(sorted(counts.items()))


def is_periodic(what: str) -> bool:
    """Whether a timer repeats this response."""
    return what in _PERIODIC


class HeldPartitions:
    """Owners of partitions by the members' callbacks, and the spans without an owner.

    A member holds a partition from its onPartitionsAssigned until its onPartitionsRevoked or onPartitionsLost, or until
    it is killed, has closed or has failed. While its process is paused it holds nothing. A partition with several
    holders has an owner. Only callbacks count, on both sides; connections, positions and records do not. Call the
    methods in the order of time.
    """

    def __init__(self) -> None:
        self._held: dict[str, dict[str, None]] = {}
        self._paused: dict[str, None] = {}
        self._down_since_ms: dict[str, int] = {}
        self._spans: dict[str, list[tuple[int, int]]] = {}

    def assigned(self, at_ms: int, member: str, partitions: Sequence[str]) -> None:
        """Note that the member now also holds these."""
        self._held.setdefault(member, {}).update(dict.fromkeys(partitions))
        if member not in self._paused:
            self._up(at_ms, partitions)

    def revoked(self, at_ms: int, member: str, partitions: Sequence[str]) -> None:
        """Note that the member no longer holds these."""
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
        """Note that the member's process was resumed and holds its partitions again."""
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
