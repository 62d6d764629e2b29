"""One-line breaks of each area, each noticed by a checker while a whole cluster runs."""

from tests.mutations import Mutation

REPLICATION = [
    Mutation(  # the high watermark asks no follower
        "kemu/actors/broker/isr.py",
        "        if follower.end_offset < least and (",
        "        if follower.end_offset > least and (",
        "replicas",
        ("replicated-steady:1",),
    ),
    Mutation(  # the high watermark waits for the fastest follower
        "kemu/actors/broker/isr.py",
        "    return least\n",
        "    return min(own_end, max([each.end_offset for each in followers], default=own_end))\n",
        "replicas",
        ("slow-follower:1",),
    ),
    Mutation(  # all that a new leader has counts as committed
        "kemu/actors/broker/replica.py",
        "        self.epoch_start = self.log.end_offset\n",
        "        self.epoch_start = self.log.high_watermark = self.log.end_offset\n",
        "replicas",
        ("tail_at_a_crash.toml:1",),
    ),
    Mutation(  # acks=all is answered at the append
        "kemu/actors/broker/led_partitions.py",
        "        if acks == _ALL and end > replica.log.high_watermark:",
        "        if acks == _ALL and end < replica.log.high_watermark:",
        "replicas",
        ("replicated-steady:1",),
    ),
    Mutation(  # a member leaves the ISR by the controller, and no new epoch opens
        "kemu/actors/controller/replica_states.py",
        "                        leader_epoch=state.leader_epoch + 1,\n",
        "                        leader_epoch=state.leader_epoch,\n",
        "leadership",
        ("broker_away.toml:1",),
    ),
    Mutation(  # a follower joins the ISR before it has caught up
        "kemu/actors/broker/isr.py",
        (
            "        follower.end_offset >= high_watermark\n"
            "        and (follower.end_offset >= epoch_start or not rules.joins_at_epoch_start)\n"
        ),
        "        follower.end_offset >= -1\n",
        "replicas",
        ("broker_away.toml:1",),
    ),
    Mutation(  # anybody alive is elected
        "kemu/actors/controller/elections.py",
        ("        if broker in live and broker in isr:\n            return broker, False\n"),
        ("        if broker in live:\n            return broker, False\n"),
        "leadership",
        ("last_in_sync_down.toml:1",),
    ),
    Mutation(  # a leader writes ISRs over whatever is there
        "kemu/actors/broker/isr_store.py",
        "data=write.data, version=write.change.zk_version)",
        "data=write.data, version=-1)",
        "leadership",
        ("deposed_unaware.toml:1",),
    ),
    Mutation(  # followers cut nothing
        "kemu/actors/broker/replica_manager.py",
        "        shorter = replica.truncate_to(end_offset)\n",
        "        shorter = False\n",
        "replicas",
        ("unclean_before_kip_595.toml:1",),
    ),
]

