"""Records of a group as cases of Kafka's tests name them, and the comparison with records that were written."""

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, TypeAlias

from kemu.actors.coordinator.consumer_group.state import (
    ConsumerMember,
    CurrentRecord,
    GroupEpochRecord,
    GroupRecord,
    MemberRecord,
    RegexRecord,
    TargetEpochRecord,
    TargetRecord,
    TopicsRecord,
    share_of,
)
from kemu.actors.coordinator.consumer_group.stored import decoded
from kemu.actors.machine import Record
from kemu.protocol.consumer_group.reconciling import CurrentAssignment
from kemu.protocol.consumer_group.states import ReconcilingState, Topic
from kemu.protocol.messages.member import decode_assignment
from kemu.protocol.messages.records import GroupMetadata, OffsetRecord, StoredOffset, decode_record
from kemu.protocol.messages.records import GroupRecord as ClassicRecord
from tests.kafka_tests.cases import held, topic_id

STATES = {
    "STABLE": ReconcilingState.STABLE,
    "UNREVOKED": ReconcilingState.UNREVOKED_PARTITIONS,
    "UNRELEASED": ReconcilingState.UNRELEASED_PARTITIONS,
    "UNKNOWN": ReconcilingState.UNKNOWN,
}
_NAMES = {state: name for name, state in STATES.items()}
Shown: TypeAlias = tuple[Any, ...]
"""The kind of a record, the member or expression that it is about, and its values."""
Named: TypeAlias = Callable[[str], str]
"""The name of a member in a case, for a member id."""


def current(text: str) -> CurrentAssignment:
    """``STABLE 10/9 foo 0-2 revoking foo 3``: the state, the epoch and the previous epoch, the partitions."""
    state, epochs, assigned, revoking = _parts_of_current(text)
    epoch, previous = epochs
    filled = [
        {at: epoch if since is None else since for at, since in held(part).items()} for part in (assigned, revoking)
    ]
    return CurrentAssignment(STATES[state], epoch, previous, *filled)


def _parts_of_current(text: str) -> tuple[str, tuple[int, int], str, str]:
    state, epochs, *rest = text.split(maxsplit=2)
    epoch, previous = epochs.split("/")
    assigned, _, revoking = "".join(rest).partition("revoking")
    return state, (int(epoch), int(previous)), assigned, revoking


def written(record: Record, named: Named) -> Shown | None:
    """A record of the log; None for the topics of a group, which the cases do not compare."""
    found = decoded(*record)
    if found is not None:
        return None if isinstance(found[1], TopicsRecord) else shown(found[1], named)
    classic = decode_record(*record)
    if isinstance(classic, OffsetRecord):
        about = f"{classic.topic}-{classic.partition}"
        return ("offset", about, "removed") if classic.value is None else ("offset", about, *_stored(classic.value))
    assert isinstance(classic, ClassicRecord), classic
    return ("classic", "removed") if classic.metadata is None else _classic(classic.metadata, named)


def _stored(value: StoredOffset) -> tuple[int, Mapping[str, str]]:
    fields = {"epoch": str(value.leader_epoch), "id": value.topic_id, "metadata": value.metadata}
    if value.expire_timestamp_ms is not None:
        fields["expires"] = str(value.expire_timestamp_ms - value.commit_timestamp_ms)
    return value.offset, fields


def _classic(group: GroupMetadata, named: Named) -> Shown:
    shares = {named(each.member_id): _partitions_of(each.assignment) for each in group.members}
    return "classic", group.generation, group.protocol or "", shares


def _partitions_of(assignment: bytes) -> set[tuple[str, int]]:
    return {(topic_id(topic), n) for topic, n in decode_assignment(assignment).partitions} if assignment else set()


def shown(record: GroupRecord, named: Named) -> Shown:
    """A record of a group of the consumer protocol."""
    match record:
        case GroupEpochRecord(epoch=epoch):
            return "epoch", epoch or "removed"
        case TargetEpochRecord(epoch=epoch):
            return "target epoch", epoch or "removed"
        case MemberRecord(member_id=name, member=None):
            return "member", named(name), "removed"
        case TargetRecord(member_id=name, share=None):
            return "target", named(name), "removed"
        case CurrentRecord(member_id=name, current=None):
            return "current", named(name), "removed"
        case RegexRecord(regex=regex, topics=topics):
            return "regex", regex, "removed" if topics is None else set(topics)
        case MemberRecord(member_id=name, member=member) if member is not None:
            fields = {
                "instance": member.instance_id or "",
                "regex": member.regex,
                "assignor": member.assignor,
                "rack": member.rack or "",
                "timeout": str(member.rebalance_timeout_ms),
                "classic": "no" if member.classic is None else str(member.classic.session_timeout_ms),
            }
            return "member", named(name), set(member.topics), fields
        case TargetRecord(member_id=name, share=share) if share is not None:
            return "target", named(name), {(topic, n) for topic, numbers in share.items() for n in numbers}
        case CurrentRecord(member_id=name, current=now) if now is not None:
            epochs = now.epoch, now.previous_epoch
            return "current", named(name), _NAMES[now.state], epochs, now.assigned, now.revoking
    raise AssertionError(record)


