"""What an operator saw of one plan: generations, rebalances, partitions nobody held, errors. Small enough to keep.

Times are milliseconds from the moment the plan calls 0 (the first member is started), as exact as the logs they come
from. What happens after ``until_ms`` (the members are closed to end the recording) belongs to no course.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import cattrs
from attrs import frozen

Owners = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Client -> topic -> partitions."""


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

    @property
    def downtime_sum_ms(self) -> int:
        """Over all partitions: partition-milliseconds."""
        return sum(until - since for spans in self.downtime_ms.values() for since, until in spans)

    @property
    def downtime_longest_ms(self) -> int:
        """The longest single span."""
        return max((until - since for spans in self.downtime_ms.values() for since, until in spans), default=0)


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
