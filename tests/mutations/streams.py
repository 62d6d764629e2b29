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
]
