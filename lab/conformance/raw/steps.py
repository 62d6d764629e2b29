"""A sequence of raw requests to one group, what was answered, and both as compact JSON.

Nobody can know a member id before the coordinator has made it up, so a sequence names ids by where they come from:
``m4`` is the id that was made up for the JoinGroup of step 4.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import cattrs
from attrs import field, frozen

from kemu.protocol.messages import group as messages
from kemu.protocol.names import UNKNOWN_MEMBER

REQUESTS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        messages.JoinGroup,
        messages.SyncGroup,
        messages.Heartbeat,
        messages.LeaveGroup,
        messages.OffsetCommit,
        messages.OffsetFetch,
        messages.DescribeGroups,
    )
}
"""What is asked."""
REPLIES: Mapping[str, type] = {name: getattr(messages, f"{name}Reply") for name in REQUESTS}
GROUP = "g"
"""What a sequence calls its group; each time it is put to a real broker the group has another name there."""
_ID_FIELDS = ("member_id", "leader")


@frozen
class RawRequest:
    """One request: when it is sent (ms since the sequence began), by which client, in which version."""

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
    """When a request was answered (ms since the sequence began), and with what."""

    at_ms: int
    reply: Any


@frozen
class Conversation:
    """A sequence as it went: the requests with the times they were sent at, and the answers by step.

    Steps that have no answer were still parked at ``end_ms``.
    """

    seed: int
    end_ms: int
    steps: tuple[RawRequest, ...]
    answers: Mapping[int, Answer]
    ids: Mapping[int, str] = field(factory=dict)
    """Step -> the member id that was made up for it, as far as an answer told it."""


_SYMBOL = "m"


def symbol(step: int) -> str:
    """How a sequence names the id that was made up for this step."""
    return f"{_SYMBOL}{step}"


def step_of(name: str) -> int:
    """The step for which an id was made up."""
    return int(name.removeprefix(_SYMBOL))


def with_ids(message: Any, rename: Callable[[str], str]) -> Any:
    """The same message with other member ids, wherever there is one."""
    changes: dict[str, Any] = {}
    for each in attrs.fields(type(message)):
        value = getattr(message, each.name)
        if each.name in _ID_FIELDS and value != UNKNOWN_MEMBER:
            changes[each.name] = rename(value)
        elif isinstance(value, tuple) and value and attrs.has(type(value[0])):
            changes[each.name] = tuple([with_ids(row, rename) for row in value])
    return attrs.evolve(message, **changes) if changes else message


def told_by(reply: Any) -> Any:
    """A reply without what depends on where it was given: the group's name there, and the clients' addresses."""
    if not isinstance(reply, messages.DescribeGroupsReply):
        return reply
    rows: list[Any] = []
    row: Any
    for row in reply.groups:
        members = tuple([_without_host(member) for member in row.members])
        rows.append(attrs.evolve(row, group=GROUP, members=members))
    return messages.DescribeGroupsReply(groups=tuple(rows))


def _without_host(member: Any) -> Any:
    return attrs.evolve(member, client_host="")


# --- JSON ----------------------------------------------------------------------------------------------------------

_CONVERTER = cattrs.Converter(omit_if_default=True, forbid_extra_keys=True)
_CONVERTER.register_unstructure_hook(bytes, bytes.hex)
_CONVERTER.register_structure_hook(bytes, lambda text, _: bytes.fromhex(text))


class ConversationError(ValueError):
    """A recorded conversation that is damaged; it says how."""


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
    return json.dumps(data, separators=(",", ":"))


def from_row(line: str) -> Conversation:
    """The other way.

    Raises:
        ConversationError: it is damaged.
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
        return Conversation(data["seed"], data["end_ms"], tuple(steps), answers, ids)
    except (KeyError, TypeError, ValueError, cattrs.BaseValidationError) as error:
        raise ConversationError(f"not a recorded conversation: {error!r:.200}") from None