GROUPS = [
    Mutation(  # everybody is given the leader's part
        "kemu/actors/coordinator/syncing.py",
        "            member.assignment = assignments[member.member_id]\n",
        '            member.assignment = assignments[self._shared.members.leader or ""]\n',
        "one-owner",
        ("crash_for_good.toml:1",),
    ),
    Mutation(  # commits are answered and not kept
        "kemu/actors/coordinator/offsets.py",
        (
            "        if known is not None and known.position >= kept.position:\n"
            "            return False\n"
            "        self.committed"
        ),
        ("        if known is not None:\n            return False\n        self.committed"),
        "commits",
        ("crash_for_good.toml:1",),
    ),
    Mutation(  # the others do not hear that a member left
        "kemu/actors/coordinator/group.py",
        "            self.phase.prepare(self.shared.reasons.left(left, client_reason))",
        "            pass",
        "liveness",
        ("cooperative-scale-in:1",),
    ),
    Mutation(  # a loaded group begins to count again
        "kemu/actors/coordinator/group.py",
        "        shared.generation = metadata.generation\n",
        "        shared.generation = 0\n",
        "membership/loaded",
        ("coordinator-failover-stable:1",),
    ),
    Mutation(  # after a load nobody's session runs
        "kemu/actors/coordinator/group.py",
        "            self.shared.start_session(member)\n        most = self",
        "            pass\n        most = self",
        "liveness",
        ("coordinator_and_member_die.toml:1",),
    ),
    Mutation(  # the first record of a group counts, not the last
        "kemu/actors/coordinator/replay.py",
        "                self.metadata[group] = metadata\n",
        "                self.metadata.setdefault(group, metadata)\n",
        "membership/loaded",
        ("coordinator-failover-stable:1",),
    ),
    Mutation(  # the leader is not told of the last member
        "kemu/actors/coordinator/members.py",
        ("                for m in map(self.by_id.__getitem__, self.hashed())\n            ]\n        )"),
        ("                for m in map(self.by_id.__getitem__, self.hashed())\n            ][:-1]\n        )"),
        "liveness",
        ("crash_for_good.toml:1",),
    ),
    Mutation(  # a member's session ends, and nobody rebalances
        "kemu/actors/coordinator/join_phase.py",
        "            self.prepare(shared.reasons.session_over(member_id))",
        "            pass",
        "liveness",
        ("crash_for_good.toml:1",),
    ),
    Mutation(  # commits are answered before the in-sync replicas have them
        "kemu/actors/broker/group_log.py",
        "        replica.wait_for_all(Ack(end, order, call, 0, batch, written.base_offset, written.append_time_ms))\n",
        "        now = Ack(end, order, call, 0, batch, written.base_offset, 0)\n"
        "        self._led._calls.decide(call, 0, now.outcome(ErrorCode.NONE))\n",
        "replicas",
        ("broker_away.toml:1",),
    ),
    Mutation(  # the last record of a group's log is not loaded
        "kemu/actors/broker/group_log.py",
        "            records = replica.log.contents()\n",
        "            records = replica.log.contents()[:-1]\n",
        "commits",
        ("coordinator-crash-replicated:2",),
    ),
    Mutation(  # a protocol is chosen that not all members know
        "kemu/actors/coordinator/members.py",
        "if self.support[own.name] == everyone), None)",
        "if self.support[own.name]), None)",
        "liveness",  # whoever does not know it fails
        ("upgrade-by-assignor-list:1",),
    ),
]

MEMBERS = [
    Mutation(  # a heartbeat's answer makes nobody join
        "kemu/actors/consumer/heartbeats.py",
        "                if membership.state is MemberState.STABLE:\n                    late_us",
        "                if membership.state is MemberState.FENCED if False else False:\n                    late_us",
        "liveness",
        ("crash_for_good.toml:1",),
    ),
    Mutation(  # ranges overlap
        "kemu/protocol/assign/range.py",
        "                self.take(member, self.left[start:end], assignment)",
        "                self.take(member, self.left[max(0, start - 1):end], assignment)",
        "one-owner",
        ("crash_for_good.toml:1",),
    ),
    Mutation(  # ranges end one short
        "kemu/protocol/assign/range.py",
        "        assignment[member].extend((self.topic, partition) for partition in partitions)",
        "        assignment[member].extend((self.topic, n) for n in partitions if n + 1 < self.count)",
        "liveness",
        ("crash_for_good.toml:1",),
    ),
    Mutation(  # what was returned last is returned again
        "kemu/actors/consumer/fetching.py",
        "                one.position, one.offset_epoch = last, epoch\n",
        "                one.position, one.offset_epoch = last - 1, epoch\n",
        "lifecycle",
        ("crash_for_good.toml:1",),
    ),
    Mutation(  # a member goes on behind the place where the log was cut
        "kemu/actors/consumer/positions.py",
        "            self._set(one, row.end_offset, TRUNCATED, row.leader_epoch)",
        "            self._set(one, row.end_offset + 5, TRUNCATED, row.leader_epoch)",
        "no-lost-record",
        ("unclean-election:1",),
    ),
    Mutation(  # the first record of a batch is left out
        "kemu/actors/consumer/fetching.py",
        "                if first < position:\n",
        "                first += first == 50\n                if first < position:\n",
        "lifecycle",
        ("steady-group:1",),
    ),
    Mutation(  # what is lost is still owned
        "kemu/actors/consumer/positions.py",
        "        self.drop(lost)\n",
        "",
        "lifecycle",
        ("gc-pause-zombie:1",),
    ),
    Mutation(  # the leader assigns to itself alone
        "kemu/actors/consumer/rebalancing.py",
        "            decided = assignor.assign(topics, members)",
        "            decided = assignor.assign(topics, {reply.member_id: members[reply.member_id]})",
        "liveness",
        ("crash_for_good.toml:1",),
    ),
    Mutation(  # the assignor does not see who owns what
        "kemu/protocol/assign/cooperative.py",
        "        return subscriber.owned, subscriber.generation\n",
        "        return (), subscriber.generation\n",
        "cooperative",
        ("cooperative_growth.toml:1",),
    ),
    Mutation(  # a cooperative member gives up all it has
        "kemu/protocol/rebalancing/rules.py",
        ("    revoked = minus(owned, assigned)\n    return Changes(revoked,"),
        ("    revoked = owned\n    return Changes(revoked,"),
        "cooperative",
        ("cooperative_growth.toml:1",),
    ),
    Mutation(  # committed offsets are read as 0
        "kemu/actors/consumer/positions.py",
        ("            if row.offset >= 0:\n                self._set(one, row.offset, COMMITTED"),
        ("            if row.offset >= 0:\n                self._set(one, 0, COMMITTED"),
        "commits",
        ("crash_for_good.toml:1",),
    ),
    Mutation(  # the last record of a poll is left out
        "kemu/actors/consumer/fetching.py",
        "                returned.append(_new(Returned, (one.at, first, last)))",
        "                returned.append(_new(Returned, (one.at, first, last - (last - first > 3))))",
        "lifecycle",
        ("crash_for_good.toml:1",),
    ),
]

