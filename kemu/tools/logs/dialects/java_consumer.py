"""The classic Java consumer: ``AbstractCoordinator`` and ``ConsumerCoordinator`` of kafka-clients."""

import re

from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened

PREFIXES = (
    re.compile(r"\[\w*\s?(?:[^\]\[]*, )?clientId=(?P<client>[^,\]]*)"),
    re.compile(r"\[[^\]\[]*groupId=(?P<group>[^,\]]*)"),
    re.compile(r"\[[^\]\[]*(?:instanceId|groupInstanceId)=(?P<instance>[^,\]]*)"),
)
GENERATION = "Generation\\{generationId=<generation>, memberId='<member:[^']*>', protocol='<assignor:[^']*>'\\}"


def _short_class(fields: Fields, _: Opened) -> None:
    fields["error"] = str(fields["error"]).rpartition(".")[2]


def _without_stop(fields: Fields, _: Opened) -> None:
    for name in ("reason", "error"):
        if name in fields:
            fields[name] = str(fields[name]).strip().removesuffix(".")


def _leave(fields: Fields, opened: Opened) -> None:
    reason, _, explained = str(fields.get("reason", "")).partition(". This means the time")
    fields["reason"] = reason
    if explained:
        fields["also"] = ("poll-timeout",)
        fields["_releases"] = "2.4..2.8"
    _without_stop(fields, opened)


def _loading(fields: Fields, _: Opened) -> None:
    fields.setdefault("error", "COORDINATOR_LOAD_IN_PROGRESS")


_REBALANCING = {"error": "REBALANCE_IN_PROGRESS"}
_OLD_GENERATION = {"error": "ILLEGAL_GENERATION"}
_UNKNOWN_MEMBER = {"error": "UNKNOWN_MEMBER_ID"}
_NOT_COORDINATOR = {"error": "NOT_COORDINATOR"}