def recorded(text: str) -> GroupRecord:
    """A record that a log has, as a case names it."""
    kind, *rest = expected(text)
    match kind, *rest:
        case "epoch", epoch:
            return GroupEpochRecord(0 if epoch == "removed" else epoch)
        case "target epoch", epoch:
            _, _, at_ms = text.partition("@")
            return TargetEpochRecord(0 if epoch == "removed" else epoch, int(at_ms or 0))
        case "topics", names:
            return TopicsRecord(tuple(Topic(name, topic_id(name), 1) for name in names))
        case "member", name, "removed":
            return MemberRecord(name, None)
        case "target", name, "removed":
            return TargetRecord(name, None)
        case "current", name, "removed":
            return CurrentRecord(name, None)
        case "regex", regex, topics:
            return RegexRecord(regex, None if topics == "removed" else tuple(sorted(topics)))
        case "member", name, topics, fields:
            member = ConsumerMember(
                name,
                instance_id=fields.get("instance"),
                rack=fields.get("rack"),
                client_id="client",
                client_host="/client",
                topics=tuple(sorted(topics)),
                regex=fields.get("regex", ""),
                assignor=fields.get("assignor", ""),
            )
            return MemberRecord(name, member)
        case "target", name, partitions:
            return TargetRecord(name, share_of(sorted(partitions)))
        case "current", name, *_:
            return CurrentRecord(name, current(text.split(maxsplit=2)[2]))
    raise AssertionError(text)


def expected(text: str) -> Shown:
    """A record as a case names it."""
    words = text.split()
    if words[0] == "epoch" or words[:2] == ["target", "epoch"]:
        return " ".join(words[:-1]), words[-1] if words[-1] == "removed" else int(words[-1].partition("@")[0])
    if words[0] == "classic":
        return _expected_classic(text)
    if words[0] == "topics":
        return "topics", [] if words[1:] == ["removed"] else words[1:]
    kind, name, *rest = text.split(maxsplit=2)
    about = "".join(rest)
    if about == "removed":
        return kind, name, about
    match kind:
        case "member":
            fields = dict(each.split("=", 1) for each in about.split() if "=" in each)
            return kind, name, {each for each in about.split() if "=" not in each}, fields
        case "target":
            return kind, name, set(held(about))
        case "offset":
            offset, *fields = about.split()
            told = dict(each.split("=", 1) for each in fields if "=" in each)
            return kind, name, int(offset), {"metadata": " ".join(each for each in fields if "=" not in each), **told}
        case "regex":
            return kind, name, set(about.removeprefix("=").split())
        case "current":
            state, epochs, assigned, revoking = _parts_of_current(about)
            return kind, name, state, epochs, held(assigned), held(revoking)
    raise AssertionError(text)


def _expected_classic(text: str) -> Shown:
    """``classic 10 range m1: foo 0-2; m2: bar 0``: the generation, the assignor, the members' assignments."""
    kind, generation, *rest = text.split(maxsplit=3)
    if generation == "removed":
        return kind, generation
    protocol, members = (rest[0], "".join(rest[1:])) if rest else ("", "")
    rows = [row.partition(":") for row in members.split(";") if row]
    return kind, int(generation), protocol, {name.strip(): set(held(share)) for name, _, share in rows}


def agrees(found: Shown, wanted: Shown) -> bool:
    """Whether a record is the expected one, in what the case tells about it."""
    return len(found) == len(wanted) and all(map(_agrees, found, wanted))


def _agrees(found: Any, wanted: Any) -> bool:
    if not isinstance(found, Mapping) or not isinstance(wanted, Mapping):
        return bool(found == wanted)
    told = {key: value for key, value in wanted.items() if value is not None}
    of_partitions = any(isinstance(key, tuple) for key in (*found, *wanted))
    return (not of_partitions or found.keys() == wanted.keys()) and told.items() <= dict(found).items()


def in_any_order(records: Iterable[Shown]) -> list[Shown]:
    """The records; those of one kind that follow each other are sorted, since their order is that of a hash map."""
    return [each for _, batch in groupby(records, _kind) for each in sorted(batch, key=_about)]


def _kind(record: Shown) -> str:
    return str(record[0])


def _about(record: Shown) -> str:
    return str(record[1])
