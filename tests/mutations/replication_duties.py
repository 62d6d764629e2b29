"""Controllers, leaders and followers that leave undone what they owe: each is seen while faults last elsewhere."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # a leader never takes a follower into the ISR
        "kemu/actors/broker/replica.py",
        "        return (*self.in_sync.members, broker)\n",
        "        return None\n",
        "duties",
        ("broker-crash-and-return:1",),
    ),
    Mutation(  # a follower fetches nothing once the leader has changed
        "kemu/actors/broker/replica_fetchers.py",
        "        loop.followed[followed.at] = followed\n",
        "        if not replica.leader_epoch:\n            loop.followed[followed.at] = followed\n",
        "duties/fetch-stalled",
        ("broker-crash-and-return:1",),
    ),
    Mutation(  # the high watermark waits for every follower, however long it is away
        "kemu/actors/broker/isr.py",
        "follower.end_offset < least and (follower.broker in counted or now_us - follower.caught_up_us <= lag_us):",
        "follower.end_offset < least:",
        "duties/watermark-waits",
        ("core_alone.toml:1",),
    ),
    Mutation(  # nobody who waits for acks=all is answered when the high watermark rises
        "kemu/actors/broker/high_watermarks.py",
        "                self._calls.decide(ack.call, ack.row, ack.outcome(error))\n",
        "                ack.outcome(error)\n",
        "duties/unanswered",
        ("replicated-steady:1",),
    ),
    Mutation(  # a step whose replicas are in sync is not committed
        "kemu/actors/controller/reassignment.py",
        "            yield from self._commit(at, step)\n            yield from self._reschedule()\n",
        "            pass\n",
        "duties/step-kept",
        ("reassign-controller-dies:1",),
    ),
    Mutation(  # nobody is told to delete the log of a replica
        "kemu/actors/controller/batch.py",
        "        for broker, stops in self._stop_replica.items():\n            if broker in self._context.live:\n",
        "        for broker, stops in self._stop_replica.items():\n"
        "            if broker in self._context.live and not any(row.delete_partition for row in stops.values()):\n",
        "duties/replica-kept",
        ("move-to-new-brokers:1",),
    ),
    Mutation(  # leaders are not moved back at intervals
        "kemu/actors/controller/topics.py",
        "        yield from self.rebalance_leaders()\n        interval",
        "        yield from ()\n        interval",
        "duties/not-balanced",
        ("leaders_return.toml:1",),
    ),
    Mutation(  # leaders are moved back twice in an interval
        "kemu/actors/controller/topics.py",
        "        self._machine.start_timer(REBALANCE, interval_us)",
        "        self._machine.start_timer(REBALANCE, interval_us // 2)",
        "duties/moved-early",
        ("leaders_return_twice.toml:2",),
    ),
    Mutation(  # the store waits for a silent client for half of its session timeout
        "kemu/actors/store/store.py",
        '        self.start_timer(("session", str(session.id)), us)',
        '        self.start_timer(("session", str(session.id)), us // 2)',
        "duties/session-cut",
        ("broker-crash-and-return:1",),
    ),
    Mutation(  # nobody's metadata cache is told of an election
        "kemu/actors/controller/batch.py",
        "            if broker in live:\n                request = UpdateMetadata",
        "            if broker in live and not rows:\n                request = UpdateMetadata",
        "duties/stale-metadata",
        ("broker-crash-and-return:1",),
    ),
    Mutation(  # followers are not told of an election
        "kemu/actors/controller/batch.py",
        "            if broker in self._context.live:\n                self._send_leader_and_isr(",
        "            if broker in self._context.live and any(row.leader == broker for row in rows.values()):\n"
        "                self._send_leader_and_isr(",
        "duties/order-not-obeyed",
        ("broker-crash-and-return:1",),
    ),
    Mutation(  # who is dead stays in the ISR until its leader takes it out
        "kemu/actors/controller/brokers.py",
        "        yield from self._machine.replicas.move(others, ReplicaPhase.OFFLINE)\n",
        "",
        "duties/dead-in-isr",
        ("broker-crash-and-return:1",),
    ),
    Mutation(  # a broker that registered anew between two looks goes on as the leader it was
        "kemu/actors/controller/brokers.py",
        "            yield from self.died(list(bounced))\n",
        "",
        "duties/former-leader",
        ("broker_bounces.toml:1",),
    ),
]
