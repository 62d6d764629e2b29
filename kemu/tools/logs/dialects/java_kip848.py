"""The Java consumer of KIP-848 (``group.protocol=consumer``), and share and streams consumers with the same words."""

import re

from kemu.tools.logs.dialects.java_consumer import PREFIXES
from kemu.tools.logs.wordings.wordings import Dialect, table

DIALECT = Dialect(
    "java-kip848-client",
    "Java client",
    prefixes=PREFIXES,
    marks=re.compile(
        r"MembershipManager|HeartbeatRequestManager|CoordinatorRequestManager|CommitRequestManager|AsyncKafkaConsumer"
    ),
    rows=table(
        r"""
client-state 3.7.. | Member <member> with epoch <generation> transitioned from <from_> to <to>
member-reconciling 3.7.. | Reconciling assignment with local epoch <local_epoch> ⏎ Member: <member:\S+> ⏎ Assigned
    partitions: [<assigned:[^\]]*>] ⏎ Current owned partitions: [<owned:[^\]]*>] ⏎ Added partitions (assigned - owned):
    [<added:[^\]]*>] ⏎ Revoked partitions (owned - assigned): [<revoked:[^\]]*>]{⏎}
member-reconciling 3.7.. | Reconciling assignment with local epoch <local_epoch>
revoke-begins 3.7.. logger=MembershipManager | Revoking previously assigned partitions [<partitions:[^\]]*>]
member-reconciling 4.1.. | Assigned tasks with local epoch <local_epoch>
client-internal 4.1.. | Revoking previously assigned {and now lost |}active tasks
client-internal 4.1.. | Assigning active tasks <_>, standby tasks
client-internal 4.1.. | Invoking {task revoked callback|tasks assigned callback|tasks lost callback} for
client-internal 4.1.. | Membership is in the following statuses
error-to-application 4.1.. | Streams rebalance listener failed on invocation of <error:on\w+>
error-to-application | <error:(?:on(?:PartitionsLost|PartitionsRevoked|AllTasksLost|TasksRevoked)|Task revocation)
    callback> invocation failed
error-to-application 3.7.. | The <error:on\w+> {method|callback} completed with an error
client-internal 3.7.. | The <_:on\w+> {method|callback} completed successfully
client-internal 3.7.. | Leaving newly assigned partitions <_> marked as non-fetchable
client-internal 3.7.. | No action taken to join the group with the updated subscription because
client-internal 3.7.. | Auto-commit request before reconciling new assignment failed
client-internal 4.1.. | Consumer attempted to leave the group but couldn't complete it within <ms> ms
client-internal 3.7.. | {Releasing assignment and leaving group before closing|Completed releasing assignment and
    sending
    leave group to close} consumer
coordinator-found 3.7.. | Discovered group coordinator Coordinator(key='<group:[^']*>', nodeId=<node:-?\d+>
coordinator-lost 3.7.. | Group coordinator <node> is unavailable or invalid due to cause: <reason>. Rediscovery will be
    attempted
poll-timeout 3.8.. | Consumer poll timeout has expired, exceeded by <ms> ms
poll-timeout 3.7.. | Consumer poll timeout has expired. This means
poll-timeout 3.7.. | Time between subsequent calls to poll() was longer than the configured max.poll.interval.ms,
    exceeded approximately by <ms> ms
coordinator-lost 3.7.. error=NOT_COORDINATOR | {Consumer|Share|Streams|}GroupHeartbeatRequest failed because the group
    coordinator <node> is incorrect
coordinator-lost 3.7.. error=COORDINATOR_NOT_AVAILABLE | {Consumer|Share|Streams|}GroupHeartbeatRequest failed because
    the
    group coordinator <node> is not available
heartbeat-refused 3.7.. error=COORDINATOR_LOAD_IN_PROGRESS | {Consumer|Share|Streams|}GroupHeartbeatRequest failed
    because
    the group coordinator <node> is still loading
heartbeat-refused 3.7.. error=FENCED_MEMBER_EPOCH | {Consumer|Share|Streams|}GroupHeartbeatRequest failed for member
    <member:\S+> because epoch <generation> is fenced
heartbeat-refused 3.7.. error=UNKNOWN_MEMBER_ID | {Consumer|Share|Streams|}GroupHeartbeatRequest failed because member
    <member:\S+> is unknown
heartbeat-refused 3.7.. | {Consumer|Share|Streams|}GroupHeartbeat{Request|} failed for member <member:\S+> with state
    <state> due to <error:\w+>
heartbeat-refused 3.7.. | {Consumer|Share|Streams|}GroupHeartbeat{Request|} failed due to {unreleased|fenced} instance
    id <instance:[^:]+>: <error>
heartbeat-refused 3.7.. | {Consumer|Share|Streams|}GroupHeartbeat{Request|} failed due to <error:[A-Z_]{4,}>
heartbeat-refused 3.7.. | {Consumer|Share|Streams|}GroupHeartbeat{Request|} failed {because of|due to} <error>
heartbeat-refused 3.7.. | Member <member:\S+> with epoch <generation> was not part of the group anymore: <error>
heartbeat-refused 3.7.. error=UNKNOWN_MEMBER_ID | Member <member:\S+> with epoch <generation> is not part of the group
    anymore
member-fenced 3.7.. | Member <member:\S+> with epoch <generation> got fenced
member-fenced 3.7.. | Member <member:\S+> with epoch <generation> transitioned to FENCED state
error-to-application 3.7.. | Member <member:\S+> with epoch <generation> transitioned to fatal state
client-internal 3.7.. | Member <member:\S+> {will|with epoch|won't|attempting|updated|is triggering|completed}
client-internal 3.7.. | Target assignment <_> received from the broker is equals to the member current assignment
client-internal 3.7.. | Interrupting reconciliation that is not relevant anymore because <reason>
client-internal 3.7.. | Auto-commit before reconciling new assignment completed successfully
client-internal 3.7.. | There are unresolved partitions, and the resolvable fragment of the target assignment
client-internal | Reconciliation failed
client-internal | Completed leaving the group
client-internal | Completed auto-commit of offsets
commit-failed 3.7.. | OffsetCommit failed {with|for member <member:\S+> with} <error>
partitions-lost-notice 3.7.. | callback to {release|revoke task} assignment failed
"""
    ),
)
