"""Groups as lines of JSON, the input of ``kemu assign`` and ``kemu compare-assignors``.

One line is one group before a rebalance::

    {"partitions_per_topic": {"t": 3}, "members": {"m1": {"topics": ["t"], "owned": [["t", 0]], "generation": 4}}}

``owned``, ``generation``, ``rack`` and ``instance_id`` of a member and ``replica_racks`` of the group are optional.
"""

import json
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from kemu.emulator.text.tables import nearest
from kemu.protocol.assign.base import Assignor, Memory, Subscriber, Topics
from kemu.protocol.frozen import frozen
from kemu.protocol.names import NO_GENERATION, MemberId, TopicPartition
from kemu.tools.kafka_files.input_files import BadFile, json_of

GROUP_KEYS = ("partitions_per_topic", "members", "replica_racks")
MEMBER_KEYS = ("topics", "owned", "generation", "rack", "instance_id")
LONGEST_TOPIC = 249
MOST_PARTITIONS = 20_000_000
"""Maximum number of partitions in a line. A larger number is probably a typing error, and would exhaust the memory."""


class BadLine(ValueError):
    """A line is no valid group; the message has the place in the line and the reason."""


@frozen
class GroupLine:
    """A group before a rebalance. The subscriptions of members have owned partitions, and no user data."""

    topics: Topics
    members: Mapping[MemberId, Subscriber]

    @property
    def owned(self) -> dict[MemberId, tuple[TopicPartition, ...]]:
        """Member -> the partitions that the member claims to own."""
        return {member: one.owned for member, one in self.members.items()}

    def members_for(self, assignor: Assignor) -> dict[MemberId, Subscriber]:
        """Return the members with the user data that this assignor would make from their owned partitions."""
        return {member: _with_user_data(one, assignor) for member, one in self.members.items()}


def _with_user_data(one: Subscriber, assignor: Assignor) -> Subscriber:
    """Return a member with the assignor's user data, as if the owned partitions were the member's last assignment."""
    fresh = not one.owned and one.generation == NO_GENERATION
    memory = None if fresh else Memory(one.owned, one.generation)
    return evolve(one, user_data=assignor.user_data(memory))


def read_group(text: str) -> GroupLine:
    """Return the group of one line.

    Raises:
        BadLine: The line is not JSON, or a key is missing, unknown or of another type.
    """
    try:
        data = json_of(text)
    except BadFile as error:
        raise BadLine(str(error)) from None
    if "\\u" in text:
        _refuse_surrogates(data)
    _known("the line", data, GROUP_KEYS)
    counts = {
        _topic("partitions_per_topic", topic): _whole(f"partitions_per_topic.{topic}", count, least=0)
        for topic, count in _table("partitions_per_topic", data.get("partitions_per_topic")).items()
    }
    if sum(counts.values()) > MOST_PARTITIONS:
        raise BadLine(f"partitions_per_topic: more than {MOST_PARTITIONS:,} partitions in all")
    members = {member: _member(member, raw) for member, raw in _table("members", data.get("members")).items()}
    if not members:
        raise BadLine("members: a group has at least one member")
    racks = None if data.get("replica_racks") is None else _racks(data["replica_racks"], counts)
    return GroupLine(Topics(counts, racks), members)


def _refuse_surrogates(data: Any) -> None:
    """Refuse text with half of a surrogate pair, which JSON can contain, but Kafka's UTF-8 strings cannot."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadLine("a text with half of a surrogate pair in it") from None


def _topic(where: str, raw: Any) -> str:
    if not isinstance(raw, str) or not 0 < len(raw) <= LONGEST_TOPIC:
        raise BadLine(f"{where}: {json.dumps(raw)} is no topic name (1 to {LONGEST_TOPIC} characters)")
    return raw


def _member(member: str, raw: Any) -> Subscriber:
    where = f"members.{member}"
    _known(where, raw, MEMBER_KEYS)
    topics = raw.get("topics")
    if not isinstance(topics, list):
        raise BadLine(f"{where}.topics: must be a list of topic names")
    generation = raw.get("generation")
    return Subscriber(
        topics=tuple(_topic(f"{where}.topics", topic) for topic in topics),
        owned=_owned(f"{where}.owned", raw.get("owned")),
        generation=NO_GENERATION if generation is None else _whole(f"{where}.generation", generation, NO_GENERATION),
        rack=_text(f"{where}.rack", raw.get("rack")),
        instance_id=_text(f"{where}.instance_id", raw.get("instance_id")),
    )


def _owned(where: str, raw: Any) -> tuple[TopicPartition, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise BadLine(f"{where}: must be a list of [topic, partition]")
    owned: list[TopicPartition] = []
    for one in raw:
        match one:
            case [str(topic), int(number)] if not isinstance(number, bool) and number >= 0:
                owned.append((_topic(where, topic), _whole(where, number, least=0)))
            case _:
                raise BadLine(f"{where}: {json.dumps(one)} is not [topic, partition]")
    return tuple(owned)


def _racks(raw: Any, counts: Mapping[str, int]) -> dict[str, tuple[tuple[str, ...], ...]]:
    racks: dict[str, tuple[tuple[str, ...], ...]] = {}
    for topic, partitions in _table("replica_racks", raw).items():
        where = f"replica_racks.{topic}"
        if not isinstance(partitions, list) or len(partitions) != counts.get(topic):
            raise BadLine(f"{where}: must be a list with the racks of each of its {counts.get(topic, 0)} partitions")
        for one in partitions:
            if not isinstance(one, list) or not all(isinstance(rack, str) for rack in one):
                raise BadLine(f"{where}: {json.dumps(one)} is not a list of racks")
        racks[topic] = tuple(tuple(one) for one in partitions)
    return racks


def _known(where: str, raw: Any, keys: tuple[str, ...]) -> None:
    if not isinstance(raw, dict):
        raise BadLine(f"{where}: must be an object")
    for key in raw:
        if key not in keys:
            raise BadLine(f'{where}: "{key}" is unknown{nearest(key, keys)}')


def _table(where: str, raw: Any) -> dict[str, Any]:
    if raw is None:
        raise BadLine(f"{where}: is missing")
    if not isinstance(raw, dict):
        raise BadLine(f"{where}: must be an object")
    return raw


def _whole(where: str, raw: Any, least: int) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or raw < least:
        raise BadLine(f"{where}: must be a whole number, at least {least}, not {json.dumps(raw)}")
    if raw > 2**31 - 1:
        raise BadLine(f"{where}: {raw} is more than Kafka's 32 bits hold")
    return raw


def _text(where: str, raw: Any) -> str | None:
    if raw is not None and not isinstance(raw, str):
        raise BadLine(f"{where}: must be a text")
    return raw
