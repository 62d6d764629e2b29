"""aiokafka 0.4 to 0.14, and faust, which draws partitions as a table on the next lines."""

import re

import attrs

from kemu.tools.logs.dialects import kafka_python
from kemu.tools.logs.wordings import values
from kemu.tools.logs.wordings.wordings import Dialect, Fields, table
from kemu.tools.logs.wrappers.wrappers import Opened


def _table(fields: Fields, _: Opened) -> None:
    fields["partitions"] = values.partitions_of_table(str(fields.pop("topics")))


_TABLE = "<topics:\\n(?:[^\\n]*\\n)*?[^\\n]*> for group <group>"

_OLD_WORDS = tuple(
    attrs.evolve(row, logger="aiokafka", releases="", number=1_000 + row.number) for row in kafka_python.DIALECT.rows
)
"""Words that aiokafka has from kafka-python, whose code it began with."""

DIALECT = Dialect(
    "aiokafka",
    "aiokafka",
    marks=re.compile(r"aiokafka"),
    rows=table(
        r"""
partitions-revoked read=table | Revoking previously assigned partitions{ }<topics:\n(?:[^\n]*\n)*?[^\n]*> for group
    <group>
partitions-assigned read=table | Setting newly assigned partitions{ }<topics:\n(?:[^\n]*\n)*?[^\n]*> for group <group>
partitions-assigned 0.4.. | Setting newly assigned partitions <partitions:frozenset.*?> for group <group>
partitions-revoked 0.4.. | Revoking previously assigned partitions <partitions:frozenset.*?> for group <group>
join-sent | (Re-)joining group <group>
join-answered 0.4.. | Joined group '<group>' (generation <generation>) with member_id <member:[^,\n]+>
assignment-synced 0.4.. | Successfully synced group <group:\S+> with generation <generation>
heartbeat-refused 0.4.. error=REBALANCE_IN_PROGRESS logger=aiokafka | Heartbeat failed for group <group> because it is
    rebalancing
heartbeat-refused 0.4.. error=UNKNOWN_MEMBER_ID | Heartbeat failed: local member_id was not recognized; resetting and
    re-joining group
heartbeat-refused 0.4.. error=ILLEGAL_GENERATION logger=aiokafka | Heartbeat failed for group <group>: generation id is
    not current
heartbeat-refused 0.4.. error=NOT_COORDINATOR logger=aiokafka | Heartbeat failed for group <group>: coordinator (node
    <node:[\w-]+>) is either
heartbeat-refused 0.4.. | Heartbeat failed: <error:\w*Error[^\n]*>
heartbeat-refused 0.4.. logger=aiokafka | Heartbeat failed: <error>
session-timeout 0.4.. | Heartbeat session expired - marking coordinator dead
coordinator-lost 0.4.. | Marking the coordinator dead (<node:node [\w-]+>)for group <group>{.}
coordinator-lost 0.4.. | Error sending <_:\w+> to node <node> [<reason:[^\]]*>] -- marking coordinator dead
join-failed | Unexpected error in join group '<_>' response: <error>
sync-failed logger=aiokafka | Unexpected error from SyncGroup: <error>
rejoin-requested 'reason=subscription changed' | Subscription changed during rebalance from
error-to-application | Unexpected error in coordinator routine
commit-failed | {OffsetCommit failed before join, ignoring|Failed to commit on finallization}: <error>
commit-failed | OffsetCommit failed for group <group:\S+> {because group is initializing|on partition <_> with offset}
commit-failed error=TOPIC_AUTHORIZATION_FAILED | OffsetCommit failed for unauthorized topics
commit-sent logger=aiokafka | Sending offset-commit request with <_> for group <group:\S+> to <node>
client-internal logger=aiokafka | {Unknown error|Error} fetching offset{s|} for
client-internal logger=aiokafka | Heartbeat send request failed: <error>. Will retry
client-internal logger=aiokafka | {Stopping heartbeat task|Join group response|Group Coordinator Request failed}
rejoin-requested 0.4.. 'reason=metadata changed' | Metadata for topic has changed from <_> to <_>.
commit-failed 0.4.. | OffsetCommit failed for group <group:\S+> <_:-|due to> <error>
""",
        table=_table,
    )
    + _OLD_WORDS,
)
