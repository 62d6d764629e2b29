"""Offsets at a coordinator: commit, fetch, delete, expiry, and the deletion of groups with their offsets.

A record is in the log before its change is acknowledged, visible to OffsetFetch, or removed.

Source: Kafka's OffsetMetadataManager; KIP-211 (expiry), KIP-229 (DeleteGroups), KIP-496 (OffsetDelete).
"""

from collections.abc import Mapping
from functools import partial

from kemu.actors.coordinator.groups import AnyGroup, Groups
from kemu.actors.coordinator.log import LEADER_ALONE, OffsetsPartition, OffsetsPartitionState, Write
from kemu.actors.coordinator.offsets import Kept
from kemu.actors.coordinator.range_requests import RangeRequests
from kemu.actors.coordinator.shared_state import GroupMachine
from kemu.actors.machine import Caller, Received, Record, caller_of
from kemu.protocol.consumer_group.states import Topic
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import define, evolve, frozen
from kemu.protocol.messages.group import (
    OFFSET_TOPIC_IDS_SINCE,
    DeleteGroups,
    DeleteGroupsReply,
    FetchedOffset,
    GroupOutcome,
    OffsetCommit,
    OffsetCommitReply,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetFetch,
    OffsetFetchReply,
    OffsetOutcome,
    OffsetToCommit,
)
from kemu.protocol.messages.records import StoredOffset, offset_record, offset_tombstone
from kemu.protocol.messages.refusals import no_offset, refusal
from kemu.protocol.names import GroupId, TopicPartition
from kemu.protocol.notes.groups import LateCommit, OffsetCommitted, OffsetRemoved, RequestRefused
from kemu.protocol.wire.compile import maker

_NONE = ErrorCode.NONE
_offset_outcome = maker(OffsetOutcome)
_offset_committed = maker(OffsetCommitted)
_stored_offset = maker(StoredOffset)
_EXPLICIT_RETENTION_UNTIL = 4
_DEFAULT_RETENTION = -1
_LONGS = 1 << 64


@frozen
class _Commit:
    """A commit whose write is in progress. ``refused``: the refused rows, by position in the request.

    ``late``: the coordinator read the request after the client had opened a newer connection.
    """

    group: AnyGroup
    caller: Caller
    request: OffsetCommit
    values: tuple[tuple[TopicPartition, StoredOffset], ...]
    refused: dict[int, ErrorCode]
    late: bool


@frozen
class _Removal:
    """Offsets whose tombstones are being written, and groups whose last offset is among them."""

    offsets: tuple[tuple[AnyGroup, TopicPartition], ...]
    why: str
    emptied: tuple[AnyGroup, ...] = ()
    reply: tuple[Caller, OffsetDeleteReply] | None = None


@define
class _Deletion:
    """A DeleteGroups request: answered when the tombstones of all partitions are written."""

    caller: Caller
    groups: tuple[GroupId, ...]
    outcomes: list[ErrorCode]
    running: int = 0


