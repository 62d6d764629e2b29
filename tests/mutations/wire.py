"""What crosses the wire: answers, their order and time, the pace of requests, and what they say."""

from tests.mutations import Mutation

_STORE = ("frozen-session:1", "session-expires-nodes-linger:1")

MUTATIONS = [
    Mutation(  # a broker reads on while it serves a request, and so answers a later one of that connection first
        "kemu/actors/connections.py",
        "        waiting = self._unread.get(event[:2])\n        if waiting is None:\n            return False\n",
        "        waiting = None\n        if waiting is None:\n            return False\n",
        "requests/out-of-order",
        ("rolling-restart-dynamic:1", "coordinator-failover-stable:1"),
    ),
    Mutation(  # a broker does not answer who asks for offsets
        "kemu/actors/broker/replicated.py",
        "        self.answers.list_offsets(event, self.manager.led)\n",
        "        self.answers.knows('', 0)\n",
        "requests/unanswered",
        ("replicated-steady:1",),
    ),
    Mutation(  # the store answers pings twice
        "kemu/actors/store/store.py",
        "                self._send(channel, caller_of(event), PingReply(code=StoreCode.OK))\n",
        "                for _ in range(2):\n"
        "                    self._send(channel, caller_of(event), PingReply(code=StoreCode.OK))\n",
        "requests/answered-unasked",
        ("replicated-steady:1",),
    ),
    Mutation(  # a client waits twice as long for an answer as it was set to
        "kemu/actors/client.py",
        "deadline_us = machine.now_us + (timeout_us or self._request_timeout_us)",
        "deadline_us = machine.now_us + (timeout_us or self._request_timeout_us) * 2",
        "requests/waits-for-ever",
        ("store-away-for-long:1",),
    ),
    Mutation(  # a silent connection to the store is given up after half of the session's timeout
        "kemu/actors/store/session.py",
        "self._silence_us = self._timeout_us * 2 // 3",
        "self._silence_us = self._timeout_us * 2 // 4",
        "requests/gave-up-early",
        _STORE,
    ),
    Mutation(  # the next session goes over the connection of the last one
        "kemu/actors/store/session.py",
        "        self._client.forget(self._store)\n        self._drop_work()\n        self._stop_timers()\n",
        "        self._drop_work()\n        self._stop_timers()\n",
        "requests/two-sessions",
        _STORE,
    ),
    Mutation(  # a heartbeat thread wakes up late
        "kemu/actors/consumer/heartbeats.py",
        "        self._machine.start_timer((ConsumerTimer.BEAT,), at_us - self._machine.now_us)\n",
        "        self._machine.start_timer((ConsumerTimer.BEAT,), (at_us - self._machine.now_us) * 2)\n",
        "pace/overdue",
        ("steady-group:1",),
    ),
    Mutation(  # a follower's loop waits after an answer
        "kemu/actors/broker/replica_fetchers.py",
        '                raise AssertionError(f"no answer to a follower: {reply!r}")\n        self.run()\n',
        '                raise AssertionError(f"no answer to a follower: {reply!r}")\n'
        "        self._machine.start_timer(self._timer, 10_000_000)\n",
        "pace/overdue",
        ("replicated-steady:1",),
    ),
    Mutation(  # a client asks for metadata again while a question is on its way
        "kemu/actors/clients/metadata.py",
        "        if self._asked_for is not None or not (self._topics",
        "        if not (self._topics",
        "pace/too-many",
        ("topic-created-and-deleted:1", "coordinator-failover-stable:1"),
    ),
    Mutation(  # a broker that found no controller asks again too soon
        "kemu/actors/broker/alter_isr.py",
        '        """The connection broke, or there was no answer: perhaps another controller is active."""\n'
        "        self._machine.start_timer(_TIMER, POLL_US)\n",
        '        """The connection broke, or there was no answer: perhaps another controller is active."""\n'
        "        self._machine.start_timer(_TIMER, POLL_US // 2)\n",
        "pace/too-soon",
        ("zombie-controller:5",),
    ),
    Mutation(  # followers let their leader wait for their back-off
        "kemu/actors/broker/replica_fetchers.py",
        "max_wait_ms=config.replica_fetch_wait_max_ms",
        "max_wait_ms=config.replica_fetch_backoff_ms",
        "fields/wrong",
        ("replicated-steady:1",),
    ),
    Mutation(  # heartbeats name the generation before
        "kemu/actors/consumer/heartbeats.py",
        "            generation=generation.id,\n",
        "            generation=generation.id - 1,\n",
        "fields/wrong",
        ("steady-group:1",),
    ),
    Mutation(  # a controller waits twice as long before it repeats an order
        "kemu/actors/controller/channels.py",
        "        self._machine.start_timer((ControllerTimer.CHANNEL_RETRY, str(channel.broker)), wait_us)\n",
        "        self._machine.start_timer((ControllerTimer.CHANNEL_RETRY, str(channel.broker)), wait_us * 2)\n",
        "pace/too-late",
        ("delete-while-reassigning:1", "broker_bounces.toml:1"),
    ),
    Mutation(  # who finds a registration there asks for it again at once
        "kemu/actors/controller/controller.py",
        "                if made.code is StoreCode.NO_NODE:\n                    continue\n",
        "                if made.code is not StoreCode.NO_NODE:\n                    continue\n",
        "pace/too-many",
        ("session-expires-nodes-linger:1", "store-away-for-long:1"),
    ),
    Mutation(  # who waits for all in-sync replicas is told at once that it took too long
        "kemu/actors/broker/produce_calls.py",
        "        self._waiting.hold(number, call, timeout_ms * 1_000)\n",
        "        self._waiting.hold(number, call, timeout_ms * 1)\n",
        "requests/timed-out-early",
        ("replicated-steady:1",),
    ),
    Mutation(  # brokers deny partitions that they know, and know those that are not there
        "kemu/actors/broker/answers.py",
        "        if self.knows(topic, partition):\n",
        "        if not self.knows(topic, partition):\n",
        "answers/untrue",
        ("move-to-new-brokers:1", "reassign-target-dies:1"),
    ),
    Mutation(  # a topic is told that it has so many partitions already
        "kemu/actors/controller/topics.py",
        "        if more < 1:\n",
        "        if more >= 1:\n",
        "answers/untrue",
        ("topic-created-and-deleted:1",),
    ),
    Mutation(  # heartbeats go on to who said that it is not the coordinator
        "kemu/actors/consumer/heartbeats.py",
        "                self._discovery.lose_coordinator(why)\n                self._failed(sent)\n",
        "                self._failed(sent)\n",
        "clients/not-looked-up",
        ("leaders_return.toml:2",),
    ),
    Mutation(  # members do not heed a heartbeat that tells of a rebalance
        "kemu/actors/consumer/heartbeats.py",
        "                if membership.state is MemberState.STABLE:\n",
        "                if membership.state is MemberState.UNJOINED:\n",
        "clients/not-rejoined",
        ("rolling-restart-dynamic:1",),
    ),
    Mutation(  # a producer connects again at once
        "kemu/actors/clients/producer.py",
        "        if available_us > self.now_us:\n            self._retry_by(available_us)\n            return\n",
        "",
        "clients/too-soon",
        ("broker-crash-and-return:1",),
    ),
    Mutation(  # an admin takes its time
        "kemu/actors/clients/admin.py",
        "            self.start_timer((AdminTimer.RETRY, str(task.number)), wait_us)\n",
        "            self.start_timer((AdminTimer.RETRY, str(task.number)), wait_us * 2)\n",
        "clients/too-late",
        ("admin_retries.toml:1",),
    ),
    Mutation(  # metadata without news are asked for again at once
        "kemu/actors/clients/metadata.py",
        "        wait_us = self._retry.after(self._failures, self._chance)\n        self._not_before_us",
        "        wait_us = 1_000\n        self._not_before_us",
        "clients/storm",
        ("topic-created-and-deleted:1",),
    ),
    Mutation(  # a batch whose sequence number does not fit counts as one that is in the log
        "kemu/actors/clients/producer.py",
        "        elif error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:\n",
        "        elif error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:\n",
        "clients/vanished",
        ("disk-tail-lost:1",),
    ),
    Mutation(  # a second consumer commits twice as often as it is set to
        "kemu/actors/consumer/child.py",
        "            self.start_timer((_COMMIT,), self._interval_us)\n",
        "            self.start_timer((_COMMIT,), self._interval_us // 2)\n",
        "pace/too-soon",
        ("catch-up-crash:1",),
    ),
    Mutation(  # and half as often
        "kemu/actors/consumer/child.py",
        "            self.start_timer((_COMMIT,), self._interval_us)\n",
        "            self.start_timer((_COMMIT,), self._interval_us * 2)\n",
        "catch-up/second-uncommitted",
        ("catch-up-crash-loop:1",),
    ),
]
