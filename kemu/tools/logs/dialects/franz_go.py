"""franz-go: ``pkg/kgo``; a message with keys and values, which the application's logger prints in its own way."""

import re
from collections.abc import Mapping

from kemu.tools.kafka_files.input_files import LARGEST_ID, whole_number
from kemu.tools.logs.wordings import values
from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened

_KEYS = {
    "group": "group",
    "member_id": "member",
    "generation": "generation",
    "instance_id": "instance",
    "balance_protocol": "assignor",
    "protocol": "assignor",
    "err": "error",
    "why": "reason",
    "is848": "",
}
_BASIC = re.compile(r"(?:^|[;,] )([a-z_0-9]+): (.*?)(?=, [a-z_0-9]+: |$)")
_LISTS = ("assigned", "added", "revoking", "lost", "now_assigned")


def _keys(fields: Fields, opened: Opened) -> None:
    """Values of the record's own keys, or of ``; key: value, key: value`` of the basic logger."""
    stated: Mapping[str, object] = opened.fields
    if not stated:
        _, _, tail = opened.text.partition("; ")
        stated = dict(_BASIC.findall(tail))
    for key, name in _KEYS.items():
        value = stated.get(key)
        if (
            name
            and isinstance(value, str | int)
            and not isinstance(value, bool)
            and str(value) not in ("", "<nil>", "null")
        ):
            fields[name] = whole_number(str(value), LARGEST_ID) if name == "generation" else str(value)
    for key in _LISTS:
        names = _partitions(stated.get(key))
        if names is not None and fields.get("_list") == key:
            fields["partitions"] = names
        elif names is not None and key == "added":
            fields["added"] = names
    fields.pop("_list", None)


def _partitions(value: object) -> tuple[str, ...] | None:
    """``{t: [0 1]}`` or ``t[0 1], u[2]`` as a text, or an object of lists."""
    if isinstance(value, dict):
        return values.partitions_of_object(value)
    if isinstance(value, str):
        found = re.findall(r"(?<![\w.-])([\w.-]+)(?::\s?)?\[([\d\s,]*)\]", value)
        return tuple(f"{topic}-{number}" for topic, numbers in found for number in re.findall(r"\d+", numbers))
    return None


def _reason_is_error(fields: Fields, opened: Opened) -> None:
    _keys(fields, opened)
    if fields.get("error") == "{}":
        del fields["error"]


DIALECT = Dialect(
    "franz-go",
    "franz-go",
    rows=table(
        r"""
consumer-lifecycle state=begins | beginning to manage the group lifecycle
consumer-lifecycle state=begins | beginning to manage the next-gen group lifecycle
client-internal | falling back to standard consumer group management<_>
member-fenced error=UNRELEASED_INSTANCE_ID | UnreleasedInstanceID after <_>
join-failed | consumer group initial heartbeat hit retryable error<_>
assignment-synced _list=now_assigned | consumer group initial heartbeat received assignment
heartbeat-refused | consumer group heartbeat error, abandoning assignment<_>
assignment-notified _list=now_assigned | consumer group heartbeat detected an updated assignment<_>
member-leaves | leaving next-gen group
client-internal | storing {member and |}epoch
client-internal | ignoring consumer group heartbeat response<_>
client-internal | balance group member
client-internal | balance failed
client-internal | group members indicated interest in topics<_>
client-internal | unable to log {information about group member interests|balance plan}<_>
sync-failed | sync assignment parse failed
client-internal | {member|consumer} was assigned topic that we did not ask for<_>
client-internal | broker returned {topic|partition} in OffsetFetch response<_>
commit-failed error=STALE_MEMBER_EPOCH | offset commit: stale member epoch<_>
client-internal | offset commit got stale member epoch<_>
commit-failed | received an OffsetCommitResponse after our group session has ended<_>
commit-failed | in default commit: unable to commit offsets for topic partition
client-internal | default commit canceled
client-internal | skipping autocommit<_>
client-internal | grabbed join/sync mu<_>
client-internal | not grabbing mu<_>
client-internal | left CommitOffsets{Sync|}
client-internal | waiting for prior commit to finish<_>
client-internal | issuing commit
client-internal | unblocking commits from join&sync
client-internal | consumer regular expressions evaluated<_>
client-internal | assign requires loading offsets
client-internal | offsets to load broker
join-sent | joining group
member-id-issued | join returned MemberIDRequired, rejoining with response's MemberID
rejoin-requested error=UNKNOWN_MEMBER_ID | join returned UnknownMemberID, rejoining without a member id
join-answered | joined, balancing group
join-answered | joined as leader but unable to balance group<_>
join-answered | joined
assignment-computing | balancing group as leader
assignment-computed | balanced
client-internal | unable to balance
sync-sent | syncing
assignment-synced _list=assigned | synced
sync-failed error=REBALANCE_IN_PROGRESS | sync failed with RebalanceInProgress, rejoining
sync-failed | sync group failed
join-failed | join group failed
partitions-assigned _list=added | new group session begun
session-begins | beginning heartbeat loop
heartbeat-refused | heartbeat errored again while waiting for user revoke to finish
heartbeat-refused | heartbeat errored
heartbeat-refused | heartbeat hit retryable error<_>
heartbeat-sent | heartbeating
heartbeat-ok | heartbeat complete
assignment-notified | heartbeat saw a change in group status<_>
partitions-revoked _list=revoking | eager consumer revoking prior assigned partitions
partitions-revoked _list=revoking | cooperative consumer revoking prior assigned partitions<_>
partitions-revoked ..1.18 _list=lost | cooperative consumer calling onRevoke
partitions-revoked 1.19.. _list=lost | {cooperative |}{consumer |}calling onRevoke at the end of a session<_>
session-ends 1.2.. | forced rejoin quitting heartbeat loop
error-to-application ..1.18 | join and sync loop errored
error-to-application 1.19.. | group manage loop errored
member-leaves | leaving group
client-internal | tried to leave group but we have no member ID yet<_>
commit-failed | default commit failed
commit-failed | unable to commit offset for topic partition
commit-failed | offset commit returned a fatal group member error<_>
client-internal | beginning autocommit loop
client-internal | autocommitting
client-internal | immediate metadata update triggered
client-internal | assigning partitions
client-internal | fetching offsets
client-internal | fetch offsets<_>
client-internal | group protocol downgraded from cooperative to eager<_>
client-internal | in CommitOffsets<_>
client-internal | blocking commits from join&sync
client-internal | updated {un|}committed
client-internal | entering OnPartitions<_>
client-internal | injecting fake fetch with an error
client-internal | {wrote|read}
    {JoinGroup|SyncGroup|Heartbeat|LeaveGroup|OffsetCommit|OffsetFetch|FindCoordinator|ConsumerGroupHeartbeat} v<_:\d+>
""",
        read=_reason_is_error,
        whole=True,
    ),
)