class OffsetRequests:
    """The part of a coordinator that stores committed offsets."""

    def __init__(self, machine: GroupMachine, groups: Groups) -> None:
        self.ranges = RangeRequests(machine, groups)
        self._machine = machine
        self._groups = groups

    # --- commit ------------------------------------------------------------------------------------------------

    def known(self, event: Received, request: OffsetCommit) -> tuple[OffsetCommit, dict[int, ErrorCode]]:
        """The request with the names of its topics, and the refused rows of unknown partitions, by position.

        The coordinator does not see refused rows, and no request without other rows
        (``KafkaApis.handleOffsetCommitRequest`` 4.0 to 4.3). A broker that has not told its topics refuses no name.
        """
        topics, rows = self._machine.topics, request.offsets
        refused: dict[int, ErrorCode] = {}
        if event.version >= OFFSET_TOPIC_IDS_SINCE:
            names = self._machine.existing_names
            refused = {n: ErrorCode.UNKNOWN_TOPIC_ID for n, row in enumerate(rows) if row.topic_id not in names}
            named = [evolve(row, topic=names.get(row.topic_id, "")) for row in rows]  # type: ignore[misc]
            request = evolve(request, offsets=tuple(named))  # type: ignore[misc]
        if topics is not None:
            for place, row in enumerate(request.offsets):
                topic = topics.get(row.topic)
                if topic is None or not 0 <= row.partition < topic.partitions:
                    refused.setdefault(place, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return request, refused

    def commit(self, event: Received, request: OffsetCommit, refused: dict[int, ErrorCode]) -> None:
        """Store the offsets of OffsetCommit, except the refused rows, from a member or from outside group management.

        Some rows are not refused.
        """
        group = self._groups.by_name.get(request.group)
        if group is None and request.generation >= 0:
            since = self._machine.rules.commit_group_id_not_found_since
            error = ErrorCode.ILLEGAL_GENERATION
            if since is not None and event.version >= since:
                error = ErrorCode.GROUP_ID_NOT_FOUND
            self.answer_commit(event, request, refused, error)
            return
        if group is None:
            group = self._groups.open(request.group)
        most = self._machine.config.offset_metadata_max_bytes
        known = dict(refused)
        too_large = [n for n, row in enumerate(request.offsets) if len(row.metadata or "") > most and n not in refused]
        refused |= dict.fromkeys(too_large, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        partitions = [(row.topic, row.partition) for n, row in enumerate(request.offsets) if n not in refused]
        error = group.why_no_commit(
            request.generation, request.member_id, request.instance_id, event.version, partitions
        )
        if error is not _NONE:
            self.answer_commit(event, request, known, error)
            return
        group.committed_by(request.member_id)
        expires_at_ms = None
        if event.version <= _EXPLICIT_RETENTION_UNTIL and request.retention_time_ms != _DEFAULT_RETENTION:
            expires_at_ms = _as_long(self._machine.now_ms + request.retention_time_ms)
        self._write_commit(event, request, refused, group, expires_at_ms)

    def _write_commit(
        self,
        event: Received,
        request: OffsetCommit,
        refused: dict[int, ErrorCode],
        group: AnyGroup,
        expires_at_ms: int | None,
    ) -> None:
        now_ms, rules = self._machine.now_ms, self._machine.rules
        has_ids = rules.finds_topic_ids or rules.keeps_topic_ids
        values = [
            (
                (row.topic, row.partition),
                _stored_offset(
                    offset=row.offset,
                    leader_epoch=row.leader_epoch,
                    metadata=row.metadata or "",
                    commit_timestamp_ms=now_ms,
                    expire_timestamp_ms=expires_at_ms,
                    topic_id=self._topic_id(row) if has_ids else "",
                ),
            )
            for place, row in enumerate(request.offsets)
            if place not in refused
        ]
        late = self._machine.has_left(event)
        commit = _Commit(group, caller_of(event), request, tuple(values), refused, late)
        if not values:
            self.answer_commit(commit.caller, request, refused, _NONE)
            return
        records: list[Record] = [offset_record(group.name, topic, number, value) for (topic, number), value in values]
        if request.generation < 0:  # a tool's commit ends the partition's ranges (KIP-333)
            records += self.ranges.tombstones(group, [partition for partition, _ in values])
        group.offsets.begin([partition for partition, _ in values])
        abandoned = partial(self._commit_written, commit, ErrorCode.NOT_COORDINATOR, -1)
        write = Write(partial(self._commit_written, commit), abandoned, partial(self._commit_late, commit))
        self._machine.writes.begin(group.partition, tuple(records), write)

    def _topic_id(self, row: OffsetToCommit) -> str:
        """The topic id that the offset keeps."""
        rules, topics = self._machine.rules, self._machine.topics or {}
        if rules.finds_topic_ids and row.topic in topics:
            return topics[row.topic].topic_id
        return row.topic_id if rules.keeps_topic_ids else ""

    def _commit_written(self, commit: _Commit, error: ErrorCode, base_offset: int) -> None:
        """Store the offsets after their write, report the commit, and answer."""
        if error is _NONE:
            self._keep(commit, base_offset)
        else:
            commit.group.offsets.end([partition for partition, _ in commit.values])
        error = self._machine.rules.offset_append_errors.get(error, error)
        self.answer_commit(commit.caller, commit.request, commit.refused, error)

    def _commit_late(self, commit: _Commit, error: ErrorCode, base_offset: int) -> None:
        """React to a write that timed out, or ended after its timeout; offsets in the log are valid."""
        if error is _NONE:
            self._keep(commit, base_offset)
        else:
            error = self._machine.rules.offset_append_errors.get(error, error)
            self.answer_commit(commit.caller, commit.request, commit.refused, error)

    def _keep(self, commit: _Commit, base_offset: int) -> None:
        """Store offsets that are in the log."""
        group, request = commit.group, commit.request
        group.offsets.end([partition for partition, _ in commit.values])
        if commit.late:
            last = base_offset + len(commit.values) - 1
            self._machine.note(
                LateCommit(
                    group=group.name, member_id=request.member_id, first_position=base_offset, last_position=last
                )
            )
        for position, (partition, value) in enumerate(commit.values, base_offset):
            kept = Kept(value, position, request.generation, request.member_id)
            if group.offsets.commit(partition, kept):
                self._note_committed(group.name, partition, kept)
        if request.generation < 0 and group.second.by_partition:
            self.ranges.removed(group, [at for at, _ in commit.values], base_offset, "an operator chose an offset")

    def answer_commit(
        self, caller: Caller | Received, request: OffsetCommit, refused: dict[int, ErrorCode], error: ErrorCode
    ) -> None:
        """Answer with this outcome of all rows but the refused rows."""
        rows = [
            _offset_outcome(
                topic=row.topic, topic_id=row.topic_id, partition=row.partition, error=refused.get(place, error)
            )
            for place, row in enumerate(request.offsets)
        ]
        for found in dict.fromkeys([row.error for row in rows if row.error is not _NONE]):
            self._machine.note(
                RequestRefused(group=request.group, api="OffsetCommit", member_id=request.member_id, error=found)
            )
        self._machine.reply(caller, OffsetCommitReply(outcomes=tuple(rows)))

    # --- fetch -------------------------------------------------------------------------------------------------

    def fetch(self, event: Received, request: OffsetFetch) -> None:
        """Answer OffsetFetch with the group's offsets; -1 for an unknown offset.

        Only a group of the consumer protocol checks the member.

        Depending on the rules, a request for stable offsets waits for all writes in progress, even of other members.
        """
        if request.require_stable and self._machine.rules.waits_for_watermark:
            partition = self._groups.partition_of(request.group)
            self._machine.writes.behind(partition, partial(self._fetch_stable, event, request))
        else:
            self._answer_fetch(event, request)

    def _fetch_stable(self, event: Received, request: OffsetFetch, error: ErrorCode) -> None:
        if error is _NONE:
            self._answer_fetch(event, request)
        else:  # older consumers know no other error (handleOffsetFetchException)
            self._refuse(event, request, ErrorCode.NOT_COORDINATOR)

    def _answer_fetch(self, event: Received, request: OffsetFetch) -> None:
        group = self._groups.seen(request.group) or self._groups.by_name.get(request.group)
        error = _NONE if group is None else group.why_no_fetch(request.member_id, request.member_epoch)
        if error is not _NONE:
            self._refuse(event, request, error)
            return
        by_id = event.version >= OFFSET_TOPIC_IDS_SINCE
        names: Mapping[str, str] = self._machine.existing_names if by_id else {}
        unknown: list[FetchedOffset] = []
        if request.topics is None:
            wanted = [] if group is None else list(group.offsets.committed)
            if by_id:  # an offset of a topic without an id is not shown
                wanted = [partition for partition in wanted if partition[0] in (self._machine.topics or {})]
        else:
            wanted = [
                (names[row.topic_id] if by_id else row.topic, partition)
                for row in request.topics
                for partition in row.partitions
                if not by_id or row.topic_id in names
            ]
            unknown = [
                no_offset("", partition, ErrorCode.UNKNOWN_TOPIC_ID, row.topic_id)
                for row in request.topics
                for partition in row.partitions
                if by_id and row.topic_id not in names
            ]
        ids = {name: topic_id for topic_id, name in names.items()}
        by_topic_id = ids if request.topics is not None else {}
        rows = [self._fetched(group, at, request.require_stable, by_topic_id.get(at[0], "")) for at in wanted]
        if by_id:
            rows = [evolve(row, topic_id=ids[row.topic]) for row in rows] + unknown  # type: ignore[misc]
        for error in dict.fromkeys([row.error for row in rows if row.error is not _NONE]):
            self._machine.note(RequestRefused(group=request.group, api="OffsetFetch", member_id="", error=error))
        self._machine.reply(event, OffsetFetchReply(offsets=tuple(rows)))

    def _fetched(
        self, group: "AnyGroup | None", partition: TopicPartition, require_stable: bool, topic_id: str
    ) -> FetchedOffset:
        """The committed offset of a partition; -1 also for an offset of an earlier topic of this name.

        ``topic_id``: empty in a request by name, or for all offsets.
        """
        topic, number = partition
        if group is None:
            return no_offset(topic, number)
        offsets = group.offsets
        if require_stable and self._machine.rules.unreplicated_is_unstable and partition in offsets.being_written:
            return no_offset(topic, number, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        kept = offsets.committed.get(partition)
        if kept is None or (topic_id and kept.value.topic_id not in ("", topic_id)):
            return no_offset(topic, number)
        value = kept.value
        return FetchedOffset(
            topic=topic,
            partition=number,
            offset=value.offset,
            leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            error=_NONE,
        )

    # --- delete and expire -------------------------------------------------------------------------------------

    def delete_offsets(self, event: Received, request: OffsetDelete) -> None:
        """Remove the offsets of OffsetDelete, if no member subscribes to their topics."""
        group = self._groups.by_name.get(request.group)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.why_no_offset_delete()
        if group is None or error is not _NONE:
            self._refuse(event, request, error)
            return
        outcomes, deleted = [], []
        for row in request.topics:
            consumed = group.consumes(row.topic)
            for partition in row.partitions:
                error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if consumed else _NONE
                outcomes.append(OffsetOutcome(topic=row.topic, partition=partition, error=error))
                if not consumed and (row.topic, partition) in group.offsets.committed:
                    deleted.append((row.topic, partition))
        if any(outcome.error is not _NONE for outcome in outcomes):
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            self._machine.note(RequestRefused(group=request.group, api="OffsetDelete", member_id="", error=error))
        reply = OffsetDeleteReply(error=_NONE, outcomes=tuple(outcomes))
        if not deleted:
            self._machine.reply(event, reply)
            return
        records: list[Record] = [offset_tombstone(group.name, topic, number) for topic, number in deleted]
        records += self.ranges.tombstones(group, deleted)
        removed = tuple([(group, partition) for partition in deleted])
        answer = (caller_of(event), reply)
        self._write_removal(group.partition, tuple(records), _Removal(removed, "deleted", reply=answer))

    def topics_changed(self, before: Mapping[str, Topic]) -> None:
        """Remove the offsets of deleted topics.

        Source: ``OffsetMetadataManager.onPartitionsDeleted`` 4.0, ``onTopicsDeleted`` 4.3.
        """
        now = self._machine.topics or {}
        deleted = [n for n, topic in before.items() if n not in now or now[n].topic_id != topic.topic_id]
        for partition in self._groups.partitions.values():
            if not deleted or partition.state is not OffsetsPartitionState.ACTIVE:
                continue
            removed: list[tuple[AnyGroup, TopicPartition]] = []
            records: list[Record] = []
            for group in self._groups.of(partition):
                ended = [at for at in group.offsets.everything() if at[0] in deleted and self._ends(group, at, before)]
                removed.extend([(group, at) for at in ended])
                records.extend([offset_tombstone(group.name, *at) for at in ended])
                records.extend(self.ranges.tombstones(group, ended))
            if records:
                self._write_removal(partition, tuple(records), _Removal(tuple(removed), "the topic was deleted"))

    def _ends(self, group: AnyGroup, partition: TopicPartition, before: Mapping[str, Topic]) -> bool:
        """Whether the partition's offset ends with its topic. An offset being written is an offset of this topic."""
        kept = group.offsets.committed.get(partition)
        if kept is None or not self._machine.rules.finds_topic_ids:
            return True
        return kept.value.topic_id in ("", before[partition[0]].topic_id)

    def expire(self) -> None:
        """Remove offsets after their retention, and empty groups without offsets."""
        for partition in self._groups.partitions.values():
            if partition.state is not OffsetsPartitionState.ACTIVE:
                continue
            removed: list[tuple[AnyGroup, TopicPartition]] = []
            emptied: list[AnyGroup] = []
            records: list[Record] = []
            for group in self._groups.of(partition):
                expired = group.expired_offsets()
                removed.extend([(group, tp) for tp in expired])
                records.extend([offset_tombstone(group.name, topic, number) for topic, number in expired])
                records.extend(self.ranges.tombstones(group, expired))
                if group.is_empty and self._has_nothing_but(group, len(expired)):
                    emptied.append(group)
                    records.extend(group.tombstones())
                    self._groups.end(group, "expired with its last offset")
            if records:
                self._write_removal(partition, tuple(records), _Removal(tuple(removed), "expired", tuple(emptied)))
            else:
                for group in emptied:
                    self._groups.forget(group)

    def _has_nothing_but(self, group: AnyGroup, expired: int) -> bool:
        offsets = group.offsets
        return len(offsets.committed) == expired and not offsets.being_written

    def _write_removal(self, partition: OffsetsPartition, records: tuple[Record, ...], removal: _Removal) -> None:
        """Write tombstones. No coordinator waits for replicas, and no missing replica makes the write fail.

        Source: ``GroupMetadataManager.cleanupGroupMetadata`` 3.4: ``requiredAcks`` 0. There the coordinator forgets the
        offsets at once; kemu when all in-sync replicas have the tombstones.
        """
        abandoned = partial(self._removal_failed, removal, ErrorCode.NOT_COORDINATOR)
        write = Write(partial(self._removed, removal), abandoned, partial(self._removed_late, removal))
        self._machine.writes.begin(partition, records, write, LEADER_ALONE)

    def _removed(self, removal: _Removal, error: ErrorCode, base_offset: int) -> None:
        """Remove the offsets after the write of their tombstones, and the groups without any other offset."""
        if error is not _NONE:
            for group in removal.emptied:
                self._groups.restore(group)
            self._removal_failed(removal, error)
            return
        self._remove(removal, base_offset)
        if removal.reply is not None:
            self._machine.reply(*removal.reply)

    def _removed_late(self, removal: _Removal, error: ErrorCode, base_offset: int) -> None:
        """React to the end of a late write of tombstones. Tombstones in the log are valid even after the timeout."""
        if error is _NONE:
            self._remove(removal, base_offset)
        else:
            self._removal_failed(removal, error)

    def _remove(self, removal: _Removal, base_offset: int) -> None:
        for group, partition in removal.offsets:
            if group.offsets.remove(partition, base_offset):
                self._note_removed(group, partition, removal.why)
            self.ranges.removed(group, [partition], base_offset, removal.why)
        for group in removal.emptied:
            self._groups.forget(group)

    def _removal_failed(self, removal: _Removal, error: ErrorCode) -> None:
        """Answer with the error: the tombstones are not in the log, as far as the coordinator knows."""
        if removal.reply is None:
            return
        name = removal.offsets[0][0].name
        error = self._machine.rules.offset_append_errors.get(error, error)
        reply = OffsetDeleteReply(error=error)
        self._machine.refuse(removal.reply[0], reply, group=name, api="OffsetDelete", member_id="", error=error)

    # --- groups ------------------------------------------------------------------------------------------------

    def delete_groups(self, event: Received, request: DeleteGroups) -> None:
        """Remove the empty groups of DeleteGroups with all their offsets."""
        why_not = [self._groups.why_not(name) for name in request.groups]
        job = _Deletion(caller_of(event), request.groups, why_not)
        deleted: dict[int, tuple[list[AnyGroup], list[int]]] = {}
        for place, name in enumerate(request.groups):
            group = self._groups.by_name.get(name)
            if why_not[place] is _NONE:
                why_not[place] = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.why_no_delete()
            if why_not[place] is _NONE and group is not None:
                self._groups.end(group, "deleted")
                groups, places = deleted.setdefault(group.partition.number, ([], []))
                groups.append(group)
                places.append(place)
        for number, (groups, places) in deleted.items():
            records = [record for group in groups for record in self._tombstones(group)]
            if records:
                job.running += 1
                abandoned = partial(self._settle, job, places, ErrorCode.NOT_COORDINATOR)
                late = partial(self._deleted_late, job, groups, places)
                write = Write(partial(self._groups_deleted, job, groups, places), abandoned, late)
                self._machine.writes.begin(self._groups.partitions[number], tuple(records), write)
            else:
                for group in groups:
                    self._groups.forget(group)
        if not job.running:
            self._answer_delete(job)

    def _tombstones(self, group: AnyGroup) -> list[Record]:
        records: list[Record] = [offset_tombstone(group.name, *partition) for partition in group.offsets.everything()]
        records += self.ranges.tombstones(group, group.second.by_partition)
        return records + group.tombstones()

    def _groups_deleted(
        self, job: _Deletion, groups: list[AnyGroup], places: list[int], error: ErrorCode, _base_offset: int
    ) -> None:
        """Record the outcome of the write of the groups' tombstones; after a failure restore the groups."""
        error = self._machine.rules.offset_append_errors.get(error, error)
        for group in groups:
            if error is _NONE:
                self._groups.forget(group)
            else:
                self._groups.restore(group)
        self._settle(job, places, error)

    def _deleted_late(
        self, job: _Deletion, groups: list[AnyGroup], places: list[int], error: ErrorCode, _base_offset: int
    ) -> None:
        """React to the end of a late write of tombstones. Tombstones in the log are valid even after the timeout."""
        if error is _NONE:
            for group in groups:
                self._groups.forget(group)
        else:
            self._settle(job, places, self._machine.rules.offset_append_errors.get(error, error))

    def _settle(self, job: _Deletion, places: list[int], error: ErrorCode) -> None:
        """Record the outcome for one partition's groups of a DeleteGroups request; the last outcome answers the
        request.
        """
        for place in places:
            job.outcomes[place] = error
        job.running -= 1
        if not job.running:
            self._answer_delete(job)

    def _answer_delete(self, job: _Deletion) -> None:
        for name, error in zip(job.groups, job.outcomes, strict=True):
            if error is not _NONE:
                self._machine.note(RequestRefused(group=name, api="DeleteGroups", member_id="", error=error))
        rows = [GroupOutcome(group=n, error=e) for n, e in zip(job.groups, job.outcomes, strict=True)]
        self._machine.reply(job.caller, DeleteGroupsReply(outcomes=tuple(rows)))

    # --- helpers -----------------------------------------------------------------------------------------------

    def _refuse(self, event: Received, request: OffsetDelete | OffsetFetch, error: ErrorCode) -> None:
        self._machine.refuse(
            event,
            refusal(request, error, event.version),
            group=request.group,
            api=type(request).__name__,
            member_id=getattr(request, "member_id", None) or "",
            error=error,
        )

    def _note_committed(self, group: GroupId, partition: TopicPartition, kept: Kept) -> None:
        topic, number = partition
        self._machine.note(
            _offset_committed(
                group=group,
                topic=topic,
                partition=number,
                offset=kept.value.offset,
                generation=kept.generation,
                member_id=kept.member_id,
                position=kept.position,
            )
        )

    def _note_removed(self, group: AnyGroup, partition: TopicPartition, why: str) -> None:
        self._machine.note(OffsetRemoved(group=group.name, topic=partition[0], partition=partition[1], why=why))


def _as_long(number: int) -> int:
    """A sum of two longs as Java computes it. Source: ``KafkaApis.handleOffsetCommitRequest`` (3.4) checks no bound."""
    return (number + _LONGS // 2) % _LONGS - _LONGS // 2
