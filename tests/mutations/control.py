"""Breaks of replication and control. What past bugs show stands in ``tests/emulator/test_past_replica_bugs.py``."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(
        "actors/controller/partition_states.py",
        "PartitionState(outcome.leader, each.state.leader_epoch + 1, outcome.isr, context.epoch)",
        "PartitionState(outcome.leader, each.state.leader_epoch, outcome.isr, context.epoch)",
        "leadership",  # an election that opens no new epoch
        ("broker-crash-and-return:1",),
    ),
    Mutation(
        "actors/controller/partition_states.py",
        'settings[at[0]].get(UNCLEAN_ELECTION_ENABLE, default) == "true"',
        'settings[at[0]].get(UNCLEAN_ELECTION_ENABLE, default) != ""',
        "replicas",  # unclean elections where they are forbidden
        ("last_in_sync_down.toml:1",),
    ),
    Mutation(
        "actors/broker/isr.py",
        "        if self.proposed is None:\n            return self.members\n",
        "        if self.members:\n            return self.members\n",
        "leadership",  # those whom an ISR change would add do not count while it is undecided
        ("slow-follower:1",),
    ),
    Mutation(
        "actors/broker/control_requests.py",
        "elif manager.rules.checks_controller_epoch and request.controller_epoch < self.controller_epoch:",
        "elif False:",
        "leadership",  # a deposed controller is obeyed
        ("two_controllers.toml:3",),
    ),
    Mutation(
        "actors/controller/replica_states.py",
        "        context.leadership.update(known_now)\n",
        "",
        "agreement",  # what the controller wrote does not get into what it tells the brokers
        ("broker-crash-and-return:1",),
    ),
    Mutation(
        "actors/controller/reports.py",
        "        yield from self._machine.store.write([delete(path) for path in paths])\n",
        "",
        "agreement",  # announcements of ISR changes stay in the store
        ("slow-follower:1",),
    ),
    Mutation(
        "actors/broker/metadata_cache.py",
        "                rows[number] = _row(state, alive)",
        "                rows.setdefault(number, _row(state, alive))",
        "agreement",  # metadata caches keep what they heard first
        ("broker-crash-and-return:1",),
    ),
    Mutation(
        "actors/broker/replica.py",
        "        if offset <= self.log.high_watermark:\n            return False\n",
        "        if offset <= self.log.high_watermark or offset > 60:\n            return False\n",
        "recovery",  # the high watermark gets stuck
        ("replicated-steady:1",),
    ),
    Mutation(
        "actors/broker/replica.py",
        "        return max(0, min((self.log.high_watermark - row.fetch_offset)",
        "        self.log._visible_end = self.log.end_offset\n"
        "        return max(0, min((self.log.high_watermark - row.fetch_offset)",
        "replicas",  # consumers are shown what is not committed
        ("slow-follower:1",),
    ),
]
