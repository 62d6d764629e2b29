"""Breaks that no unit is asked about: each must be seen by a checker while a whole cluster runs."""

from tests.mutations import Mutation

MUTATIONS = [
    # --- coordinator ---
    Mutation(
        "kemu/actors/coordinator/join_phase.py",
        "        shared.generation += 1\n",
        "        shared.generation += not shared.generation\n",
        "membership/generation",  # the second generation has the first one's number
    ),
    Mutation(
        "kemu/actors/coordinator/shared_state.py",
        "        self._machine.start_timer(member.timer, member.session_timeout_ms * US_PER_MS)",
        "        self._machine.stop_timer(member.timer)",
        "liveness",  # no session ever expires
        ("crash_for_good.toml:1",),
    ),
    Mutation(
        "kemu/actors/coordinator/group.py",
        "            self._machine.writes.begin(self.partition, (record,), write)",
        "            self._machine.writes.begin(self.partition, (record,), write)\n            write.done(_NONE, 0)",
        "membership/loaded",  # assignments are handed out before they are in the log
        ("coordinator-failover-stable:6",),
    ),
    Mutation(
        "kemu/actors/coordinator/group.py",
        """            return ErrorCode.ILLEGAL_GENERATION
        assert self.shared.state is not EMPTY, f"{self.name}: {request.member_id} is a member of an empty group"
        if self.shared.state is COMPLETING:
            return self._machine.rules.answer_while_completing
        return ErrorCode.REBALANCE_IN_PROGRESS if self.shared.state is PREPARING else _NONE""",
        """            return ErrorCode.ILLEGAL_GENERATION
        return _NONE""",
        "liveness",  # heartbeats do not say that the group rebalances
        ("crash_for_good.toml:1",),
    ),
    Mutation(
        "kemu/actors/coordinator/replay.py",
        "            offsets.commit(partition, Kept(record.value, position))",
        "            pass",
        "commits",  # a failover forgets the committed offsets
        ("coordinator-failover-empty:1",),
    ),
    Mutation(
        "kemu/actors/coordinator/group.py",
        "        if self.members:\n            shared.state = STABLE\n",
        "",
        "membership/loaded",  # a group with members is loaded as Empty
        ("coordinator-failover-stable:1",),
    ),
    # --- consumer ---
    Mutation(
        "kemu/protocol/rebalancing/rules.py",
        'and always calls the listener."""\n    return owned',
        'and always calls the listener."""\n    return ()',
        "cooperative",  # an eager member joins with what it owns
    ),
    Mutation(
        "kemu/protocol/rebalancing/rules.py",
        "    revoked = minus(owned, assigned)\n    return Changes(revoked,",
        "    revoked: Partitions = ()\n    return Changes(revoked,",
        "lifecycle",  # a cooperative member keeps what was taken away
        ("cooperative_growth.toml:1",),
    ),
    Mutation(
        "kemu/actors/consumer/positions.py",
        "partition=one.number, offset=one.position, leader_epoch",
        "partition=one.number, offset=one.position + 1, leader_epoch",
        "commits",  # commits are ahead of the work
        ("steady-group:1",),
    ),
    Mutation(
        "kemu/actors/consumer/positions.py",
        "                self._set(one, row.offset, COMMITTED, row.leader_epoch)",
        "                self._set(one, row.offset // 2, COMMITTED, row.leader_epoch)",
        "commits",  # a new owner begins before the committed offset
    ),
    Mutation(
        "kemu/actors/consumer/fetching.py",
        "                    last = first + at_most\n",
        "                    last = first + at_most\n                    first += 1\n",
        "lifecycle",  # a record is skipped where a poll cuts a batch
        ("overload.toml:1",),
    ),
    Mutation(
        "kemu/actors/consumer/positions.py",
        "        self.drop(revoked)\n",
        "",
        "lifecycle",  # revoked partitions are still owned
    ),
    Mutation(
        "kemu/actors/consumer/positions.py",
        "        if one.offset_epoch >= 0 and one.leader_epoch >= 0 and self._epoch_version is not None:",
        "        if one.offset_epoch >= 0 and one.leader_epoch < 0 and self._epoch_version is not None:",
        "no-lost-record",  # a member goes on behind what was cut, and skips the new leader's records
        ("all-brokers-lose-power:1",),
    ),
    # --- data path and world ---
    Mutation(
        "kemu/actors/broker/arranged.py",
        "                self.append(hosted.log_name, hosted.records(), token)\n",
        "                self.append(hosted.log_name, hosted.records(), token)\n"
        "                self._decide(hosted, ErrorCode.NONE)\n",
        "no-lost-record",  # records are acknowledged before they are durable
        ("broker_power_cuts.toml:6",),
    ),
    Mutation(
        "kemu/emulator/engine/world.py",
        """        if host.actors.get(actor.name) is not actor:
            return None
        if timer.due_us < 0:""",
        "        if timer.due_us < 0:",
        "lifecycle",  # the timers of the dead go on
        ("crash_for_good.toml:1",),
    ),
    Mutation(
        "kemu/emulator/engine/world.py",
        """        if host.condition is _PAUSED:
            host.held.append(entry)
            return None
        del actor.timers[timer.key]""",
        "        del actor.timers[timer.key]",
        "lifecycle",  # a paused host goes on working
        ("gc-pause-zombie:1",),
    ),
]
