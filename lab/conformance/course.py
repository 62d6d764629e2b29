"""What an operator saw of one plan: generations, rebalances, partitions nobody held, errors. Small enough to keep.

Times are milliseconds from the moment the plan calls 0 (the first member is started), as exact as the logs they come
from. What happens after ``until_ms`` (the members are closed to end the recording) belongs to no course.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import cattrs
from attrs import field, frozen

Owners = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Client -> topic -> partitions."""
Exchange = tuple[str, int]
"""What was answered, such as "SyncGroup", "JoinGroup 3" or "Heartbeat REBALANCE_IN_PROGRESS", and how often."""
COORDINATOR, BROKERS = "coordinator", "brokers"
"""A member's connections: one to its group's coordinator, others to brokers as such. No request goes over both."""
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
"""What comes again and again by a timer until something else happens: only how often is compared, not the order."""


@frozen
class RebalanceSeen:
    """One join phase that was completed, and so one generation.

    ``members``: client ids, sorted; ``leader``: one of them. ``began_ms``: when the group prepared for this rebalance,
    None if no log says (another broker's did, before it went down). ``stable_ms``: when the leader's assignment was
    there; None: never, or not within the plan. ``owners``: what each member was assigned in this generation.
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

    ``downtime_ms``: "topic-partition" -> (from, until) for each span in which no member held it, beginning with the
    first time that one did (``HeldPartitions``). ``errors``: "JoinGroup MEMBER_ID_REQUIRED" -> how many answers to
    members were that. ``requests``: API -> how many answers.
    """

    plan: str
    until_ms: int
    rebalances: tuple[RebalanceSeen, ...]
    downtime_ms: Mapping[str, tuple[tuple[int, int], ...]]
    errors: Mapping[str, int]
    requests: Mapping[str, int]
    source: str = ""
    timeline: tuple[tuple[int, str], ...] = ()
    """What was done to it, and when."""
    verdict: str = ""
    """Of an emulated run."""
    took_effect: tuple[tuple[int, str], ...] = ()
    """The timeline as members and brokers felt it (``lab.conformance.timing``): "joins c1" when the first
    JoinGroup of that life came, "closes c1" when its polling thread saw that it was to close, and so on."""
    windows_ms: tuple[int, ...] = ()
    """After each start of the only broker: how long it answered members and knew no topic."""
    loads_ms: tuple[tuple[int, int], ...] = ()
    """Each time that a broker began to coordinate the group: how long its log waited for the thread that reads one
    after the other, and how long it was read."""
    hand_overs_ms: tuple[int, ...] = ()
    """What members took from a generation's first answer to JoinGroup to their SyncGroup, in the order of time; without
    those of lives that had no assignment yet. It tells how busy their machine was."""
    exchanges: Mapping[str, tuple[Exchange, ...]] = field(factory=dict)
    """"c1 coordinator", "c1 brokers" -> what that member was answered there, in order (``ExchangesSeen``)."""

    @property
    def downtime_sum_ms(self) -> int:
        """Over all partitions: partition-milliseconds."""
        return sum(until - since for spans in self.downtime_ms.values() for since, until in spans)

    @property
    def downtime_longest_ms(self) -> int:
        """The longest single span."""
        return max((until - since for spans in self.downtime_ms.values() for since, until in spans), default=0)


class ExchangesSeen:
    """What each member was answered, by connection and in order, with what is periodic counted.

    Between two answers that are not periodic stands, sorted by name, how often each periodic one came. Of the others
    those that come several times in a row are one with a count. Feed it in the order of time.
    """

    def __init__(self) -> None:
        self._seen: dict[str, list[Exchange]] = {}
        self._periodic: dict[str, dict[str, int]] = {}

    def answered(self, member: str, api: str, error: str, generation: int = 0) -> None:
        """One answer; ``error``: its name, "" if there is none; ``generation``: what a JoinGroup brought."""
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
        """By member and connection, sorted."""
        for place in list(self._periodic):
            self._flush(place)
        return {place: tuple(self._seen[place]) for place in sorted(self._seen)}

    def _flush(self, place: str) -> None:
        counts = self._periodic.pop(place, {})
        self._seen.setdefault(place, []).extend(sorted(counts.items()))


def is_periodic(what: str) -> bool:
    """Whether an answer comes again and again by a timer."""
    return what in _PERIODIC


class HeldPartitions:
    """Who holds which partition, as the members' callbacks tell it, and the spans in which nobody does.

    A member holds a partition from its onPartitionsAssigned until its onPartitionsRevoked or onPartitionsLost, or until
    it is killed, has closed or has failed; while its process stands still it holds nothing. Several may hold one: then
    one suffices. The reach of the broker makes no difference, nor do positions and records: this is what callbacks
    show, on both sides. Feed it in the order of time.
    """

    def __init__(self) -> None:
        self._held: dict[str, dict[str, None]] = {}
        self._still: dict[str, None] = {}
        self._down_since_ms: dict[str, int] = {}
        self._spans: dict[str, list[tuple[int, int]]] = {}

    def assigned(self, at_ms: int, member: str, partitions: Sequence[str]) -> None:
        """The member holds these, too."""
        self._held.setdefault(member, {}).update(dict.fromkeys(partitions))
        if member not in self._still:
            self._up(at_ms, partitions)

    def given_up(self, at_ms: int, member: str, partitions: Sequence[str]) -> None:
        """The member does not hold these any more."""
        mine = self._held.get(member, {})
        given = [partition for partition in partitions if partition in mine]
        for partition in given:
            del mine[partition]
        self._look(at_ms, given)

    def gone(self, at_ms: int, member: str) -> None:
        """The member holds nothing any more."""
        self._still.pop(member, None)
        self._look(at_ms, list(self._held.pop(member, {})))

    def stands_still(self, at_ms: int, member: str) -> None:
        """Its process was stopped."""
        self._still[member] = None
        self._look(at_ms, list(self._held.get(member, {})))

    def goes_on(self, at_ms: int, member: str) -> None:
        """Its process runs again, with what it held."""
        self._still.pop(member, None)
        self._up(at_ms, list(self._held.get(member, {})))

    def spans_ms(self, until_ms: int) -> dict[str, tuple[tuple[int, int], ...]]:
        """Partition -> spans; what is down then has been down until then. Partitions that were ever held, sorted."""
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
            held = any(partition in mine for member, mine in self._held.items() if member not in self._still)
            if not held:
                self._down_since_ms.setdefault(partition, at_ms)


def _by_number(partition: str) -> tuple[str, int]:
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


_CONVERTER = cattrs.Converter(forbid_extra_keys=True, unstruct_collection_overrides={tuple: list})


def course_to_json(course: Course) -> str:
    """As text with one row per rebalance, partition and entry of the timeline."""
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
    """The course of a text that ``course_to_json`` wrote.

    Raises:
        ValueError: it is no such text.
    """
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("is no JSON object")
    try:
        return _CONVERTER.structure(data, Course)
    except cattrs.BaseValidationError as error:
        raise ValueError("; ".join(cattrs.transform_error(error))) from None
