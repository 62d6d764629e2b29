"""What followers do with their logs: what they cut off, and what they delete."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # a follower cuts off records that its leader has, too
        "kemu/actors/broker/replica_fetchers.py",
        "        self._manager.truncate(each.replica, point.end_offset, point.why)\n",
        "        self._manager.truncate(each.replica, max(0, point.end_offset - 1), point.why)\n",
        "replicas/cut-too-much",
        ("deposed_unaware.toml:1",),
    ),
    Mutation(  # a follower keeps what its leader deleted
        "kemu/actors/broker/replica_fetchers.py",
        "        if row.log_start_offset > log.start_offset:\n",
        "        if row.log_start_offset > log.end_offset:\n",
        "replicas/start-behind",
        ("records_deleted.toml:1",),
    ),
]
