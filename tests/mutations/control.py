"""Breaks of replication and control. What past bugs show stands in ``tests/emulator/past_bugs/``."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(
        "kemu/actors/controller/partition_states.py",
        "PartitionState(outcome.leader, each.state.leader_epoch + 1, outcome.isr, context.epoch)",
        "PartitionState(outcome.leader, each.state.leader_epoch, outcome.isr, context.epoch)",
        "leadership",  # an election that opens no new epoch
        ("broker-crash-and-return:1",),
    ),
    Mutation(
        "kemu/actors/controller/partition_states.py",
        'settings[at[0]].get(UNCLEAN_ELECTION_ENABLE, default) == "true"',
        'settings[at[0]].get(UNCLEAN_ELECTION_ENABLE, default) != ""',
        "replicas",  # unclean elections where they are forbidden
        ("last_in_sync_down.toml:1",),
    ),
    Mutation(
        "kemu/actors/broker/isr.py",
        "        if self.proposed is None:\n            return self.members\n",
        "        if self.members:\n            return self.members\n",
        "leadership",  # those whom an ISR change would add do not count while it is undecided
        ("slow-follower:1",),
    ),
    Mutation(
        "kemu/actors/broker/control_requests.py",
        "elif request.controller_epoch < self.controller_epoch and manager.rules.checks_controller_epoch:",
        "elif False:",
        "leadership",  # a deposed controller is obeyed
        ("two_controllers.toml:3",),
    ),
    Mutation(
        "kemu/actors/controller/replica_states.py",
        "        context.leadership.update(known_now)\n",
        "",
        "duties",  # what the controller wrote does not get into what it tells the brokers
        ("broker-crash-and-return:1",),
    ),
    Mutation(
        "kemu/actors/controller/reports.py",
        "        yield from self._machine.store.write([delete(path) for path in paths])\n",
        "",
        "duties",  # announcements of ISR changes stay in the store
        ("isrs_by_leaders.toml:1",),
    ),
    Mutation(
        "kemu/actors/broker/metadata_cache.py",
        "                rows[number] = _row(state, alive)",
        "                rows.setdefault(number, _row(state, alive))",
        "duties",  # metadata caches keep what they heard first
        ("broker-crash-and-return:1",),
    ),
    Mutation(
        "kemu/actors/broker/replica.py",
        "        if offset <= self.log.high_watermark:\n            return False\n",
        "        if offset <= self.log.high_watermark or offset > 60:\n            return False\n",
        "duties",  # the high watermark gets stuck
        ("replicated-steady:1",),
    ),
    Mutation(
        "kemu/actors/broker/replica.py",
        "        return max(0, min((self.log.high_watermark - row.fetch_offset)",
        "        self.log._visible_end = self.log.end_offset\n"
        "        return max(0, min((self.log.high_watermark - row.fetch_offset)",
        "replicas",  # consumers are shown what is not committed
        ("slow-follower:1",),
    ),
    Mutation(
        "kemu/actors/broker/led_partitions.py",
        "        if error is _NONE and acks == _ALL and not self._manager.enough_in_sync(replica):\n",
        "        if False:\n",
        "isr",  # acks=all with fewer than min.insync.replicas in the ISR
        ("too_few_in_sync.toml:1",),
    ),
    Mutation(
        "kemu/actors/broker/led_partitions.py",
        "        if batch.producer_id >= 0:\n",
        "        if batch.producer_id < -1:\n",
        "idempotence",  # a batch that comes twice is appended twice
        ("lost_produce_replies.toml:2",),
    ),
    Mutation(
        "kemu/actors/broker/isr.py",
        "            and now_us - follower.caught_up_us > lag_us\n",
        "            and now_us - follower.caught_up_us > lag_us * 1_000\n",
        "duties/never-shrunk",  # nobody ever falls behind
        ("too_few_in_sync.toml:1",),
    ),
    Mutation(
        "kemu/actors/controller/brokers.py",
        "        led = [at for at in concerned if context.leadership[at].state.leader == broker]\n",
        "        led: list[tuple[str, int]] = []\n",
        "isr",  # controlled shutdown moves no leadership
        ("rolling-broker-restart:1",),
    ),
    Mutation(
        "kemu/actors/broker/control_requests.py",
        "        if manager.is_shutting_down:",
        "        if False:",
        "isr",  # a broker that closes comes back into ISRs
        ("closing_by_leaders.toml:2",),
    ),
    Mutation(
        "kemu/actors/controller/topics.py",
        "            if len(elsewhere) * 100 > limit * len(assigned) and may_balance:\n",
        "            if len(elsewhere) * 100 > limit * len(assigned) * 1_000:\n",
        "duties/not-balanced",  # preferred replicas never lead again
        ("leaders_return.toml:1",),
    ),
    Mutation(
        "kemu/actors/broker/control_requests.py",
        "            self._stop_one(state, request.delete_partitions, call)\n",
        "            pass\n",
        "duties",  # StopReplica is answered and not obeyed
        ("topic-created-and-deleted:1",),
    ),
    Mutation(
        "kemu/actors/broker/replica_manager.py",
        '            log.high_watermark = min(log.end_offset, max(log.start_offset, int(checkpoint or b"0")))\n',
        "            log.high_watermark = log.end_offset\n",
        "isr/watermark-at-start",  # all that a restarted broker finds counts as committed
        ("tail_at_a_crash.toml:1",),
    ),
    Mutation(
        "kemu/actors/store/disk.py",
        "    node.mzxid, node.pzxid, node.version, node.created = mzxid, pzxid, version, created\n",
        "    node.mzxid, node.pzxid, node.version, node.created = mzxid, pzxid, 0, created\n",
        "duties",  # a store that was away has forgotten the versions of its nodes
        ("store-away-for-long:2",),
    ),
    Mutation(
        "kemu/actors/store/store.py",
        "            session = self.sessions[each.id] = _Session(each.id, each.client, each.timeout_us)\n"
        "            self._keep_alive(session)\n",
        "            self.sessions[each.id] = _Session(each.id, each.client, each.timeout_us)\n",
        "duties/session-kept",  # who died while the store was away is never missed
        ("store-away-for-long:2",),
    ),
    Mutation(
        "kemu/actors/store/store.py",
        "        fired = self.watches.reset(event.peer, request.watches, request.last_zxid, self.tree)\n",
        "        fired = self.watches.reset(event.peer, (), request.last_zxid, self.tree)\n",
        "duties",  # clients that come back have no watches any more
        ("store-away-for-long:1",),
    ),
    Mutation(
        "kemu/actors/controller/reports.py",
        "        yield from machine.replicas.move(context.replicas_on(failing), ReplicaPhase.ONLINE)\n",
        "",
        "tests/emulator/injection/test_log_dirs.py::"
        "test_half_of_a_broker_goes_on_and_is_whole_when_it_was_started_again",
    ),
    Mutation(
        "kemu/actors/broker/control_requests.py",
        "        if replica is not None and replica.role is Role.OFFLINE:\n"
        "            return ErrorCode.KAFKA_STORAGE_ERROR\n"
        "        if replica is not None and self._is_of",
        "        if replica is not None and self._is_of",
        "replicas/failed-log-dir",  # what lies on a failed directory leads and follows on
        ("log-dir-fails:1",),
    ),
    Mutation(
        "kemu/actors/controller/partition_states.py",
        "not context.is_being_deleted(at[0]) and (topics",
        "not context.is_queued_for_deletion(at[0]) and (topics",
        "reassignment/unfinished",  # a deletion waits for a reassignment, which waits for a leader
        ("deleted_while_leaderless.toml:1",),
    ),
    Mutation(
        "kemu/actors/broker/control_requests.py",
        "        for replica in failed:\n            self.fail(replica)\n",
        "",
        "tests/actors/broker/test_log_dirs.py::test_what_lies_on_a_failed_directory_is_offline_and_the_rest_serves_on",
    ),
    Mutation(
        "kemu/actors/broker/follower_fetches.py",
        "replica is not None and broker in replica.followers and self._manager.rules.failed_fetches_count:",
        "replica is not None and broker in replica.followers:",
        "tests/actors/broker/test_fetcher.py"
        "::test_a_fetch_of_a_log_that_parted_ways_moves_nothing_the_leader_knows_of_its_follower",
    ),
    Mutation(
        "kemu/actors/broker/replica_fetchers.py",
        "            if row.diverging is not None:\n",
        "            if row.diverging is None and row.error is not _NONE:\n",
        "broken",  # a follower does not cut what its leader has not (KIP-595)
        ("tail_of_its_own.toml:1",),
    ),
]
