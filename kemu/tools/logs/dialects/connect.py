"""Workers of Kafka Connect: ``WorkerCoordinator`` and ``DistributedHerder``."""

import re

from kemu.tools.logs.dialects.java_consumer import PREFIXES
from kemu.tools.logs.wordings.wordings import Dialect, table

DIALECT = Dialect(
    "connect-worker",
    "Java client",
    prefixes=PREFIXES,
    marks=re.compile(r"WorkerCoordinator|DistributedHerder|IncrementalCooperativeAssignor|EagerAssignor"),
    rows=table(
        r"""
rebalance-seen | Rebalance started
assignment-synced 2.3.. | Joined group at generation <generation> {and|with protocol version <_:\d+> and} got
    assignment: Assignment\{error=<_:\d+>, leader='<leader:[^']*>'
assignment-synced | Joined group {at generation <generation> |}{with protocol version <_:\d+> |}and got assignment:
    Assignment
client-internal | Current config state offset <_:-?\d+> {does not match|is behind} group assignment
client-internal | Catching up to assignment's config offset
client-internal | Join group completed, but assignment failed
client-internal | {Starting connectors and tasks using config offset|Finished starting connectors and tasks}
client-internal | {Finished stopping tasks|Finished flushing status backing store} in preparation for rebalance
client-internal | Wasn't able to resume work after last rebalance
client-internal | Wasn't unable to resume work after last rebalance
client-internal | Session key updated
client-internal | {Reading to end of config log; current|Finished reading to end of log and updated} config
client-internal | Didn't reach end of config log quickly enough
client-internal | Revoking current running assignment <_> because after
client-internal | Stopping connectors and tasks that are still assigned to this worker
client-internal 3.2.. | Unable to claim write privileges {for|to} config topic
client-internal | The protocol used by this Connect cluster has been downgraded
rejoin-requested 3.2.. | <reason:Failed to write to config topic as leader>; will rejoin group
commit-failed | Commit of offsets threw an unexpected exception for sequence number <_:\d+>: <error>
commit-failed 'error=timed out' | Commit of offsets timed out
consumer-crash | Task threw an uncaught and unrecoverable exception
- logger=DistributedHerder | Herder {starting|started|stopping|stopped}
client-internal | Was selected to perform assignments, but do not have latest config
client-internal | Handling {connector-only|task} config update
client-internal | Performing task assignment{ during generation: <generation> with memberId: <member:\S+>}
client-internal | Ensuring group membership is still active
coordinator-lost 2.4.. | Broker coordinator was unreachable for <ms>ms
poll-timeout 2.4.. | worker poll timeout has expired
rejoin-requested | Requesting rebalance <reason:(?:because|due to)[^\n]*>
- | {Executing|Completed} plan to restart
"""
    ),
)
