"""A sequence of raw requests to one group, their responses, and both as compact JSON.

Member ids are unknown before the coordinator generates them, so a sequence names ids by their origin. ``m4`` is the id
that was generated for the JoinGroup of step 4, or the id of the topic that step 4 created.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import cattrs
from attrs import field, frozen

from kemu.protocol.messages import consumer_group, control
from kemu.protocol.messages import group as messages
from kemu.protocol.names import UNKNOWN_MEMBER

TOPIC_CHANGES: tuple[type, ...] = (control.CreateTopics, control.CreatePartitions, control.DeleteTopics)
"""Requests that change the one topic that a sequence has for itself. Their answers have no time to compare."""
TOPICS_VERSION = 3
"""The version of all requests that change topics, which all emulated releases have."""
REQUESTS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        *TOPIC_CHANGES,
        messages.JoinGroup,
        messages.SyncGroup,
        messages.Heartbeat,
        messages.LeaveGroup,
        messages.OffsetCommit,
        messages.OffsetFetch,
        messages.DescribeGroups,
        messages.ListGroups,
        consumer_group.ConsumerGroupHeartbeat,
        consumer_group.ConsumerGroupDescribe,
    )
}
"""Kafka's name of a request -> class of the request."""
REPLIES: Mapping[str, type] = {
    name: getattr(sys.modules[kind.__module__], f"{name}Reply") for name, kind in REQUESTS.items()
}
SIZES: Mapping[str, int] = {"t": 2, "u": 3}
"""Topic -> number of partitions."""
GROUP = "g"
"""Name of the group in a sequence. Each conversation with a real broker uses another name."""
_ID_FIELDS = ("member_id", "leader", "topic_id")


@frozen
class RawRequest:
    """A request with its time (ms since the start of the sequence), client and version."""

    at_ms: int
    client: str
    version: int
    request: Any

    @property
    def api(self) -> str:
        """Kafka's name of the request."""
        return type(self.request).__name__


@frozen
class Answer:
    """A response with its time (ms since the start of the sequence)."""

    at_ms: int
    reply: Any


@frozen
class Conversation:
    """An executed sequence: the requests with their real times, and the responses by step.

    Steps without a response were still parked at ``end_ms``.
    """

    seed: int
    end_ms: int
    steps: tuple[RawRequest, ...]
    answers: Mapping[int, Answer]
    ids: Mapping[int, str] = field(factory=dict)
    """Step -> id that was generated for the step, if a response contains the id: of a member, or of a new topic."""
    moves: Mapping[int, int] = field(factory=dict)
    """Step -> time (ms) at which the coordinator resigned; before the step, a coordinator loaded the group's log."""
    topics: Mapping[str, str] = field(factory=dict)
    """Topic -> id. In requests and responses the name of a topic stands for its id."""


_SYMBOL = "m"


def symbol(step: int) -> str:
    """Symbol of the id that was generated for this step."""
    return f"{_SYMBOL}{step}"


def step_of(name: str) -> int:
    """The step for which the id with this symbol was generated."""
    return int(name.removeprefix(_SYMBOL))


def with_ids(message: Any, rename: Callable[[str], str]) -> Any:
    """The same message with all member ids replaced."""
    changes: dict[str, Any] = {}
    for each in attrs.fields(type(message)):
        value = getattr(message, each.name)
        if each.name in _ID_FIELDS and value not in (UNKNOWN_MEMBER, None):
            changes[each.name] = rename(value)
        elif isinstance(value, tuple) and value and attrs.has(type(value[0])):
            changes[each.name] = tuple([with_ids(row, rename) for row in value])
    return attrs.evolve(message, **changes) if changes else message


