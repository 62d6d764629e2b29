"""sarama and sarama-cluster: coordinator look-ups, claims and errors; never a generation or a member."""

import re

from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened


def _as_written(fields: Fields, _: Opened) -> None:
    fields["partitions"] = (str(fields.pop("topics")),)


_CLAIM = "<topics:\\S+?/\\d+>"

DIALECT = Dialect(
    "sarama",
    "sarama",
    marks=re.compile(r"[Ss]arama"),
    rows=table(
        r"""
coordinator-lookup 1.10..1.36 | client/coordinator requesting coordinator for consumergroup <group:\S+> from
coordinator-found 1.10..1.36 | client/coordinator coordinator for consumergroup <group:\S+> is #<node:-?\d+>
coordinator-lookup 1.37.. | client/coordinator requesting coordinator for <group:\S+> from
coordinator-found 1.37.. | client/coordinator coordinator for <group:\S+> is #<node:-?\d+>
coordinator-lost | client/coordinator coordinator for {consumergroup |}<group:\S+> is not available
coordinator-lost | client/coordinator request to broker <node:\S+> failed: <reason>
client-internal | client/coordinator <_>
coordinator-lost error=GROUP_AUTHORIZATION_FAILED | client was not authorized to access group <group:\S+> while
    attempting to find coordinator
client-internal | consumer/broker/<broker> {disconnecting due to error processing|abandoned in favor of}
client-internal | consumer/<_:\S+> {still retrying|giving up|shutting down because|failed to find active broker}
client-internal | consumergroup/<group:[^:\s]+>: falling back to static user data
client-internal | consumergroup/<_:\S+> topic <_:\S+> get partition number failed
- | consumer/broker/<broker> accumulated <n> new subscriptions
fetch-begins read=as_written | consumer/broker/<broker> added subscription to <topics:\S+?/\d+>
fetch-ends read=as_written | consumer/broker/<broker> closed dead subscription to <topics:\S+?/\d+>
fetch-ends read=as_written | consumer/broker/<broker> abandoned subscription to <topics:\S+?/\d+> because <reason>
session-ends 1.26.. | loop check partition number {coroutine|goroutine} will exit, topics
rejoin-requested 1.26.. 'reason=number of partitions changed' | loop check partition number {coroutine|goroutine} find
    partitions in topics <_> changed
partitions-lost | consumergroup/<group:[^:\s]+>: lost ownership of <_> due to <error>
member-fenced | JoinGroup failed: group instance id <instance:\S+> has been fenced
error-to-application | consumer{group|}/<_:\S+>: error: <error>
rebalance-seen | cluster/consumer <_> rebalance
join-failed | rebalance error: <error>
heartbeat-refused | heartbeat error: <error>
error-to-application | kafka: error while consuming <_:\S+/\d+>: <error>
error-to-application | <error:kafka server: (?:The provided (?:member|generation|group)|A rebalance for the
    group|Request was for a consumer group|The broker is still loading|The client is not authorized to access this
    group|The broker rejected this static consumer|Offset's topic has not)[^\n]*>
""",
        as_written=_as_written,
    ),
)
