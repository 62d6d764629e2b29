"""Breaks of committed offsets and of positions; runs see each."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # in every other interval of 5 s a commit says 0
        "kemu/actors/consumer/positions.py",
        "offset=one.position, leader_epoch=one.offset_epoch\n",
        "offset=one.position * (self._machine.now_us // 5_000_000 % 2), leader_epoch=one.offset_epoch\n",
        "commits/went-back",
        ("steady-group:1",),
    ),
    Mutation(  # an empty group is deleted at the next check although it has offsets
        "kemu/actors/coordinator/offset_requests.py",
        "return len(offsets.committed) == expired and not offsets.being_written",
        "return not offsets.being_written",
        "commits/removed-too-early",
        ("group_empty_for_a_moment.toml:1",),
    ),
    Mutation(  # a member resets its positions whenever the partition has another leader
        "kemu/actors/consumer/positions.py",
        "            self._validate(one)\n\n    def _leaders_moved",
        "            if one.position > 0 and one.seeking is Seeking.FETCHING:\n"
        "                self.reset(one, 'another leader')\n\n    def _leaders_moved",
        "commits/reset-in-range",
        ("broker-crash-and-return:1",),
    ),
    Mutation(  # "earliest" is read as "latest"
        "kemu/actors/consumer/positions.py",
        '"earliest": EARLIEST_TIMESTAMP',
        '"earliest": LATEST_TIMESTAMP',
        "commits/wrong-reset",
        ("steady-group:1",),
    ),
    Mutation(  # a position that the leader has is moved to where the position's epoch ends, as after a truncation
        "kemu/actors/consumer/positions.py",
        "if not undefined and row.end_offset >= one.position:",
        "if undefined and row.end_offset >= one.position:",
        "commits/not-truncated",
        ("broker-crash-and-return:1",),
    ),
    Mutation(  # offsets of an empty group last a minute, whatever offsets.retention.minutes says
        "kemu/actors/coordinator/group.py",
        "retention_ms = self._machine.config.offsets_retention_minutes * MS_PER_MINUTE",
        "retention_ms = MS_PER_MINUTE",
        "commits/removed-too-early",
        ("group_empty_for_minutes.toml:1",),
    ),
    Mutation(  # "latest" is read as "earliest"
        "kemu/actors/consumer/positions.py",
        '"latest": LATEST_TIMESTAMP',
        '"latest": EARLIEST_TIMESTAMP',
        "commits/wrong-reset",
        ("reads_latest.toml:1",),
    ),
    Mutation(  # small committed offsets count as none
        "kemu/actors/consumer/positions.py",
        "            if row.offset >= 0:\n",
        "            if row.offset > 30:\n",
        "commits/position-not-committed",
        ("coordinator-failover-stable:4",),
    ),
    Mutation(  # a member with auto-commit gives up its partitions before a join without a commit
        "kemu/actors/consumer/rebalancing.py",
        "        if not config.enable_auto_commit:\n            return True\n        if not self._prepare_until_us:",
        "        if config.enable_auto_commit:\n            return True\n        if not self._prepare_until_us:",
        "commits/given-up-uncommitted",
        ("rolling-restart-dynamic:1",),
    ),
    Mutation(  # only offsets that are being written expire
        "kemu/actors/coordinator/offsets.py",
        "            if partition in self.being_written:\n                continue\n            since = base",
        "            if partition not in self.being_written:\n                continue\n            since = base",
        "commits/removed-too-late",
        ("group_empty_for_good.toml:1",),
    ),
    Mutation(  # a position must be committed although its leader has not validated it
        "kemu/emulator/checkers/commits.py",
        "        return is_new or (seen.actor, seen.life, at) in self._validated",
        "        return is_new",
        "tests/emulator/checkers/test_causes.py::test_a_position_is_not_committed_until_the_leader_has_validated_it",
    ),
]
