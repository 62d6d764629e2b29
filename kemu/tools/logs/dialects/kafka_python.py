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
join-answered 1.0..1.3 | Joined group '<group>' (generation <generation>) with member_id <member>
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
heartbeat-refused 1.0.. error=NOT_COORDINATOR | Heartbeat failed for group <group>: coordinator (node <node:\w+>) is
    either not started or not valid
heartbeat-refused 2.3.. error=FENCED_INSTANCE_ID | Heartbeat failed for group <group> due to fenced id error:
    <instance>
session-timeout 1.4.. | Heartbeat session expired{,| -} marking coordinator dead
coordinator-lost 1.0.. | Marking the coordinator dead (<node:node \w+>){ |}for group <group:\S+?>: <reason>
coordinator-lost | Marking the coordinator dead (<node:node \w+>){ |}for group <group>{.}
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
error-to-application | User provided {rebalance |subscription rebalance |}listener <_> for group <group:\S+> failed
client-internal | LeaveGroup request <_>{succeeded|successfully|failed}
client-internal logger=kafka | {Updating subscribed topics to|Subscribing to pattern|Subscribed to topic(s)}: <_>
heartbeat-ok logger=kafka | Heartbeat success
heartbeat-sent logger=kafka | Sending heartbeat for group <group:\S+> <_>
"""
    ),
)
