"""Coordinators that treat members otherwise than their requests allow, and leaders that break an assignor's promise."""

from tests.mutations import Mutation

_CALM = ("rare_commits.toml:1", "rolling-restart-dynamic:1")

MUTATIONS = [
    Mutation(  # heartbeats do not prolong a session
        "kemu/actors/coordinator/group.py",
        "            self.shared.start_session(self.members.by_id[request.member_id])\n            if self._machine",
        "            if self._machine",
        "membership/evicted",
        ("rare_commits.toml:1",),
    ),
    Mutation(  # members that joined are dropped with those that did not, when a join phase ends in time
        "kemu/actors/coordinator/join_phase.py",
        "        if len(self.parked) < len(members):\n            for member in",
        "        self.drop(next(iter(members.by_id), ''), 'at random')\n"
        "        if len(self.parked) < len(members):\n            for member in",
        "membership/evicted",
        _CALM,
    ),
    Mutation(  # a static member that merely rejoins is fenced
        "kemu/actors/coordinator/joining.py",
        "        if error is not _NONE:\n            self._phase.refuse(caller, error, member_id)\n",
        "        if error is not _NONE or instance_id is not None:\n"
        "            error = error or ErrorCode.FENCED_INSTANCE_ID\n"
        "            self._phase.refuse(caller, error, member_id)\n",
        "membership/refused",
        ("static_zombie.toml:1",),
    ),
    Mutation(  # a static member that restarts during a rebalance is fenced by the coordinator that knows its new id
        "kemu/actors/coordinator/static.py",
        "        if shared.state is PREPARING:\n            self._phase.complete_if_all_joined()\n",
        (
            "        if shared.state is PREPARING:\n"
            "            self._phase.refuse_parked(member_id, ErrorCode.FENCED_INSTANCE_ID, member_id)\n"
        ),
        "membership/refused",
        ("static_restart_while_joining.toml:2",),
    ),
    Mutation(  # a commit of a generation that is over is accepted
        "kemu/actors/coordinator/group.py",
        """                return error
            if generation != self.shared.generation:
                return ErrorCode.ILLEGAL_GENERATION
        else:""",
        """                return error
        else:""",
        "membership/accepted",
        ("static_zombie.toml:2",),
    ),
    Mutation(  # heartbeats of a group that is Stable are told to join again
        "kemu/actors/coordinator/group.py",
        "        return ErrorCode.REBALANCE_IN_PROGRESS if self.shared.state is PREPARING else _NONE\n\n    # ---",
        "        return ErrorCode.REBALANCE_IN_PROGRESS\n\n    # ---",
        "membership/refused",
        _CALM,
    ),
    Mutation(  # a follower that repeats its join makes the group rebalance
        "kemu/actors/coordinator/joining.py",
        "        elif shared.state is STABLE and unchanged and not leads:",
        "        elif shared.state is DEAD:",
        "membership/no-cause",
        ("enforced_rejoins.toml:1",),
    ),
    Mutation(  # each join phase is followed by another one
        "kemu/actors/coordinator/syncing.py",
        '        self._shared.change(GroupChange.ASSIGNMENT, "the leader\'s assignment is in the log")\n',
        '        self._shared.change(GroupChange.ASSIGNMENT, "the leader\'s assignment is in the log")\n'
        "        if self._shared.generation % 2:\n"
        '            self._shared.change(GroupChange.JOIN_PHASE, "once more")\n',
        "membership/no-cause",
        _CALM,
    ),
    Mutation(  # a join phase takes half of its time
        "kemu/actors/coordinator/join_phase.py",
        "        self._machine.start_timer(self._timer, after_ms * US_PER_MS + late_us)\n",
        "        self._machine.start_timer(self._timer, after_ms * US_PER_MS // 2)\n",
        "membership/join-phase",
        ("slow_callbacks.toml:1",),
    ),
    Mutation(  # a join phase waits for twice the longest rebalance timeout
        "kemu/actors/coordinator/join_phase.py",
        "        else:\n            self._start_timer(shared.members.rebalance_timeout_ms())\n",
        "        else:\n            self._start_timer(2 * shared.members.rebalance_timeout_ms())\n",
        "membership/join-phase",
        ("slow_callbacks.toml:1",),
    ),
    Mutation(  # assignments are handed out before the group's record is in the log
        "kemu/actors/coordinator/group.py",
        "            self._machine.writes.begin(self.partition, (record,), write)\n\n    def _sync_written(",
        "            self._machine.writes.begin(self.partition, (record,), write)\n"
        "            self.syncing.assign(assignments)\n\n    def _sync_written(",
        "membership/accepted",
        _CALM,
    ),
    Mutation(  # an operator who names an instance is told that it is no member
        "kemu/actors/coordinator/group.py",
        "            error = ErrorCode.UNKNOWN_MEMBER_ID if member_id is None else _NONE\n",
        "            error = ErrorCode.UNKNOWN_MEMBER_ID if member_id is not None else _NONE\n",
        "membership/refused",
        ("expelled.toml:1",),
    ),
    Mutation(  # a cooperative member keeps what it does not subscribe to any more when it joins
        "kemu/protocol/rebalancing/rules.py",
        "    return tuple(one for one in owned if one[0] not in wanted) or None\n",
        "    return None\n",
        "membership/not-revoked",
        ("subscribes_to_less.toml:1",),
    ),
    Mutation(  # the first join phase waits for two delays
        "kemu/actors/coordinator/join_phase.py",
        "            self._start_timer(self._delay_ms)\n        elif",
        "            self._start_timer(2 * self._delay_ms)\n        elif",
        "membership/join-phase",
        _CALM,
    ),
    Mutation(  # an id that was handed out lasts for two session timeouts
        "kemu/actors/coordinator/joining.py",
        "session_key(shared.name, member_id), request.session_timeout_ms * US_PER_MS)\n",
        "session_key(shared.name, member_id), 2 * request.session_timeout_ms * US_PER_MS)\n",
        "membership/join-phase",
        ("dies_with_a_new_id.toml:1",),
    ),
    Mutation(  # a member leaves when max.poll.interval.ms has passed since it first polled, though it polled meanwhile
        "kemu/actors/consumer/polling.py",
        "        if self.now_us >= at_us:\n",
        "        if self.now_us >= self.closes_at_us:\n",
        "lifecycle/left-in-time",
        ("short_waits.toml:1", "slow_callbacks.toml:1"),
    ),
    Mutation(  # the leader is told of itself alone
        "kemu/actors/coordinator/members.py",
        "                for m in map(self.by_id.__getitem__, self.hashed())\n",
        "                for m in map(self.by_id.__getitem__, self.hashed()[:1])\n",
        "membership/join-answer",
        _CALM,
    ),
    Mutation(  # members are given the assignment of the first of them
        "kemu/actors/coordinator/syncing.py",
        "            member.assignment = assignments[member.member_id]\n",
        "            member.assignment = next(iter(assignments.values()))\n",
        "membership/assignment",
        _CALM,
    ),
    Mutation(  # range gives the first member everything
        "kemu/protocol/assign/range.py",
        "        return max(0, share - self.taken[member])",
        "        return max(0, max(share, self.count) - self.taken[member])",
        "membership/unbalanced",
        _CALM,
    ),
    Mutation(  # roundrobin deals every other partition twice
        "kemu/protocol/assign/round_robin.py",
        "                assignment[member] = everything[place :: len(circle)]\n",
        "                assignment[member] = everything[place // 2 :: len(circle)]\n",
        "membership/not-divided",
        ("roundrobin_group.toml:1",),
    ),
    Mutation(  # roundrobin leaves the first partitions out
        "kemu/protocol/assign/round_robin.py",
        "                assignment[member] = everything[place :: len(circle)]\n",
        "                assignment[member] = everything[place + len(circle) :: len(circle)]\n",
        "membership/left-out",
        ("roundrobin_group.toml:1",),
    ),
    Mutation(  # range cuts every other topic backwards
        "kemu/protocol/assign/range.py",
        "        for member in self.subscribers:\n            end = ",
        "        for member in self.subscribers[:: 1 if len(self.topic) % 4 else -1]:\n            end = ",
        "membership/not-ranged",
        ("racks.toml:1",),
    ),
    Mutation(  # range holds every rack for a member's own
        "kemu/protocol/assign/range.py",
        "        return rack is None or (bool(self.replicas) and rack in self.replicas[partition])\n",
        "        return rack is None or bool(self.replicas)\n",
        "membership/off-rack",
        ("racks.toml:1",),
    ),
    Mutation(  # the sticky assignors forget what members own
        "kemu/protocol/assign/as_kafka.py",
        "        kept.append(mine)\n    shares",
        "        kept.append(mine[:0])\n    shares",
        "membership/not-sticky",
        ("cooperative_growth.toml:2", "cooperative-scale-out-by-one:2"),
    ),
    Mutation(  # a consumer joins again after every heartbeat that was answered well
        "kemu/actors/consumer/heartbeats.py",
        "            self._failures = 0\n            return\n",
        (
            "            self._failures = 0\n"
            "            self._membership.request_rejoin(ALREADY_REBALANCING, 0)\n"
            "            return\n"
        ),
        "useless-work/rejoin-without-cause",
        _CALM,
    ),
    Mutation(  # a consumer sends heartbeats ten times as often as it was set to
        "kemu/actors/consumer/heartbeats.py",
        "        self._interval_us = at_least_1_ms(config.heartbeat_interval_ms)\n",
        "        self._interval_us = at_least_1_ms(config.heartbeat_interval_ms) // 10\n",
        "pace/too-soon",
        _CALM,
    ),
]
