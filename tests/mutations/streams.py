"""Breaks of Streams' learners: each must be seen by the checker of tasks while a whole cluster runs."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # owners are not told which of their tasks others learn
        "protocol/streams/learner.py",
        "                being_learned=tuple(task for task in sorted(seat.active) if task in learned),\n",
        "                being_learned=(),\n",
        "tasks",
        ("streams-scale-up:1",),
    ),
    Mutation(  # a learner that is ready is not given the task that its owner paused
        "protocol/streams/learner.py",
        "            if not ready:\n                continue\n",
        "            if ready or not ready:\n                continue\n",
        "tasks",
        ("streams-scale-up:1",),
    ),
    Mutation(  # who is leaving is told to close while it still has tasks
        "protocol/streams/learner.py",
        "                shutdown=seat.member.leaving and not has and not seat.learning,\n",
        "                shutdown=seat.member.leaving,\n",
        "tasks",
        ("streams-scale-down:1",),
    ),
    Mutation(  # a task goes to its new owner while its old one still works on it
        "protocol/streams/leading.py",
        "if all(owner.get(at, one) == one for at in tasks[task])",
        "if tasks[task]",
        "tasks",
        ("streams_sticky.toml:1",),
    ),
    Mutation(  # a learner that has caught up never asks for the rebalance in which it becomes active
        "actors/streams/thread.py",
        "            self.ask_for_rebalance(Rejoin.READY)\n",
        "            pass\n",
        "tasks",
        ("streams_learned.toml:1",),
    ),
    Mutation(  # an application begins at the ends of partitions that nothing is committed of
        "actors/streams/instance.py",
        '            auto_offset_reset="earliest",\n            internal_leave_group_on_close=False,\n',
        '            auto_offset_reset="latest",\n            internal_leave_group_on_close=False,\n',
        "tasks",
        ("streams_learned.toml:1",),
    ),
    Mutation(  # what is committed goes back now and then
        "actors/consumer/commits.py",
        "    return OffsetToCommit(topic=at[0], partition=at[1], offset=offset)\n",
        "    return OffsetToCommit(topic=at[0], partition=at[1], offset=offset % 100)\n",
        "tasks",
        ("streams_learned.toml:1",),
    ),
    Mutation(  # who asks for a rebalance says what it said before: the coordinator tells it the generation there is
        "actors/streams/thread.py",
        "        self._nonce = (self._nonce + 1) % _NONCES\n",
        "",
        "tasks",
        ("streams_warm_ups.toml:3",),
    ),
]
