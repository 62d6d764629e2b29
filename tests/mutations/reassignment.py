"""Breaks of reassignments: each invariant of the checker ``reassignment`` has one."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(
        "kemu/actors/controller/reassignment.py",
        "        yield from self._work.stop(at, step.drop)\n",
        "        yield from self._work.stop(at, (*step.drop, step.replicas[-1]))\n",
        "reassignment",  # I11: a replica that is to stay is deleted, too
        ("moved.toml:1",),
    ),
    Mutation(
        "kemu/protocol/reassign/moves.py",
        "        return (*self.replicas, *self.drop)\n",
        "        return self.replicas\n",
        "reassignment",  # I11: while a step runs the store does not have what it drops
        ("moved.toml:1",),
    ),
    Mutation(
        "kemu/protocol/reassign/moves.py",
        "(leader, *others[: max(0, min(deficit, slots) - 1)])",
        "(leader, *others[:1])",
        "reassignment",  # I13: one replica more than allowed is copied
        ("moved.toml:1",),
    ),
    Mutation(
        "kemu/protocol/reassign/batches.py",
        "        while len(self.running) + len(self._idle) < self.limits.partition_movements:\n",
        "        while len(self.running) + len(self._idle) <= self.limits.partition_movements:\n",
        "reassignment",  # I13: one partition more than allowed is under way
        ("moved.toml:1",),
    ),
    Mutation(
        "kemu/protocol/reassign/batches.py",
        "        has_room = step.kind is StepKind.REORDER or len(self.running) < self.limits.partition_movements\n",
        "        has_room = True\n",
        "reassignment/too-many-partitions",  # a lowered limit does not hold back the next steps of started partitions
        ("reassign-limits-lowered:1",),
    ),
    Mutation(
        "kemu/protocol/reassign/batches.py",
        "        self._leaders_running += step.moves_leader\n        return at, step\n",
        "        return at, step\n",
        "reassignment",  # I13: leaders that are moved are not counted
        ("moved.toml:1",),
    ),
    Mutation(
        "kemu/protocol/reassign/moves.py",
        "    late = late_replicas(move, step, isr)\n    if late:\n        return not_in_sync",
        "    late = ()\n    if late:\n        return not_in_sync",
        "reassignment",  # I14: replicas go before those that come are in sync
        ("called_back.toml:1",),
    ),
    Mutation(
        "kemu/actors/controller/reassignment.py",
        "            wanted = assignment.origin if target is None else target\n",
        "            wanted = tuple(sorted(assignment.origin)) if target is None else target\n",
        "reassignment",  # I15: what is called back is not in its order again
        ("called_back.toml:1",),
    ),
    Mutation(
        "kemu/actors/controller/reassignment.py",
        "        if not self._waits_for(at, step, isr):\n            yield from self._commit(at, step)\n",
        "        if not isr:\n            yield from self._commit(at, step)\n",
        "reassignment",  # Q5: nobody notices that a step is over
        ("moved.toml:1",),
    ),
    Mutation(
        "kemu/actors/controller/topic_deletion.py",
        "        self._queue(topics)\n"
        "        self.wait_for_reassignment(topic for topic, _ in self._machine.context.reassigning_partitions())\n",
        "        self._queue(topics)\n",
        "reassignment",  # a topic is deleted while its partitions are on their way
        ("delete-while-reassigning:1",),
    ),
    Mutation(
        "kemu/actors/controller/reassignment.py",
        "        return of_limit(batches.limits, of_leaders=batches.waits_for_leaders(at))\n",
        "        return None\n",
        "reassignment/unnamed",  # Q5: of what is queued nobody says what it waits for
        ("drain-a-broker:1",),
    ),
    Mutation(
        "kemu/protocol/reassign/requests.py",
        "    if current is None or deleted:\n",
        "    if current is not None or deleted:\n",
        "reassignment/refused",  # Q5: a partition that is there is refused as if it were not
        ("moved.toml:1",),
    ),
    Mutation(
        "kemu/protocol/reassign/batches.py",
        "        while len(self.running) + len(self._idle) < self.limits.partition_movements:\n",
        "        while len(self.running) + len(self._idle) < min(1, self.limits.partition_movements):\n",
        "reassignment/unused",  # I13: one at a time, although more may
        ("brokers-join-under-load:1", "decommission-under-load:1"),
    ),
    Mutation(
        "kemu/protocol/reassign/moves.py",
        "    fits = len(new) == len(missing) <= slots and len(excess) <= most_drops\n",
        "    fits = len(new) == len(missing) <= slots and len(excess) < most_drops\n",
        "reassignment/not-the-step",  # I13: two steps where one would do
        ("decommission-under-load:1",),
    ),
]
