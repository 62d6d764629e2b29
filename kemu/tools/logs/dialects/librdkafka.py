"""librdkafka and its bindings, with ``debug=cgrp`` or more: ``rdkafka_cgrp.c``."""

import re

from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened

_STATE = " in {join-|}state <_:[\\w-]+>"
_JOIN_STATE = " in state <_:[\\w-]+> (join{-| }state <state:[\\w-]+>"


def _broker_error(fields: Fields, _: Opened) -> None:
    fields["error"] = re.sub(r"^(?:Broker|Local): |: explicit actions.*$|\.$", "", str(fields["error"]).strip())


def _answered(fields: Fields, opened: Opened) -> None:
    """A failed join states its error at the end."""
    error = str(fields.get("error", "")).strip()
    if error in ("", "(no error)", "Success"):
        fields.pop("error", None)
    else:
        fields["kind"] = "join-failed"
        _broker_error(fields, opened)
    if fields.get("members") == 0:
        del fields["members"]


def _synced(fields: Fields, opened: Opened) -> None:
    if str(fields.get("error", "")).strip() in ("Success", ""):
        fields.pop("error", None)
    else:
        fields["kind"] = "sync-failed"
        _broker_error(fields, opened)


def _partition(fields: Fields, _: Opened) -> None:
    fields["partitions"] = (f"{fields.pop('topics')}-{fields.pop('replica')}",)


