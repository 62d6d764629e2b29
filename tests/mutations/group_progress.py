"""Coordinators and members that leave out what they owe: seen while a fault lasts elsewhere, or long before the end."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # the coordinator never expires a member
        "kemu/actors/coordinator/coordinator.py",
        "            group.session_timer_fired(member_id)\n",
        "            pass\n",
        "group-progress",
        ("network-split:1",),
    ),
    Mutation(  # the last join does not end the join phase: its timer does
        "kemu/actors/coordinator/join_phase.py",
        "if shared.state is PREPARING and self.all_joined and not initial and not self._is_over:",
        "if self._is_over:",
        "group-progress/join-unfinished",
        ("cooperative-scale-out-by-one:1",),
    ),
    Mutation(  # a member that lost its membership does not join again
        "kemu/actors/consumer/membership.py",
        "        self.around_join.membership_reset()\n        self.request_rejoin(rejoins or why)\n",
        "        self.around_join.membership_reset()\n",
        "group-progress/not-rejoined",
        ("gc-pause-zombie:1",),
    ),
    Mutation(  # a member that lost its coordinator never looks for another
        "kemu/actors/clients/discovery.py",
        "        self.coordinator = None\n        self._machine.note(",
        "        self._finding = self._finding_in_background = True\n        self.coordinator = None\n"
        "        self._machine.note(",
        "group-progress/not-rejoined",
        ("coordinator-failover-stable:1",),
    ),
    Mutation(  # a member that is told of another leader does not ask which
        "kemu/actors/consumer/fetching.py",
        "            one.waits_for_metadata = True\n            self._machine.metadata.refresh()\n",
        "            one.waits_for_metadata = True\n",
        "group-progress/records-unread",
        ("preferred-leaders-return:1",),
    ),
    Mutation(  # a member whose interval commit failed never commits by interval again
        "kemu/actors/consumer/commits.py",
        "            self._next_us = self._machine.now_us + self._retry.first_us\n",
        "            self._next_us = 1 << 62\n",
        "group-progress/offsets-uncommitted",
        ("commits_refused.toml:1",),
    ),
    Mutation(  # the leader keeps the assignment to itself
        "kemu/actors/consumer/rebalancing.py",
        "        membership.send_sync(tuple(rows))\n",
        "        del rows\n",
        "group-progress/sync-unfinished",
        ("steady-group:1",),
    ),
    Mutation(  # an Empty group waits for others half as long as it should
        "kemu/actors/coordinator/join_phase.py",
        "            self._start_timer(self._delay_ms)\n        elif",
        "            self._start_timer(self._delay_ms // 2)\n        elif",
        "membership/join-phase",
        ("rare_commits.toml:1",),
    ),
    Mutation(  # a static member that came back to a Stable group is not answered
        "kemu/actors/coordinator/static.py",
        "            phase.answer(caller, member, ())\n",
        "",
        "group-progress/join-unfinished",
        ("rolling-restart-static:1",),
    ),
    Mutation(  # a member that closes awaits no answer
        "kemu/actors/consumer/closing.py",
        "        owes = coordinator is not None and machine",
        "        owes = coordinator is None and machine",
        "group-progress/closed-early",
        ("cooperative-scale-in:1",),
    ),
    Mutation(  # a join phase waits twice as long for members as they may take
        "kemu/actors/coordinator/join_phase.py",
        "            self._start_timer(shared.members.rebalance_timeout_ms())\n",
        "            self._start_timer(shared.members.rebalance_timeout_ms() * 2)\n",
        "group-progress/join-unfinished",
        ("session_outlasts_join.toml:1",),
    ),
    Mutation(  # a member whose application does not poll stays
        "kemu/actors/consumer/polling.py",
        "            self._poll_by_us = self.now_us + self._max_poll_us\n            if not",
        "            self._poll_by_us = self.now_us + self._max_poll_us * 10\n            if not",
        "group-progress/member-kept",
        ("silent_application.toml:1",),
    ),
    Mutation(  # a member that gives nothing up does not take what it is given either
        "kemu/actors/consumer/rebalancing.py",
        "            self._take()\n        return machine.polling\n",
        "            membership.assignment_taken()\n        return machine.polling\n",
        "group-progress/not-taken",
        ("short_waits.toml:1",),
    ),
]
