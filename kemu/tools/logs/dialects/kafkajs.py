"""KafkaJS: JSON records with groupId, memberId and more; never a generation at INFO."""

import re

from kemu.tools.logs.wordings import values
from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened

_KEYS = {
    "groupId": "group",
    "memberId": "member",
    "leaderId": "leader",
    "generationId": "generation",
    "groupProtocol": "assignor",
    "error": "error",
    "duration": "ms",
}


def _keys(fields: Fields, opened: Opened) -> None:
    for key, name in _KEYS.items():
        value = opened.fields.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool):
            fields.setdefault(name, value)
    given = opened.fields.get("memberAssignment")
    if isinstance(given, dict):
        fields["partitions"] = values.partitions_of_object(given)


def _rejoin(fields: Fields, opened: Opened) -> None:
    _keys(fields, opened)
    fields.pop("error", None)


def _response(fields: Fields, opened: Opened) -> None:
    _keys(fields, opened)
    if "error" not in fields:
        fields["kind"] = "client-internal"


DIALECT = Dialect(
    "kafkajs",
    "KafkaJS",
    marks=re.compile(r"kafkajs"),
    rows=table(
        r"""
consumer-lifecycle read=keys | [Consumer] <state:Starting|Stopped>
assignment-synced read=keys | [ConsumerGroup] Consumer has joined the group
leader-of-group read=keys | [ConsumerGroup] Chosen as group leader
assignment-computed read=keys | [ConsumerGroup] Group assignment
assignment-notified read=keys | [ConsumerGroup] Received assignment
rejoin-requested reason=REBALANCE_IN_PROGRESS read=rejoin | [Runner] The group is rebalancing, re-joining
rejoin-requested reason=UNKNOWN_MEMBER_ID read=rejoin | [{Runner|Consumer}] The coordinator is not aware of this
    member, re-joining the group
heartbeat-refused read=response | [Connection] Response Heartbeat(
join-failed read=response | [Connection] Response JoinGroup(
sync-failed read=response | [Connection] Response SyncGroup(
commit-failed read=response | [Connection] Response OffsetCommit(
coordinator-lost read=response | [Connection] Response {FindCoordinator|GroupCoordinator}(
heartbeat-sent read=keys | [Connection] Request Heartbeat(
join-sent read=keys | [Connection] Request JoinGroup(
sync-sent read=keys | [Connection] Request SyncGroup(
commit-sent read=keys | [Connection] Request OffsetCommit(
member-leaves read=keys | [Connection] Request LeaveGroup(
coordinator-lookup read=keys | [Connection] Request {FindCoordinator|GroupCoordinator}(
client-internal read=keys | [Connection] {Request|Response} {LeaveGroup|OffsetFetch}(
consumer-crash read=keys | [Consumer] Crash: <error>
consumer-restart read=keys | [Consumer] Restarting the consumer in <ms>ms
coordinator-found read=keys | [Cluster] Found group coordinator
client-internal read=rejoin | [Cluster] {Tried to find group coordinator|Group coordinator not available}
client-internal read=rejoin | [Consumer] {Caught error when|Failed to execute listener|consumer not running}
client-internal read=rejoin | [ConsumerGroup] <_>
client-internal read=rejoin | [Runner] <_>
""",
        keys=_keys,
        rejoin=_rejoin,
        response=_response,
    ),
)