DIALECT = Dialect(
    "librdkafka",
    "librdkafka",
    prefixes=(re.compile(r'Group "(?P<group>[^"]*)"'),),
    rows=table(
        r"""
client-state 0.9.2..1.5 | Group "<group>" changed join state <from_> -> <to>… (v<_:\d+>, state <_:[\w-]+>)
client-state 1.6.. | Group "<group>" changed join state <from_> -> <to>… (state <_:[\w-]+>)
client-state | Group "<group>" changed {join |}state <from_> -> <to>
heartbeat-sent | Heartbeat for group "<group>" generation id <generation>
heartbeat-refused read=broker_error | Group "<group>" heartbeat error response in state <_:[\w-]+> (join{-| }state
    <state:[\w-]+>, <n> partition(s) assigned): <error>
heartbeat-refused read=broker_error | HeartbeatRequest failed: <error>
heartbeat-refused 1.0..1.3 read=broker_error | Heartbeat failed: <error:_*[A-Z][A-Z_]+:[^\n]*>
coordinator-lost 1.6.. | Heartbeat failed due to coordinator (<node>) no longer available: <reason>
rebalance-seen 1.6.. | Group "<group>" {initiating rebalance|is rebalancing} (<protocol>) in state <_:[\w-]+> (join{-|
    }state <state:[\w-]+>) with <n> assigned partition(s){ (lost)}: <reason>
rebalance-seen 1.0..1.5 | Group "<group>" is rebalancing in state <_:[\w-]+> (join{-| }state <state:[\w-]+>)
    {with|without} assignment: <reason>
rebalance-seen 0.9..1.5 | Group "<group>" is rebalancing
client-internal | Group "<group>": rebalance (<_:\w+>) already in progress
rejoin-requested 1.6.. | Group "<group>": {Rejoining|Joining} group{ without an assignment| with <n> owned
    partition(s)}: <reason>
rejoin-requested 1.6.. | Group "<group>" (re)joining in join-state <state> with <n> assigned partition(s): <reason>
rejoin-requested 1.0..1.5 | Group "<group>" rejoining in join-state <state> {with|without} an assignment
rejoin-requested | Group "<group>" {re|}joining in join-state
join-sent halves | Group "<group>": join with <n> subscribed topic(s)
join-sent | Joining group "<group>" with <n> subscribed topic(s){ and member id "<member:[^"]*>"}
client-internal | Group "<group>": postponing join until
join-answered read=answered | JoinGroup response: GenerationId <generation>…, Protocol <assignor>…, LeaderId
    <leader:.*?>{ (me)}, my MemberId <member>, {<members> members in group|member metadata count <_:\d+>}: <error>
leader-of-group | {I am e|E}lected leader for group "<group>" with <members> member(s)
assignment-computing | Group "<group>": "<assignor>" assignor run for <members> member(s)
assignment-synced read=synced | SyncGroup response: <error> (<n> bytes of MemberState data)
sync-failed read=broker_error | Group "<group>": synchronization failed: <error>: rejoining
session-timeout | Consumer group session timed out… (in join-state <state>)… after <ms> ms without a successful
    response from the group coordinator
session-timeout | Group "<group>" session timed out… (in join-state <state>)… after <ms> ms without a successful
    response
poll-timeout 1.0.. | Application maximum poll interval (<_:\d+>ms) exceeded by <ms>ms
revoke-delegated | Group "<group>": delegating {incremental |}revoke of <n> partition(s) to application
assignment-notified | Group "<group>": delegating {incremental |}assign of <n> partition(s) to application
partitions-assigned | Group "<group>": new assignment of <n> partition(s)
partitions-assigned | Group "<group>": assigning <n> partition(s)
partitions-unassigning ..1.5 | Group "<group>": unassigning <n> partition(s)… (v<_:\d+>)
partitions-unassigning | Group "<group>": unassigning <n> partition(s)
partitions-unassigned | Group "<group>": unassign done in state <_:[\w-]+>
partitions-unassigning read=partition | Group "<group>" received op PARTITION_LEAVE in state <_:[\w-]+> (join{-| }state
    <_:[\w-]+>) for <topics:\S+> [<replica>]
fetch-begins read=partition | Group "<group>" received op PARTITION_JOIN in state <_:[\w-]+> (join{-| }state
    <_:[\w-]+>) for <topics:\S+> [<replica>]
client-internal | Group "<group>" received op <_:\w+> in state
client-internal | Group "<group>": {add|delete} <_:\S+> [<_:\d+>]
partitions-lost 1.6.. | Group "<group>": current assignment of <n> partition(s) lost: <reason>
member-id-changed | Group "<group>": updating member id "<from_:[^"]*>" -> "<member:[^"]*>"
coordinator-lookup | Group "<group>": querying for coordinator: <reason>
coordinator-lookup | Group "<group>": {no broker available for coordinator query|unable to send coordinator query}
coordinator-found | Group "<group>" coordinator is <node:\S+ id -?\d+>
coordinator-changed | Group "<group>" changing coordinator <_:-?\d+> -> <node:-?\d+>
coordinator-changed 0.9..0.11 | Group "<group>" management reassigned from broker <_> to <node:\S+>
coordinator-found 1.0.. | Group "<group>" coordinator set to broker <node:\S+>
coordinator-lost 1.0.. | Group "<group>" broker <node:\S+> is no longer coordinator
coordinator-lost 1.6.. | Group "<group>": marking the coordinator (<node:-?\d+>) dead: <reason>
coordinator-lost | Group "<group>" FindCoordinator response error: <reason>
member-leaves | Group "<group>": leave (in state <_:[\w-]+>)
member-leaves | {Share consumer: l|L}eaving group
client-internal | LeaveGroup response
generation-reset | Group "<group>": {resetting|clearing} {generation|group generation}
member-fenced | consumer fenced by newer instance
commit-failed read=broker_error | Offset commit (<reason>) failed for <n>/<_:\d+> partition(s) in join-state <state>:
    <error>
commit-failed read=broker_error | OffsetCommit failed for <_>: <error:(?:Broker|Local): [^\n]*>
commit-sent | Committing offsets for <n> partition(s)
commit-ok | OffsetCommit for <n> partition(s){ in join-state <state:[\w-]+>}: <reason>: returned: Success
- | OffsetCommit internal error: Local: No offset stored
commit-failed read=broker_error | OffsetCommit internal error: <error>
client-internal | OffsetCommit for <n> partition(s){ in join-state <state:[\w-]+>}: <reason>: returned: Local: No offset
    stored
commit-failed read=broker_error | OffsetCommit for <n> partition(s){ in join-state <state:[\w-]+>}: <reason>: returned:
    <error>
heartbeat-sent 2.4.. | ConsumerGroupHeartbeat of member id "<member:[^"]*>", group id "<group:[^"]*>", generation id
    <generation>
heartbeat-sent | ShareGroupHeartbeat of group id "<group:[^"]*>", member id "<member:[^"]*>", member epoch <generation>
client-internal | ShareGroupHeartbeat {version|subscribed topic|response received assigned_topic_partitions}
client-internal | {Consumer|Share}GroupHeartbeat response {error|received} in state
assignment-notified | ShareGroupHeartbeat response received target assignment
coordinator-lost | ShareGroupHeartbeat failed due to coordinator (<node>) {no longer available|loading in progress}
heartbeat-refused read=broker_error | ShareGroupHeartbeat failed due to: <error>: will rejoin the group
heartbeat-refused read=broker_error | {Consumer|Share}GroupHeartbeat failed: <error:(?:Broker|Local): [^\n]*>
partitions-lost-notice 2.4.. | Revoking assignment as lost an{d|} rejoining in join state
client-internal 2.4.. | {Sending new subscription|Expediting next heartbeat|Reconciliation in progress}
client-internal 2.4.. | Not reconciling new assignment: <reason>
client-internal 2.4.. | {Metadata available for <_> of next target assignment|No metadata to request, continuing}
client-internal 2.4.. | Metadata not found for the assigned topic id
heartbeat-ok 2.4.. | ConsumerGroupHeartbeat response received for member id "<member:[^"]*>" with epoch <generation>
assignment-notified 2.4.. | ConsumerGroupHeartbeat received target assignment
member-reconciling 2.4.. | Reconciliation starts with new target assignment
client-internal 2.4.. | {Acknowledging target assignment|Target assignment acked}
heartbeat-refused 2.4.. read=broker_error | ConsumerGroupHeartbeat failed due to: <error>: will rejoin the group
coordinator-lost 2.4.. | ConsumerGroupHeartbeat failed due to coordinator (<node>) {no longer available|loading in
    progress}
client-internal | consumer join: metadata for {wildcard |}subscription
client-internal | Group "<group>"
- logger=STATE|CONNECT|NODENAME|NODEID | GroupCoordinator{/<_:-?\d+>|}: <_>
client-internal | Library {pausing|resuming} <n> partition(s)
client-internal | {Pause|Resume} <_:\S+> [<_:\d+>]
client-internal | metadata for {wildcard |}subscription {is|only available}
client-internal | need to refresh metadata (<_> old)
client-internal | {SyncGroup|JoinGroup|Heartbeat} response: discarding outdated request
client-internal | {Adding|Removing} {share partition |}<_:\S+> [<_:\d+>] {back to pending list|to assignment|from}
client-internal | {Added|Removed|Served} <n> {removed |}partition(s)
client-internal | {Starting pending|Querying committed offset for pending} assigned partition
client-internal | Pending assignment partition <_:\S+> [<_:\d+>] can't fetch committed offset yet
client-internal | Fetch{ing|} committed offsets for <_> {pending |}partition(s)
client-internal | Current assignment of <n> partition(s) with
client-internal | Share assignment served: <n> partition(s)
client-internal | No current {share |}assignment to clear
client-internal | {Pausing|Resuming} fetchers for <n> assigned partition(s)
client-internal | Ignoring OffsetFetch response for
client-internal | Offset fetch error{ for <n> partition(s)}: <error>
client-internal | {Member "<member:[^"]*>" <_>|Topic <_> }with <n> {owned |}partition(s)
client-internal | Member "<member:[^"]*>" {<_> |}assigned <n> partition(s)
client-internal | Terminating group "<group:[^"]*>" in state
client-internal | Consumer group sub-system terminated
client-internal | Deferring "<_>" offset commit for <n> partition(s) in state
client-internal | Unsupported assignment strategy
client-internal | {Closing consumer|Consumer closed|Waiting for close events}
client-internal | Forcing unassign of <n> partition(s)
- | Broker does not support KIP-{62|345}
client-internal | new version barrier
client-internal | offset store terminating
client-internal | Partition <_:\S+> [<_:\d+>] changed fetch state
client-internal | partitions awaiting stop are now stopped
client-internal | Assignment dump
client-internal logger=DUMP | List with <n> partition(s)
client-internal 'logger=SEND|RECV|RETRY' | {Sent|Received|Retrying}
    {JoinGroup|SyncGroup|LeaveGroup|FindCoordinator|GroupCoordinator}{Request|Response}
- | Received HeartbeatResponse
client-internal 'logger=ASSIGN|DUMP' | {Assigned|Current assignment}: <_>
client-internal | Clearing {current |}assignment of
client-internal | assignment operations done in join-state
""",
        broker_error=_broker_error,
        answered=_answered,
        synced=_synced,
        partition=_partition,
    ),
)