def told_by(reply: Any, group: str = GROUP) -> Any:
    """A reply without the parts that depend on the broker: the group's name, the clients' addresses, and messages.
    ListGroups lists only the group, which has the name ``group`` at this broker.

    Partitions of the consumer protocol are sorted: their order is the order of a hash map, which no client reads.
    """
    if isinstance(reply, consumer_group.ConsumerGroupHeartbeatReply):
        partitions = _sorted(reply.assignment)
        return attrs.evolve(reply, error_message=None, assignment=partitions)  # type: ignore[misc]
    if isinstance(reply, consumer_group.ConsumerGroupDescribeReply):
        groups = tuple([_described(each) for each in reply.groups])
        return consumer_group.ConsumerGroupDescribeReply(groups=groups)
    if isinstance(reply, messages.ListGroupsReply):
        listed: list[Any] = [each for each in reply.groups if each.group == group]
        return attrs.evolve(reply, groups=tuple([attrs.evolve(each, group=GROUP) for each in listed]))  # type: ignore[misc]
    if isinstance(reply, control.CreateTopicsReply | control.CreatePartitionsReply | control.DeleteTopicsReply):
        outcomes: list[Any] = [attrs.evolve(each, error_message=None) for each in reply.topics]  # type: ignore[misc]
        return type(reply)(topics=tuple(outcomes))
    if not isinstance(reply, messages.DescribeGroupsReply):
        return reply
    rows: list[Any] = []
    row: Any
    for row in reply.groups:
        members = tuple([_without_host(member) for member in row.members])
        message = None if row.error_message is None else row.error_message.replace(group, GROUP)
        rows.append(attrs.evolve(row, group=GROUP, members=members, error_message=message))
    return messages.DescribeGroupsReply(groups=tuple(rows))


def _described(group: Any) -> Any:
    members: list[Any] = list(group.members)
    members = [
        attrs.evolve(each, client_host="", assigned=_sorted(each.assigned), target=_sorted(each.target))
        for each in members
    ]
    members.sort(key=lambda each: each.member_id)
    return attrs.evolve(group, group=GROUP, error_message=None, members=tuple(members))


def _sorted(rows: Any) -> Any:
    if rows is None:
        return None
    ordered = [attrs.evolve(each, partitions=tuple(sorted(each.partitions))) for each in rows]
    return tuple(sorted(ordered, key=lambda each: each.topic_id))


def _without_host(member: Any) -> Any:
    return attrs.evolve(member, client_host="")


# --- JSON ----------------------------------------------------------------------------------------------------------

_CONVERTER = cattrs.Converter(omit_if_default=True, forbid_extra_keys=True)
_CONVERTER.register_unstructure_hook(bytes, bytes.hex)
_CONVERTER.register_structure_hook(bytes, lambda text, _: bytes.fromhex(text))


class ConversationError(ValueError):
    """A recorded conversation is damaged."""


def to_row(talk: Conversation) -> str:
    """One line of JSON: ``[at_ms, client, version, api, fields, answered_at_ms, fields]`` for each step."""
    rows: list[list[object]] = []
    for number, step in enumerate(talk.steps):
        row = [step.at_ms, step.client, step.version, step.api, _CONVERTER.unstructure(step.request)]
        answer = talk.answers.get(number)
        if answer is not None:
            row += [answer.at_ms, _CONVERTER.unstructure(answer.reply)]
        rows.append(row)
    data = {"seed": talk.seed, "end_ms": talk.end_ms, "ids": talk.ids, "steps": rows}
    if talk.topics:
        data["topics"] = talk.topics
    return json.dumps(data, separators=(",", ":"))


def from_row(line: str) -> Conversation:
    """Read a conversation from a line that ``to_row`` made.

    Raises:
        ConversationError: the line is damaged.
    """
    try:
        data = json.loads(line)
        steps: list[RawRequest] = []
        answers: dict[int, Answer] = {}
        for number, row in enumerate(data["steps"]):
            at_ms, client, version, api, request, *answered = row
            steps.append(RawRequest(at_ms, client, version, _CONVERTER.structure(request, REQUESTS[api])))
            if answered:
                answers[number] = Answer(answered[0], _CONVERTER.structure(answered[1], REPLIES[api]))
        ids = {int(step): str(member_id) for step, member_id in data["ids"].items()}
        topics = data.get("topics", {})
        return Conversation(data["seed"], data["end_ms"], tuple(steps), answers, ids, topics=topics)
    except (KeyError, TypeError, ValueError, cattrs.BaseValidationError) as error:
        raise ConversationError(f"not a recorded conversation: {error!r:.200}") from None
