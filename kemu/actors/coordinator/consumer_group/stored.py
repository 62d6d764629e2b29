"""The records of groups with the consumer protocol in ``__consumer_offsets``, as bytes.

The key's version is the kind of the record. Keys have the group, then a member id or a pattern. Values are flexible
(KIP-482) and begin with version 0. A null value (tombstone) removes the key. Kafka's topic ids are 16 bytes; here a
topic id is a string, because an id that is not drawn is readable text. The layouts are otherwise Kafka's.

Source: ``ConsumerGroupMetadataKey/Value``, ``ConsumerGroupPartitionMetadataKey/Value``,
``ConsumerGroupMemberMetadataKey/Value``, ``ConsumerGroupTargetAssignmentMetadataKey/Value``,
``ConsumerGroupTargetAssignmentMemberKey/Value``, ``ConsumerGroupCurrentMemberAssignmentKey/Value``,
``ConsumerGroupRegularExpressionKey/Value`` of Kafka 4.0 and 4.3.
"""

from collections.abc import Callable, Iterable
from functools import partial

from kemu.actors.coordinator.consumer_group.state import (
    ClassicMetadata,
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
from kemu.actors.machine import Record
from kemu.protocol.consumer_group.reconciling import CurrentAssignment, Held
from kemu.protocol.consumer_group.shares import Share
from kemu.protocol.consumer_group.states import Partition, ReconcilingState, Topic
from kemu.protocol.frozen import evolve
from kemu.protocol.messages.group import JoinProtocol
from kemu.protocol.names import GroupId
from kemu.protocol.wire.binary import Reader, Writer
from kemu.protocol.wire.codec import UnsupportedVersion

GROUP_EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
"""The key versions."""
_NUMBER = _EPOCHS = 0
"""The tags of MetadataHash (since 4.1) and of AssignmentTimestamp and AssignmentEpochs (since 4.3)."""
KEY_VERSIONS = (GROUP_EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX)
_CLASSIC_TAG = 0
"""The tag of ``ClassicMemberMetadata`` in a member's value. Kafka 4.0 writes this tag for every member."""


def encoded(group: GroupId, record: GroupRecord, *, epochs: bool = False) -> Record:
    """The key and value of a record. ``epochs``: whether partitions have their epochs in the log (since 4.3)."""
    match record:
        case GroupEpochRecord(epoch=epoch, metadata_hash=metadata_hash):
            return _key(GROUP_EPOCH, group), _epoch(epoch, metadata_hash)
        case TopicsRecord(topics=topics):
            return _key(TOPICS, group), _topics(topics) if topics else None
        case MemberRecord(member_id=member_id, member=member):
            return _key(MEMBER, group, member_id), None if member is None else _member(member)
        case TargetEpochRecord(epoch=epoch, at_ms=at_ms):
            return _key(TARGET_EPOCH, group), _epoch(epoch, at_ms)
        case TargetRecord(member_id=member_id, share=share):
            return _key(TARGET, group, member_id), None if share is None else _target(share)
        case CurrentRecord(member_id=member_id, current=current):
            return _key(CURRENT, group, member_id), None if current is None else _current(current, epochs)
        case RegexRecord(regex=regex, topics=names):
            return _key(REGEX, group, regex), None if names is None else _resolved(record, names)


def decoded(key: bytes, value: bytes | None) -> tuple[GroupId, GroupRecord] | None:
    """The group and the record; None for a key of another kind.

    Raises:
        Malformed: bytes that end inside a field.
        UnsupportedVersion: an unknown version of a value.
    """
    source = Reader(key, "record key")
    kind = source.int16("version")
    if kind not in KEY_VERSIONS:
        return None
    group = source.string("group")
    about = "" if kind in (GROUP_EPOCH, TOPICS, TARGET_EPOCH) else source.string("member or pattern")
    row = None if value is None else _opened(kind, value)
    record: GroupRecord
    match kind:
        case 3:
            record = GroupEpochRecord(0) if row is None else GroupEpochRecord(*_read_epoch(row))
        case 4:
            record = TopicsRecord(() if row is None else _read_each(row, _read_topic))
        case 5:
            record = MemberRecord(about, None if row is None else _read_member(about, row))
        case 6:
            record = TargetEpochRecord(0) if row is None else TargetEpochRecord(*_read_epoch(row))
        case 7:
            record = TargetRecord(about, None if row is None else _read_share(row))
        case 8:
            record = CurrentRecord(about, None if row is None else _read_current(row))
        case _:
            record = RegexRecord(about, None) if row is None else _read_resolved(about, row)
    return group, record


# --- writing -------------------------------------------------------------------------------------------------------


def _key(kind: int, group: GroupId, about: str | None = None) -> bytes:
    out = Writer("record key")
    out.int16(kind)
    out.string(group)
    if about is not None:
        out.string(about)
    return out.data()


def _begun(what: str) -> Writer:
    out = Writer(what)
    out.int16(0)
    out.flexible = True
    return out


def _ended(out: Writer) -> bytes:
    out.end_struct()
    return out.data()


def _epoch(epoch: int, number: int) -> bytes | None:
    if not epoch:
        return None
    out = _begun("epoch")
    out.int32(epoch)
    out.end_struct({} if not number else {_NUMBER: _field(lambda field: field.int64(number))})
    return out.data()


def _field(write: Callable[[Writer], None]) -> Writer:
    """A tagged field."""
    out = Writer("tagged field")
    out.flexible = True
    write(out)
    return out


def _topics(topics: Iterable[Topic]) -> bytes:
    rows = tuple(topics)
    out = _begun("ConsumerGroupPartitionMetadataValue")
    out.count(len(rows))
    for topic in rows:
        out.string(topic.topic_id)
        out.string(topic.name)
        out.int32(topic.partitions)
        out.count(0)  # racks: Kafka 4.0 writes no partition metadata
        out.end_struct()
    return _ended(out)


def _member(member: ConsumerMember) -> bytes:
    out = _begun("ConsumerGroupMemberMetadataValue")
    out.string(member.instance_id)
    out.string(member.rack)
    out.string(member.client_id)
    out.string(member.client_host)
    _write_strings(out, member.topics)
    out.string(member.regex)
    out.int32(member.rebalance_timeout_ms)
    out.string(member.assignor or None)
    out.end_struct({_CLASSIC_TAG: _classic(member.classic)})
    return out.data()


def _classic(classic: ClassicMetadata | None) -> Writer:
    out = Writer("ClassicMemberMetadata")
    out.flexible = True
    out.unsigned_varint(classic is not None)  # a nullable struct
    if classic is None:
        return out
    out.int32(classic.session_timeout_ms)
    out.count(len(classic.protocols))
    for protocol in classic.protocols:
        out.string(protocol.name)
        out.blob(protocol.metadata)
        out.end_struct()
    out.end_struct()
    return out


def _target(share: Share) -> bytes:
    out = _begun("ConsumerGroupTargetAssignmentMemberValue")
    _write_share(out, share)
    return _ended(out)


def _current(current: CurrentAssignment, epochs: bool) -> bytes:
    out = _begun("ConsumerGroupCurrentMemberAssignmentValue")
    out.int32(current.epoch)
    out.int32(current.previous_epoch)
    out.int8(current.state)
    for held in (current.assigned, current.revoking):
        _write_share(out, share_of(held), held if epochs else None)
    return _ended(out)


def _resolved(record: RegexRecord, names: tuple[str, ...]) -> bytes:
    out = _begun("ConsumerGroupRegularExpressionValue")
    _write_strings(out, names)
    out.int64(record.version)
    out.int64(record.at_ms)
    return _ended(out)


def _write_strings(out: Writer, texts: tuple[str, ...]) -> None:
    out.count(len(texts))
    for text in texts:
        out.string(text)


def _write_share(out: Writer, share: Share, held: Held | None = None) -> None:
    """Write partitions, with the epochs of ``held``."""
    out.count(len(share))
    for topic, numbers in share.items():
        out.string(topic)
        out.int32_array(numbers)
        epochs = () if held is None else tuple([held[topic, number] for number in numbers])
        out.end_struct({_EPOCHS: _field(partial(Writer.int32_array, values=epochs))} if epochs else {})


# --- reading -------------------------------------------------------------------------------------------------------


def _opened(kind: int, value: bytes) -> Reader:
    source = Reader(value, f"value of a record of kind {kind}")
    version = source.int16("version")
    if version:
        raise UnsupportedVersion(f"value v{version} of a record of kind {kind}: supported is v0")
    source.flexible = True
    return source


def _read_each(source: Reader, read: Callable[[Reader], Topic]) -> tuple[Topic, ...]:
    return tuple([read(source) for _ in range(source.count("rows"))])


def _read_topic(source: Reader) -> Topic:
    topic_id, name, partitions = source.string("topic_id"), source.string("topic"), source.int32("partitions")
    source.count("racks")
    source.end_struct("topic")
    return Topic(name, topic_id, partitions)


def _read_member(member_id: str, source: Reader) -> ConsumerMember:
    member = ConsumerMember(
        member_id=member_id,
        instance_id=source.nullable_string("instance_id"),
        rack=source.nullable_string("rack"),
        client_id=source.string("client_id"),
        client_host=source.string("client_host"),
        topics=_read_strings(source),
        regex=source.nullable_string("regex") or "",
        rebalance_timeout_ms=source.int32("rebalance_timeout"),
        assignor=source.nullable_string("assignor") or "",
    )
    classic = source.end_struct("member").get(_CLASSIC_TAG)
    return member if classic is None else evolve(member, classic=_read_classic(classic))


def _read_classic(source: Reader) -> ClassicMetadata | None:
    if not source.unsigned_varint("is present"):
        return None
    timeout_ms, protocols = source.int32("session_timeout"), []
    for _ in range(source.count("protocols")):
        protocols.append(JoinProtocol(name=source.string("name"), metadata=source.blob("metadata")))
        source.end_struct("protocol")
    return ClassicMetadata(timeout_ms, tuple(protocols))


def _read_strings(source: Reader) -> tuple[str, ...]:
    return tuple([source.string("name") for _ in range(source.count("names"))])


def _read_resolved(regex: str, source: Reader) -> RegexRecord:
    names, version = _read_strings(source), source.int64("version")
    return RegexRecord(regex, names, source.int64("timestamp"), version)


def _read_epoch(source: Reader) -> tuple[int, int]:
    """The epoch, and the hash of the topics or the time of the target."""
    epoch = source.int32("epoch")
    number = source.end_struct("epoch").get(_NUMBER)
    return epoch, 0 if number is None else number.int64("hash or time")


def _read_share(source: Reader) -> Share:
    return share_of(_read_held(source, 0))


def _read_held(source: Reader, epoch: int) -> Held:
    """The partitions with their epochs; up to 4.2 the log has no such epochs, and ``epoch`` is the member's."""
    held: dict[Partition, int] = {}
    for _ in range(source.count("topics")):
        topic = source.string("topic_id")
        numbers = source.int32_array("partitions")
        stored = source.end_struct("topic").get(_EPOCHS)
        epochs = () if stored is None else stored.int32_array("epochs")
        if len(epochs) != len(numbers):
            epochs = (epoch,) * len(numbers)
        held.update(zip([(topic, number) for number in numbers], epochs, strict=True))
    return held


def _read_current(source: Reader) -> CurrentAssignment:
    epoch, previous, state = source.int32("epoch"), source.int32("previous_epoch"), source.int8("state")
    known = state in [each.value for each in ReconcilingState]
    return CurrentAssignment(
        ReconcilingState(state) if known else ReconcilingState.UNKNOWN,
        epoch,
        previous,
        _read_held(source, max(epoch, 0)),
        _read_held(source, max(epoch, 0)),
    )