DIALECT = Dialect(
    "java-consumer",
    "Java client",
    prefixes=PREFIXES,
    marks=re.compile(
        r"AbstractCoordinator|ConsumerCoordinator|ConsumerRebalanceListenerInvoker|WorkerCoordinator|KafkaLogger"
    ),
    rows=table(
        r"""
coordinator-lookup | Sending {FindCoordinator|GroupCoordinator} request{ for group <group>} to broker <node>
coordinator-found 0.9..0.11 | Discovered coordinator <node:\S+ \([^)]*\)> for group <group>{.}
coordinator-found 1.0.. | Discovered group coordinator <node:\S+ \(id:[^)]*\)>
coordinator-found 1.0.. | Discovered group coordinator <node:[\w.*-]+:\d+>
coordinator-lost 0.9..0.11 | Marking the coordinator <node:\S+ \([^)]*\)> dead for group <group>
coordinator-lost 0.9..0.9 | Marking the coordinator <node:\d+> dead
coordinator-lost | Marking the coordinator <node:\S+ \([^)]*\)> dead
coordinator-lost 1.0..2.6 | Group coordinator <node> is unavailable or invalid, will attempt rediscovery
coordinator-lost 2.7.. | Group coordinator <node> is unavailable or invalid due to cause: <reason>.{ }isDisconnected:
    <_:\w+>.
client-internal 3.4.. | Requesting disconnect from last known coordinator <node>
coordinator-lost 2.8.. | Consumer has been disconnected from the group coordinator for <ms>ms
join-sent 0.9..0.11 | (Re-)joining group <group:[\w.*<>{}$-]+>
join-sent 1.0.. | (Re-)joining group
client-internal 2.3.. | Joining group with current subscription: <_>
client-internal | Sending JoinGroup (JoinGroupRequestData(groupId='<_>', sessionTimeoutMs=<session_ms>,
    rebalanceTimeoutMs=<rebalance_ms>, memberId='<member:[^']*>'<_>protocols=\[<assignors>)\]
client-internal | Sending JoinGroup (
join-failed 2.5..2.5 read=short_class | Join group failed with <error:[\w.$]+>: <_>
join-failed 2.5.. error=COORDINATOR_LOAD_IN_PROGRESS | JoinGroup failed: Coordinator <node> is loading the group
join-failed 2.7.. | JoinGroup failed:… <error>{.|} {Marking coordinator unknown|Need to re-join the group}. Sent
    generation was <_>
join-failed 2.5.. | JoinGroup failed: <error:(?!group instance id )[^\n]*>
join-failed 2.7.. | JoinGroup failed due to {fatal|unexpected|non-fatal} error: <error:[A-Z_]+>
join-failed 2.7.. read=without_stop | JoinGroup failed due to {fatal|unexpected|non-fatal} error: <error>
join-failed | JoinGroup failed due to {unsupported version error|inconsistent}
join-failed 0.9..2.6 | Attempt to join group{ <group>} failed due to {fatal|unexpected} error: <error>
join-failed 0.9..2.6 error=COORDINATOR_LOAD_IN_PROGRESS | Attempt to join group{ <group>} rejected since coordinator
    <node> is loading the group
join-failed 0.9..2.6 error=UNKNOWN_MEMBER_ID | Attempt to join group{ <group>} failed due to unknown member id
join-failed 0.9..2.6 error=NOT_COORDINATOR | Attempt to join group{ <group>} failed due to obsolete coordinator
    information
join-answered 2.6.. | Successfully joined group with generation Generation\{generationId=<generation>,
    memberId='<member:[^']*>', protocol='<assignor:[^']*>'\}
assignment-synced 0.10..0.11 | Successfully joined group <group> with generation <generation>
assignment-synced 1.0..2.5 | Successfully joined group with generation <generation>
client-internal | Received successful {JoinGroup|SyncGroup} response
assignment-computed 2.4.. | Finished assignment for group at generation <generation>: <assignment>
assignment-computed 0.9..2.3 | Finished assignment for group{ <group:[^:\s]+>}: <assignment>
assignment-computing | Performing assignment{ for group <group>} using strategy <assignor:\S+> with subscriptions
client-internal | Skipped assignment for returning static leader at generation <generation>
sync-sent | Sending {follower|leader} SyncGroup{ for group <group>} to coordinator
sync-failed 2.7.. error=REBALANCE_IN_PROGRESS | SyncGroup failed: The group began another rebalance
sync-failed 0.9..2.6 error=REBALANCE_IN_PROGRESS | SyncGroup {for group <_> |}failed {because the group began
    another|due to coordinator} rebalance
sync-failed 2.7.. | SyncGroup failed: <error>{.|} {Need to re-join the group|Marking coordinator unknown}
sync-failed 1.0.. | SyncGroup failed: <error>
sync-failed | SyncGroup {for group <_> |}failed due to <error>
sync-failed 2.6.. 'error=generation data was cleared by heartbeat thread' | Generation data was cleared by heartbeat
    thread {to|as} <_> and state is now <state> before <_>, marking this rebalance as failed and retry
assignment-synced 2.6.. | Successfully synced group in generation Generation\{generationId=<generation>,
    memberId='<member:[^']*>', protocol='<assignor:[^']*>'\}
assignment-notified 2.6.. | Notifying assignor about the new Assignment(partitions=\[<partitions:[^\]]*>\]
member-reconciling 2.4..2.5 | Updating assignment with ⏎ now assigned partitions: <assigned:[^\n]*> ⏎ compare with
    previously owned partitions: <owned:[^\n]*> ⏎ newly added partitions: <added:[^\n]*> ⏎ revoked partitions:
    <revoked:[^\n]*>{⏎}
member-reconciling 2.6.. | Updating assignment with ⏎ Assigned partitions: \[<assigned:[^\]]*>\] ⏎ Current owned
    partitions: \[<owned:[^\]]*>\] ⏎ Added partitions (assigned - owned): \[<added:[^\]]*>\] ⏎ Revoked partitions
    (owned - assigned): \[<revoked:[^\]]*>\]{⏎}
rejoin-requested 2.7..2.8 read=without_stop | Requesting to re-join the group and trigger rebalance since <reason>
rejoin-requested 3.0.. | Request joining group due to: <reason>
rejoin-requested 2.4..2.8 | Need to revoke partitions <_> and <reason:re-join the group>
rejoin-requested 2.4..2.5 'reason=generation data was cleared by heartbeat thread' | Generation data was cleared by
    heartbeat
    thread. {Initiating rejoin|Rejoin failed}
client-internal 2.4..2.8 | We received an assignment <_> that doesn't match our current subscription
client-internal 2.4.. | With the COOPERATIVE protocol, owned partitions cannot be reassigned to other members
generation-reset 2.4.. | Resetting generation{ and member id} due to{:|} <reason>
generation-reset 2.4.. | Resetting generation after encountering <error:\w+> from <_> response
client-internal | Rebalance failed.
partitions-assigned 0.9..0.11 | Setting newly assigned partitions \[<partitions:[^\]]*>\] for group <group>
partitions-assigned 1.0..2.2 | Setting newly assigned partitions \[<partitions:[^\]]*>\]
partitions-assigned 2.3..2.3 | Setting newly assigned partitions: <partitions>
partitions-assigned 4.0.. | Adding newly assigned partitions: \[<partitions:[^\]]*>\]
partitions-assigned 2.4..3.9 | Adding newly assigned partitions:<partitions:[^\n]*>
partitions-revoked 0.9..0.11 | Revoking previously assigned partitions \[<partitions:[^\]]*>\] for group <group>
partitions-revoked 1.0..2.3 | Revoking previously assigned partitions \[<partitions:[^\]]*>\]
partitions-revoked 4.0.. | Revoke previously assigned partitions \[<partitions:[^\]]*>\]
partitions-revoked 2.4..3.9 | Revoke previously assigned partitions<partitions:[^\n]*>
partitions-lost-notice 2.4..3.1 | Giving away all assigned partitions as lost since generation has been reset
partitions-lost-notice 3.2.. | Giving away all assigned partitions as lost since generation/memberID has been reset
partitions-lost 4.0.. | Lost previously assigned partitions \[<partitions:[^\]]*>\]
partitions-lost 2.4..3.9 | Lost previously assigned partitions<partitions:[^\n]*>
heartbeat-refused 0.10..0.11 error=REBALANCE_IN_PROGRESS | Attempt to heartbeat failed for group <group> since it is
    rebalancing
heartbeat-refused 1.0..2.8 error=REBALANCE_IN_PROGRESS | Attempt to heartbeat failed since group is rebalancing
heartbeat-refused 1.0..2.5 error=ILLEGAL_GENERATION | Attempt to heartbeat failed since generation <generation> is not
    current
heartbeat-refused 0.10..0.11 error=ILLEGAL_GENERATION | Attempt to heartbeat failed for group <group> since generation
    id is not legal
heartbeat-refused 1.0..2.5 error=UNKNOWN_MEMBER_ID | Attempt to heartbeat failed for since member id <member> is not
    valid
heartbeat-refused 0.10..0.11 error=UNKNOWN_MEMBER_ID | Attempt to heartbeat failed for group <group> since member id is
    not valid
heartbeat-refused 0.10.. error=NOT_COORDINATOR | Attempt to heartbeat {failed |}{for group <group> |}since coordinator
    <node> is either not started or not valid
heartbeat-refused 2.6.. | Attempt to heartbeat with {stale |}Generation\{generationId=<generation>,
    memberId='<member:[^']*>', protocol=<_>\} and group instance id <instance> failed due to <error:\w+>
heartbeat-sent 2.4.. | Sending Heartbeat request with generation <generation> and member id <member:\S+> to coordinator
    <node>
heartbeat-sent 0.10..2.3 | Sending Heartbeat request {for group <group> |}to coordinator <node>
error-to-application | {A|An} <error:(?:group authorization|authentication) error> occurred in the heartbeat thread
heartbeat-ok | Received successful {h|H}eartbeat response{ for group <group>}
client-internal | Ignoring heartbeat response with error
client-internal | Heartbeat thread {for group <group> |}{started|has closed|failed}
client-internal | {Enabling|Disabling} heartbeat thread
client-internal | {Unexpected interrupt received in|Interrupted while waiting for consumer} heartbeat thread
member-leaves 2.4.. read=leave | Member <member> sending LeaveGroup request to coordinator <node> due to <reason>
member-leaves 2.2..2.3 | Member <member> sending LeaveGroup request to coordinator <node:\S+(?: \([^)]*\))?>
member-leaves 0.9..0.11 | Sending LeaveGroup request to coordinator <node> for group <group>
member-leaves 1.0..2.1 | Sending LeaveGroup request to coordinator <node:\S+(?: \([^)]*\))?>
poll-timeout 2.1..2.3 | This member will leave the group because consumer poll timeout has expired
poll-timeout 3.0.. | consumer poll timeout has expired.
client-internal | LeaveGroup {re|}{quest|sponse}<_> {returned successfully|failed}
commit-failed 2.3.. 'error=not part of an active group' | Failing OffsetCommit request since the consumer is not part
    of an active group
commit-failed | {Offset c|C}ommit cannot be completed since <error:[^\n.;]*>
commit-failed | Offset commit failed on partition <partition> at offset <_:-?\d+>: <error>
commit-failed 2.6.. | OffsetCommit failed with <_>: <error>
commit-failed 2.6.. error=FENCED_INSTANCE_ID | OffsetCommit failed with <_> due to group instance id <instance> fenced
commit-failed | {Asynchronous a|Synchronous a|A}uto-commit of offsets <_> failed{ for group <group>}: <error>
commit-failed | Offset commit with offsets <_> failed
commit-failed 0.9..0.10.2 logger=ConsumerCoordinator | Auto offset commit failed for group <group:[^:\s]+>: <error>
commit-failed 3.3.. | Asynchronous auto-commit of offsets failed: <error:[^\n.]*>
commit-failed 3.7.. | Auto-commit of offsets <_> failed
commit-failed | Group <group> failed to commit partition <partition> at offset <_:-?\d+>: <error>
commit-failed error=TOPIC_AUTHORIZATION_FAILED | Not authorized to commit {offsets|to topics}
client-internal 3.7.. | OffsetCommit timeout expired so it won't be retried anymore
client-internal | The following partitions still have unstable offsets
commit-ok | Committed offset <_:\S+> for partition <partition>
commit-ok | Completed asynchronous auto-commit of offsets
commit-sent | Sending {a|}synchronous auto-commit of offsets
member-fenced 2.7.. | The group instance id <instance> has been fenced by another instance
member-fenced 2.3.. | Caught fenced group.instance.id <instance> error in heartbeat thread
member-fenced 2.3..2.4 | Received fatal exception: group.instance.id gets fenced
error-to-application | User provided listener <_:\S+> {for group <group> |}failed on
    <error:(?:invocation|partition)[^\n]*>
client-internal | Executing on{JoinPrepare|JoinComplete|LeavePrepare} with generation
client-internal | No broker available to send {FindCoordinator|GroupCoordinator} request
client-internal | After reassigning previously owned partitions, unfilled members
client-internal | Resetting offset for partition <partition> to
client-internal | Detected that {all|some} consumers were subscribed to
- | Seeking to {offset|{EARLIEST|LATEST|earliest|latest} offset}
- | Assigned to partition(s): <_>
- | Resetting the last seen epoch of partition
- | Handling OffsetsForLeaderEpoch response for
- | {Cluster ID: |Node }<_:\S+>{ disconnected|}
- | Cancelled {in-flight <_:\w+> request|request with header}
- | Connection to node <_:-?\d+> <_> could not be established
- | Error sending fetch request
- | Error while fetching metadata with correlation id
- | Client requested disconnect from node
- | Received unknown topic {or partition|ID} error in fetch
- | {ConsumerConfig|ProducerConfig|AdminClientConfig} values
- | Kafka {commitId|startTimeMs}
client-internal | Setting offset for partition <partition> to the committed offset
client-internal | Found no committed offset for partition <partition>
client-internal | Fetching committed offsets for partitions: <_>
client-internal | Marking assigned partitions pending for revocation
client-internal | Subscribed to {topic(s)|pattern}: <_>
client-internal | Unsubscribed all topics or patterns and assigned partitions
client-internal | The following {not-|}subscribed topics are {not |}assigned
client-internal | The pause flag in partitions
client-internal | still waiting to ensure active group
client-internal | Received {FindCoordinator|GroupCoordinator} response
client-internal | Group coordinator lookup {for group <group> |}failed
client-internal | FindCoordinator request {failed|hit}
client-internal | Coordinator discovery failed{ for group <group:[^,]+>}, refreshing metadata
client-internal | Close timed out with <_:\d+> pending requests to coordinator
client-internal | Subscription is not supported
""",
        short_class=_short_class,
        without_stop=_without_stop,
        leave=_leave,
    ),
)