BROKERS = [
    Mutation(  # an ISR that is asked for counts at once
        "kemu/actors/broker/isr_changes.py",
        ("        replica.in_sync.proposed = isr\n        self"),
        ("        replica.in_sync.members = replica.in_sync.proposed = isr\n        self"),
        "leadership",
        ("slow-follower:1",),
    ),
    Mutation(  # the last batch of a journal is not read
        "kemu/actors/broker/replica_log.py",
        "            if len(rows) == contents:\n",
        "            if len(rows) == contents and index < len(waiting):\n",
        "replicas",
        ("all_processes_die.toml:1",),
    ),
    Mutation(  # followers do not keep what producers wrote last
        "kemu/actors/broker/replica_log.py",
        ("            batch.leader_epoch,\n            batch.producer_id,\n"),
        ("            batch.leader_epoch,\n            -1,\n"),
        "idempotence",
        ("retry_at_the_next_leader.toml:1",),
    ),
    Mutation(  # a follower takes all it copied for committed
        "kemu/actors/broker/replica_fetchers.py",
        "        log.high_watermark = max(log.start_offset, min(row.high_watermark, log.end_offset))",
        "        log.high_watermark = log.end_offset",
        "replicas",
        ("tail_at_a_crash.toml:1",),
    ),
    Mutation(  # who has everything leaves the ISR (KAFKA-7152)
        "kemu/actors/broker/isr.py",
        "            and (follower.end_offset != own_end or rules.shrinks_idle)\n",
        "",
        "isr",
        ("slow-follower:1",),
    ),
    Mutation(  # with one that joins another leaves
        "kemu/actors/broker/replica.py",
        "        return (*self.in_sync.members, broker)\n",
        "        return (*self.in_sync.members[:1], broker)\n",
        "isr",
        ("broker_away.toml:1",),
    ),
    Mutation(  # nobody follows
        "kemu/actors/broker/control_requests.py",
        ("            self._follow(replica, state)\n        # Otherwise"),
        ("            pass\n        # Otherwise"),
        "duties",
        ("broker_away.toml:1",),
    ),
    Mutation(  # what clients are told never changes
        "kemu/actors/broker/control_requests.py",
        "            self._answers.update(request)\n",
        "",
        "duties",
        ("broker_away.toml:1",),
    ),
    Mutation(  # a follower cuts one record too few
        "kemu/actors/broker/replica.py",
        "        if not self.log.truncate_to(end_offset):\n",
        "        if not self.log.truncate_to(end_offset + 1):\n",
        "replicas",
        ("unclean_before_kip_595.toml:1",),
    ),
    Mutation(  # records carry an epoch that is over
        "kemu/actors/broker/replica.py",
        ("            leader_epoch=self.leader_epoch,\n            producer_id"),
        ("            leader_epoch=self.led_since,\n            producer_id"),
        "replicas",
        ("broker_away.toml:1",),
    ),
    Mutation(  # the coordinator is never told what its broker leads
        "kemu/actors/broker/replica.py",
        "        self.led_since = state.leader_epoch\n",
        "        self.led_since = -1\n",
        "liveness",
        ("broker_away.toml:1",),
    ),
]

