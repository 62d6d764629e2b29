"""ruby-kafka 0.5 to 1.5: ``consumer_group.rb`` and ``consumer.rb``."""

from kemu.tools.logs.wordings.wordings import Dialect, table

DIALECT = Dialect(
    "ruby-kafka",
    "ruby-kafka",
    rows=table(
        r"""
coordinator-lookup | Getting group coordinator for `<group:[^`]+>
coordinator-found | Coordinator for `<group:[^`]+>` is <node:\d+>. Connecting
coordinator-lost | Failed to find coordinator for group `<group:[^`]+>`; retrying
coordinator-lost error=COORDINATOR_NOT_AVAILABLE | Group coordinator not available for group `<group:[^`]+>
join-sent | Joining group `<group:[^`]+>
join-failed | Connection error while trying to join group `<group:[^`]+>`; retrying
join-failed error=UNKNOWN_MEMBER_ID | Failed to join group; resetting member id and retrying
join-failed error=COORDINATOR_LOAD_IN_PROGRESS | Coordinator broker still loading, retrying
join-answered | Joined group `<group:[^`]+>` with member id `<member:[^`]+>
leader-of-group inferred=group | Chosen as leader of group `<group:[^`]+>
assignment-synced inferred=group | Partitions assigned for `<_:[^`]+>`: <_>
member-leaves | Leaving group `<group:[^`]+>
heartbeat-sent inferred=group | Sending heartbeat...
heartbeat-refused inferred=group | Error sending heartbeat: <error>
rejoin-requested inferred=group reason=REBALANCE_IN_PROGRESS | Group rebalance in progress, re-joining
commit-sent inferred=group | Committing offsets{ with recommit}: <_>
commit-failed inferred=group | Error committing offsets: <error>
client-internal | [{join_group|sync_group|heartbeat|leave_group|offset_commit|offset_fetch|find_coordinator}]
    {Sending|Waiting|Received|Timed out|Closing}
client-internal | Retrying to make final offsets commit
"""
    ),
)
