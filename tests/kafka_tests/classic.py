"""The answers and the state of classic groups, as the cases of Kafka's tests name them."""

from collections.abc import Mapping
from typing import Any

from kemu.actors.coordinator.group import Group
from kemu.actors.machine import Received, Send
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import DescribeGroups, ListGroups
from kemu.protocol.messages.member import decode_assignment
from tests.actors.coordinator.coordinator_harness import GROUP, Bench
from tests.kafka_tests.cases import held, topic_id
from tests.kafka_tests.shown import Named

_FIELDS = {"protocol": "protocol_name", "type": "protocol_type", "skip": "skip_assignment"}
"""The name of a field in a case -> its name in an answer."""
_SHARES = ("assignment", "assigned", "target")
_NEWEST_DESCRIBE = 6
_NEWEST_LIST = 5


def shown_answer(key: str, reply: Any, named: Named) -> Any:
    """A field of the answer to a join or a sync. ``members``: the names and instances that the answer lists."""
    match key:
        case "assignment":
            return _shares(reply.assignment)
        case "member" | "leader":
            return named(getattr(reply, f"{key}_id" if key == "member" else key))
        case "members":
            return sorted(f"{named(each.member_id)} {each.instance_id or ''}".strip() for each in reply.members)
    value = getattr(reply, _FIELDS.get(key, key))
    return "none" if value is None else value


def wanted_answer(key: str, wanted: Any) -> Any:
    """The same field as a case names it."""
    match key:
        case "assignment":
            return set(held(wanted))
        case "members":
            return sorted(each.strip() for each in wanted.split(",") if each.strip())
    return wanted


def _shares(assignment: bytes) -> set[tuple[str, int]]:
    partitions = decode_assignment(assignment).partitions if assignment else ()
    return {(topic_id(topic), number) for topic, number in partitions}


def described(bench: Bench, row: Mapping[str, Any], answer: Mapping[str, Any], why: str) -> None:
    """Compare the answer to DescribeGroups; ``members``: fields of each member."""
    ask = bench.ask("admin", DescribeGroups(groups=(GROUP,)), row.get("version", _NEWEST_DESCRIBE))
    (found,) = ask.reply.groups
    assert ErrorCode(found.error).name == answer.get("error", "NONE"), f"{why}: {found}"
    for key in answer.keys() - {"error", "members"}:
        assert (getattr(found, key) or "") == answer[key], f"{why}: {key}: {found}"
    members = answer.get("members", {})
    assert [each.member_id for each in found.members] == list(members), f"{why}: {found}"
    for each in found.members:
        compare_fields(each, members[each.member_id], f"{why}: {each}")


def compare_fields(found: Any, wanted: Mapping[str, Any], why: str) -> None:
    """Compare some fields of a member, in a group or in a description."""
    for key, value in wanted.items():
        assert _shown_field(found, key) == (set(held(value)) if key in _SHARES else value), f"{why}: {key}"


def _shown_field(found: Any, key: str) -> Any:
    match key:
        case "assignment":
            return _shares(found.assignment)
        case "assigned" | "target":
            return {(row.topic_id, number) for row in getattr(found, key) for number in row.partitions}
        case "protocols":
            classic = getattr(found, "classic", found)
            return " ".join(each.name for each in classic.protocols)
        case "has_metadata":
            return bool(found.metadata)
        case "topics":
            return " ".join(found.topics)
    return getattr(found, key)


def listed(bench: Bench, row: Mapping[str, str]) -> dict[str, str]:
    """The answer to ListGroups: a group -> its protocol type, state and kind."""
    states, types = (tuple(row.get(key, "").split()) for key in ("states", "types"))
    request = ListGroups(states_filter=states, types_filter=types)
    event = Received("admin", 1, 1, _NEWEST_LIST, request)  # kemu's codec has no version with the kind of a group
    (groups,) = [sent.message.groups for sent in bench.coordinator.step(bench.now_us, event) if isinstance(sent, Send)]
    return {each.group: f"{each.protocol_type} {each.state} {each.group_type}".strip() for each in groups}


def compare_classic(step: Mapping[str, Any], group: Group, named: Named, why: str) -> None:
    """Compare a classic group with what a step tells about it."""
    if "generation" in step:
        assert group.shared.generation == step["generation"], f"{why}: generation {group.shared.generation}"
    if "members" in step:
        assert sorted(map(named, group.members.by_id)) == step["members"].split(), f"{why}: {list(group.members.by_id)}"
    if "size" in step:
        assert len(group.members) == step["size"], f"{why}: {list(group.members.by_id)}"
    if "pending" in step:
        assert len(group.members.pending) == step["pending"], f"{why}: {list(group.members.pending)}"
    if "leader" in step:
        assert named(group.members.leader or "") == step["leader"], f"{why}: {group.members.leader}"
    for name, fields in step.get("fields", {}).items():
        (member,) = [each for each in group.members if named(each.member_id) == name]
        compare_fields(member, fields, f"{why}: {name}")
