"""Kafka Streams: threads, clients and task assignment."""

import re

from kemu.tools.logs.dialects.java_consumer import PREFIXES
from kemu.tools.logs.wordings.wordings import Dialect, table

DIALECT = Dialect(
    "java-streams",
    "Java client",
    prefixes=(*PREFIXES, re.compile(r"stream-(?:thread|client) \[(?P<client>[^\]]*)\]")),
    rows=table(
        r"""
client-state 0.10.2.. | State transition from <from_:[A-Z_]+> to <to:[A-Z_]+>
- | partition {revocation|assignment} took <ms> ms
- | partitions lost took <ms> ms
partitions-lost 2.4.. | at state <state>: partitions [<partitions:[^\]]*>] lost due to missed rebalance
client-internal 2.4.. | Handle new assignment with:
rejoin-requested 3.0.. | Active task(s) got corrupted. <reason:Triggering a rebalance>
rejoin-requested 2.4..2.8 'reason=task migrated to another thread' | Failed to {process|punctuate} stream task <_>
    since it
    got migrated to another thread already
consumer-crash 2.8.. | Encountered the following exception during processing
client-internal 4.1.. | Processing new assignment <_> from Streams Rebalance Protocol
client-internal 4.1.. | Revoking active tasks
client-internal 4.1.. | Streams rebalance protocol enabled
client-internal | Failed to fetch end offsets for changelogs, will return previous assignment to clients and trigger
client-internal | Adding removed stateful active task <_> as a standby for
client-internal | {Decided on assignment|Assigning stateful tasks}:
client-internal | Received version probing code
client-internal | Downgrade{ latest supported} metadata to version
client-internal | {Cooperative|Eager} rebalancing {protocol is |}enabled now
client-internal | Could not remove static member <instance> from consumer group <group> due to{ a|:}
client-internal | Detected that shutdown was requested. All clients in this app will now begin to shutdown
rejoin-requested 2.5.. | Triggering the <reason:followup rebalance scheduled for [^\n.]*>
rejoin-requested 2.4.. | Requested to schedule <reason:(?:immediate|next probing) rebalance[^\n.]*>
rejoin-requested | <reason:Version probing detected>. {Rejoining the consumer group to trigger a|Triggering} new
    rebalance
client-internal | No followup rebalance was requested
client-internal | Requesting followup rebalance be scheduled
client-internal | Finished {un|}stable assignment of tasks
client-internal | Client <_> per-consumer assignment:
client-internal | Assigned <_:\d+> total tasks including
client-internal | Assigned tasks <_> to clients
client-internal | Assignment of tasks to nodes:
client-internal | client nodes and <_:\d+> consumers participating in this rebalance
consumer-crash | Detected that the thread is being fenced. This implies that this thread missed a rebalance
consumer-crash | Detected task <_> that got migrated to another thread. This implies that this thread missed a
    rebalance
error-to-application | Received error code <error>
- | {Started Streams client|Informed to shut down}
"""
    ),
)