CONTROL = [
    Mutation(  # the store compares no versions
        "kemu/actors/store/tree.py",
        "                if op.version not in (ANY_VERSION, node.version):",
        "                if op.version not in (ANY_VERSION, node.version, op.version):",
        "leadership",
        ("deposed_unaware.toml:1",),
    ),
    Mutation(  # the nodes of a session stay when it ends
        "kemu/actors/store/store.py",
        "            self._remove_ephemerals(session.id, session.client)\n",
        "            pass\n",
        "duties",
        ("broker_away.toml:1",),
    ),
    Mutation(  # nobody hears of nodes that come and go
        "kemu/actors/store/tree.py",
        (
            "            for client in self._take(self._child, above, child=True):\n"
            "                yield client, children_changed"
        ),
        ("            for client in self._take(self._child, above, child=True):\n                del client"),
        "duties",
        ("broker_away.toml:1",),
    ),
    Mutation(  # sessions never end
        "kemu/actors/store/store.py",
        '        self.start_timer(("session", str(session.id)), us)',
        '        self.stop_timer(("session", str(session.id)))',
        "duties",
        ("broker_away.toml:1",),
    ),
    Mutation(  # a broker that comes back is told nothing
        "kemu/actors/controller/brokers.py",
        "        yield from self._machine.replicas.move(replicas, ReplicaPhase.ONLINE)",
        "        yield from self._machine.replicas.move(replicas[:0], ReplicaPhase.ONLINE)",
        "duties",
        ("broker_away.toml:1",),
    ),
    Mutation(  # a new controller has the epoch of the old one
        "kemu/actors/controller/controller.py",
        "        mine = epoch + 1\n",
        "        mine = max(epoch, 1)\n",
        "leadership",
        ("controller_away.toml:1",),
    ),
    Mutation(  # of an election only the first replica hears
        "kemu/actors/controller/partition_states.py",
        "            machine.batch.add_leader_and_isr(outcomes[at].recipients, at, known, is_new=False)",
        "            machine.batch.add_leader_and_isr(outcomes[at].recipients[:1], at, known, is_new=False)",
        "duties",
        ("controller_away.toml:1",),
    ),
    Mutation(  # a controller's office outlives it
        "kemu/actors/controller/controller.py",
        "controller_data(self.broker_id, self.now_us // US_PER_MS), CreateMode.EPHEMERAL)",
        "controller_data(self.broker_id, self.now_us // US_PER_MS))",
        "answers",
        ("controller_away.toml:1",),
    ),
    Mutation(  # the controller keeps versions of before its writes
        "kemu/actors/controller/transactions.py",
        "                written[at] = Leadership(update.state, result.version)",
        "                written[at] = Leadership(update.state, update.zk_version)",
        "duties",
        ("broker_away.toml:1",),
    ),
    Mutation(  # the controller writes the ISR that was there, not the one asked for
        "kemu/actors/controller/isr_alterations.py",
        "changed = evolve(current.state, isr=row.new_isr, controller_epoch=context.epoch)",
        "changed = evolve(current.state, isr=current.state.isr, controller_epoch=context.epoch)",
        "leadership",
        ("broker_away.toml:1",),
    ),
    Mutation(  # nobody is told of an ISR that a leader asked for
        "kemu/actors/controller/isr_alterations.py",
        "        self._machine.batch.send_metadata(context.live, list(errors))\n",
        "",
        "duties",
        ("broker_away.toml:1",),
    ),
    Mutation(  # the controller forgets the ISRs it wrote
        "kemu/actors/controller/isr_alterations.py",
        "        context.leadership.update(written)\n",
        "",
        "leadership",
        ("broker_away.toml:1",),
    ),
    Mutation(  # the others do not hear who left the ISR
        "kemu/actors/controller/replica_states.py",
        "                batch.add_leader_and_isr(others, at, known, is_new=False)",
        "                batch.add_leader_and_isr(others[:0], at, known, is_new=False)",
        "duties",
        ("broker_away.toml:1",),
    ),
    Mutation(  # a broker whose session ended opens no other
        "kemu/actors/controller/controller.py",
        (
            "            self.request(self.broker, BrokerSession(session_id=0, broker_epoch=self.broker_epoch), 0)\n"
            "        self.session.open()"
        ),
        "            self.request(self.broker, BrokerSession(session_id=0, broker_epoch=self.broker_epoch), 0)",
        "duties",
        ("deposed_unaware.toml:1",),
    ),
    Mutation(  # versions never rise
        "kemu/actors/store/tree.py",
        "        node.version += 1\n",
        "",
        "leadership",
        ("deposed_unaware.toml:1",),
    ),
    Mutation(  # leaders are told no versions
        "kemu/actors/controller/batch.py",
        ("                    zk_version=known.zk_version,\n                    replicas=assignment"),
        ("                    zk_version=0,\n                    replicas=assignment"),
        "duties",
        ("broker_away.toml:1",),
    ),
]

MUTATIONS = [*REPLICATION, *GROUPS, *MEMBERS, *BROKERS, *CONTROL]
