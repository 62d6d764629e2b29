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
coordinator-found 3.7.. | Discovered group coordinator Coordinator(key='<group:[^']*>', nodeId=<node:-?\d+>
coordinator-lost 3.7.. | Group coordinator <node> is unavailable or invalid due to cause: <reason>. Rediscovery will be
    attempted
poll-timeout 3.8.. | Consumer poll timeout has expired, exceeded by <ms> ms
poll-timeout 3.7.. | Consumer poll timeout has expired. This means
poll-timeout 3.7.. | Time between subsequent calls to poll() was longer than the configured max.poll.interval.ms,
    exceeded approximately by <ms> ms
heartbeat-refused 3.7.. | {Consumer|Share|Streams}GroupHeartbeat{Request|} failed for member <member:\S+> with state
    <state> due to <error:\w+>
heartbeat-refused 3.7.. | {Consumer|Share|Streams}GroupHeartbeat{Request|} failed due to {unreleased|fenced} instance
    id <instance:[^:]+>: <error>
heartbeat-refused 3.7.. | {Consumer|Share|Streams}GroupHeartbeat{Request|} failed due to <error:[A-Z_]{4,}>
heartbeat-refused 3.7.. | {Consumer|Share|Streams}GroupHeartbeat{Request|} failed {because of|due to} <error>
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
partitions-lost-notice 3.7.. | callback to release assignment failed
"""
    ),
)
