"""kafka-python: loggers ``kafka.coordinator``, ``kafka.coordinator.consumer`` and ``kafka.cluster``."""

import re

from kemu.tools.logs.wordings.wordings import Dialect, table

REBALANCING = {"error": "REBALANCE_IN_PROGRESS"}
UNKNOWN_MEMBER = {"error": "UNKNOWN_MEMBER_ID"}
OLD_GENERATION = {"error": "ILLEGAL_GENERATION"}
NOT_COORDINATOR = {"error": "NOT_COORDINATOR"}

DIALECT = Dialect(
    "kafka-python",
    "kafka-python",
    marks=re.compile(r"^kafka\.(?:coordinator|cluster|consumer)"),
    rows=table(
        r"""
join-sent 1.0.. 'logger=kafka|^$' | (Re-)joining group <group>
join-answered 1.0..1.3 | Joined group '<group>' (generation <generation>) with member_id <member:[^,\n]+>
assignment-synced 2.2.. | Successfully joined group <group:\S+> \<Generation <generation> (member_id: <member>,
    protocol: <assignor:[^)]*>)
assignment-synced 1.1..2.1 logger=kafka | Successfully joined group <group:\S+> with generation <generation>
assignment-computing | Elected group leader -- performing partition assignments using <assignor:\S+>
client-internal | Updated partition assignment: <partitions>
partitions-assigned | Setting newly assigned partitions <partitions:(?:\{|set|\[|\().*?> for group <group>
partitions-revoked | Revoking previously assigned partitions <partitions:(?:\{|set|\[|\().*?> for group <group:\S+>{ on
    close}
heartbeat-refused 1.1..2.3 error=REBALANCE_IN_PROGRESS | Heartbeat failed for group <group> because it is rebalancing
heartbeat-refused 3.0.. error=REBALANCE_IN_PROGRESS | Group <group> is rebalancing; rejoining
heartbeat-refused 1.0.. error=UNKNOWN_MEMBER_ID | Heartbeat: local member_id was not recognized
heartbeat-refused 1.0.. error=UNKNOWN_MEMBER_ID | Heartbeat failed: local member_id was not recognized
heartbeat-refused 1.0.. error=ILLEGAL_GENERATION | Heartbeat failed for group <group>: generation id is not current
heartbeat-refused 1.0.. error=NOT_COORDINATOR | Heartbeat failed for group <group>: coordinator (node <node:[\w-]+>) is
    either not started or not valid
heartbeat-refused 2.3.. error=FENCED_INSTANCE_ID | Heartbeat failed for group <group> due to fenced id error:
    <instance>
session-timeout 1.4.. | Heartbeat session expired{,| -} marking coordinator dead
coordinator-lost 1.0.. | Marking the coordinator dead (<node:node [\w-]+>){ |}for group <group:\S+?>: <reason>
coordinator-lost | Marking the coordinator dead (<node:node [\w-]+>){ |}for group <group>{.}
coordinator-found 1.0..2.1 | Group coordinator for <group:\S+> is BrokerMetadata(nodeId={'|}<node:[\w-]+>
coordinator-found 2.2.. | Coordinator for group/<group:\S+> is BrokerMetadata(nodeId={'|}<node:[\w-]+>
coordinator-found 2.2.. | Coordinator for <_:\w+>/<group:\S+> is <node>
coordinator-found 1.1.. | Discovered coordinator <node:[\w-]+> for group <group>
poll-timeout 1.4..2.1 | Heartbeat poll expired, leaving group
poll-timeout 2.2.. 'logger=kafka\.coordinator' | Consumer poll timeout has expired. This means
member-leaves 1.3..2.1 | Leaving consumer group (<group:[^)\s]+>)
member-leaves 2.2.. | Leaving consumer group <group:\S+> (member <member:.*?>)
join-failed error=COORDINATOR_LOAD_IN_PROGRESS | Attempt to join group <group:\S+> rejected since coordinator <_> is
    loading the group
join-failed error=UNKNOWN_MEMBER_ID | Attempt to join group <group:\S+> failed due to unknown member id
join-failed error=NOT_COORDINATOR | Attempt to join group <group:\S+> failed due to obsolete coordinator information
join-failed | Attempt to join group{ <group:\S+>} failed due to {fatal error: |}<error>
member-id-issued 2.2.. | Received member id <member> for group <group>; will retry join-group
sync-failed error=REBALANCE_IN_PROGRESS | SyncGroup for group <group:\S+> failed due to {coordinator|group} rebalance
sync-failed | SyncGroup for group <group:\S+> failed due to <error>
commit-failed | OffsetCommit {failed for group|for group} <group:[^:\s]+>{ due to group error| failed:} <error>
commit-failed | OffsetCommit failed for group <group:\S+> <_>due to <error>
commit-failed 'error=group membership out of date' | {Pre-rebalance o|O}ffset commit failed: group membership out of
    date
commit-failed | Auto offset commit failed{ for group <group:\S+>}: <error>
partitions-lost 3.0.. | Group <group> lost membership; forcibly revoking <partitions>
member-reconciling 3.0.. | Cooperative rebalance complete for group <group>: owned=<owned>, assigned=<assigned>,
    revoked=<revoked>, added=<added>
rejoin-requested 3.0.. | <reason:Triggering follow-up rebalance> for group <group:\S+> to complete cooperative move
error-to-application | User provided {rebalance |subscription rebalance |subscription |}listener <_> for group
    <group:\S+> failed
sync-failed logger=kafka | Unexpected error from SyncGroup: <error>
sync-failed 3.0.. error=INCONSISTENT_GROUP_PROTOCOL | SyncGroup for group <group:\S+> returned inconsistent protocol
join-failed logger=kafka | Unexpected error in join group response: <error>
join-failed 3.0.. error=INCONSISTENT_GROUP_PROTOCOL | JoinGroup for group <group:\S+> returned inconsistent protocol
heartbeat-refused 3.0.. | Unhandled Heartbeat loop error: <error>
heartbeat-refused 2.2.. | Heartbeat failure: <error>
heartbeat-refused logger=kafka | Heartbeat failed: {authorization|Unhandled} error: <error>
member-fenced | Heartbeat thread caught fenced group_instance_id <instance:\S+> error
partitions-revoked 3.0.. | Cooperative pre-rebalance for group <group:\S+>: revoking <partitions> (no longer
rejoin-requested 'reason=assignment rejected' | Probably due to a deleted topic. Requesting {R|r}e-join
commit-failed | Group <group:\S+> failed to commit partition <_> at offset <_>: <error>
commit-failed | OffsetCommit for group <group:\S+> failed on partition <_:TopicPartition\([^)]*\)> <error>
commit-failed error=FENCED_INSTANCE_ID | OffsetCommit for group <group:\S+> failed due to fenced id error
commit-failed logger=kafka | {Pre-rebalance o|O}ffset commit failed: <error>
commit-ok logger=kafka | Completed autocommit of offsets <_> for group <group:\S+>
commit-ok logger=kafka | Group <group:\S+> committed offset <_> for partition
commit-sent logger=kafka | Sending offset-commit request with <_> for group <group:\S+> to <node>
coordinator-lookup logger=kafka | Sending group coordinator request for group <group:\S+> to broker <node>
client-internal logger=kafka | Received {JoinGroup response|SyncGroup response|LeaveGroupResponse|heartbeat
    response|group coordinator response|OffsetCommitResponse|OffsetFetchResponse}
client-internal logger=kafka | Sending {LeaveGroupRequest|HeartbeatRequest} to
client-internal logger=kafka | Group Coordinator {Request|lookup for group <group:\S+>} failed: <error>
client-internal logger=kafka | Group Coordinator Not Available; retry
client-internal logger=kafka | {Starting new|Stopping|Started} heartbeat thread
client-internal logger=kafka | Heartbeat {thread did not fully terminate|thread closed|disabled|re-enabled}
client-internal logger=kafka | Heartbeat {thread|loop started}
client-internal logger=kafka | {Enabling|Disabling|Starting} heartbeat
client-internal logger=kafka | Treating RebalanceInProgressError as successful heartbeat
client-internal logger=kafka | {Waiting <_> secs to send next heartbeat|need_rejoin: <_>|No offsets to commit}
client-internal logger=kafka | {Requesting metadata for|Received find} {group |}coordinator {request|response}
coordinator-lookup logger=kafka | Looking up coordinator
client-internal logger=kafka | Group state is not stable, disabling heartbeats
client-internal logger=kafka | Group <group:\S+> {fetching committed offsets|has no committed offset|failed to fetch
    offset}
client-internal logger=kafka | Unknown error fetching offsets
client-internal logger=kafka | Error sending <_> to node <node> [
client-internal logger=kafka | coordinator.poll: timeout
client-internal | heartbeat_interval_ms is high relative to session_timeout_ms
client-internal 3.0.. | Rebalance listener <_> for group <group:\S+> took
client-internal | LeaveGroup request <_>{succeeded|successfully|failed}
client-internal logger=kafka | {Updating subscribed topics to|Subscribing to pattern|Subscribed to topic(s)}: <_>
heartbeat-ok logger=kafka | Heartbeat success
heartbeat-ok logger=kafka | Received successful heartbeat response for group <group>
heartbeat-sent | Heartbeat: <group>[<generation>] <member:\S+>
heartbeat-ok 1.0..1.3 | Heartbeat successful
client-internal 1.0..1.3 | Heartbeat failed; retrying
client-internal 1.0..1.3 | Skipping heartbeat: <_>
client-internal 1.0..1.3 | Coordinator unknown during heartbeat -- will retry
client-internal 'logger=kafka\.(?:conn|protocol)' |
    {JoinGroup|SyncGroup|Heartbeat|LeaveGroup|OffsetCommit|OffsetFetch|GroupCoordinator}{Request|Response}{_v<_:\d+>}(
heartbeat-sent logger=kafka | Sending heartbeat for group <group:\S+> <_>
"""
    ),
)
