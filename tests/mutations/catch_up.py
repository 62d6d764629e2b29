"""Breaks of KIP-333's mode: each must be seen by its checker while a whole cluster runs."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # the second consumer reads on behind the end of its range
        "kemu/actors/consumer/child.py",
        "            buffer[-1] = (buffer[-1][0], end, buffer[-1][2])\n",
        "            pass\n",
        "catch-up",
        ("catch-up-both-die:1",),
    ),
    Mutation(  # it commits what the application is still at work on
        "kemu/actors/consumer/child.py",
        "offsets = {at: work.processed for at, work in self._work.items()} if only is None else only",
        "offsets = {at: work.done for at, work in self._work.items()} if only is None else only",
        "catch-up",
        ("catch-up-child-dies:1",),
    ),
    Mutation(  # a coordinator that takes over forgets the tokens: nobody works off what is left of a range
        "kemu/actors/coordinator/replay.py",
        "            second.open(partition, record.start, KeptRange(record.value, position))",
        "            pass",
        "catch-up",
        ("catch_up_failover.toml:1",),
    ),
    Mutation(  # a range begins where the first consumer committed last, whatever ranges there are
        "kemu/protocol/catch_up.py",
        "    base = max(offset for offset in (logs.primary, logs.last_end) if offset is not None)\n",
        "    base = 0 if logs.primary is None else max(0, logs.primary - 20)\n",
        "catch-up",
        ("catch-up-crash-loop:1",),
    ),
    Mutation(  # the second consumer's commits are not fenced
        "kemu/actors/coordinator/range_requests.py",
        "            error = group.why_no_commit(request.generation, request.member_id, request.instance_id)\n",
        "            error = _NONE\n",
        "tests/actors/consumer/test_parallel_rebalance.py"
        "::test_a_script_comes_out_of_the_machines_state_by_state[rebalance_to_other_member_unclean]",
    ),
    Mutation(  # a recovery opens no range for what lies behind the commit, and the first consumer reads it
        "kemu/protocol/catch_up.py",
        "    if log_end > base:\n",
        "    if not log_end > base:\n",
        "catch-up/not-jumped",
        ("catch-up-crash:1",),
    ),
    Mutation(  # the second consumer does not commit by interval
        "kemu/actors/consumer/child.py",
        "        if self.config.enable_auto_commit and not self._interval_runs:\n",
        "        if not self.config.enable_auto_commit and not self._interval_runs:\n",
        "catch-up/second-uncommitted",
        ("catch-up-crash:1",),
    ),
]
