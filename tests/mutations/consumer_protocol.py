"""One-line breaks of groups with the consumer protocol (KIP-848), each noticed while a whole cluster runs."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # the event of poll() requests no positions
        "kemu/actors/consumer/passes.py",
        "        self._positions.poll()\n        return self._positions_found()\n",
        "        return self._positions_found()\n",
        "tests/lab/conformance/test_consumer_plans.py"
        "::test_since_4_2_members_fetch_offsets_before_they_acknowledge_their_first_partitions",
    ),
    Mutation(  # each pass after a wait begins with an event
        "kemu/actors/consumer/passes.py",
        "        submits, self._left = submits and (self._spins or not self._left), False\n",
        "        self._left = False\n",
        "tests/lab/conformance/test_consumer_plans.py"
        "::test_since_4_2_an_interval_commit_waits_for_a_pass_with_an_event",
    ),
    Mutation(  # each pattern of a group gets the topics of all its patterns
        "kemu/actors/coordinator/consumer_group/regexes.py",
        "        found = TopicPattern(regex, of_broker=True).among(topics)\n",
        "        found = tuple(sorted({t for p in names for t in TopicPattern(p, of_broker=True).among(topics)}))\n",
        "consumer-protocol/assigned-unsubscribed",
        ("consumer-protocol-pattern-growing-topics:1",),
    ),
    Mutation(  # created topics are no reason to resolve patterns
        "kemu/actors/coordinator/groups.py",
        "                group.has_new_topics = group.has_new_topics or has_new\n",
        "                pass\n",
        "liveness/not-at-rest",
        ("subscription_pattern.toml:own",),
    ),
    Mutation(  # the target is ahead of its group
        "kemu/actors/coordinator/consumer_group/heartbeats.py",
        "        change.add(TargetEpochRecord(group.epoch, ",
        "        change.add(TargetEpochRecord(group.epoch + 1, ",
        "consumer-protocol/epoch-fell",
        ("consumer-protocol-rolling-restart:1",),
    ),
    Mutation(  # a member gets partitions that another member holds
        "kemu/protocol/consumer_group/reconciling.py",
        "        if is_free(partition) or (",
        "        if True or is_free(partition) or (",
        "consumer-protocol/held-twice",
        ("consumer-protocol-rolling-restart:1",),
    ),
    Mutation(  # the coordinator does not wait until a member has given up its partitions
        "kemu/protocol/consumer_group/reconciling.py",
        "    return owned is None or any(partition in some for partition in owned)\n",
        "    return False\n",
        "consumer-protocol/assigned-too-soon",
        ("consumer-protocol-slow-member:1",),
    ),
    Mutation(  # a commit with the member's epoch is refused
        "kemu/actors/coordinator/modern_group.py",
        "        if epoch == current.epoch:\n            return _NONE\n",
        "        if epoch == current.epoch:\n            return ErrorCode.STALE_MEMBER_EPOCH\n",
        "consumer-protocol/stale-commit",
        ("consumer-protocol-rolling-restart:1",),
    ),
    Mutation(  # a commit with another epoch than the member's is written
        "kemu/actors/coordinator/modern_group.py",
        "keeps_partition_epochs:\n            return wrong\n",
        "keeps_partition_epochs:\n            return _NONE\n",
        "consumer-protocol/stale-commit",
        ("consumer-protocol-rolling-restart:1",),
    ),
    Mutation(  # the members of a converted classic group hold nothing
        "kemu/actors/coordinator/migration.py",
        "        current = CurrentAssignment(ReconcilingState.STABLE, generation, generation, held)\n",
        "        current = CurrentAssignment(ReconcilingState.STABLE, generation, generation, {})\n",
        "consumer-protocol/assigned-too-soon",
        ("consumer-protocol-migration:1",),
    ),
    Mutation(  # a classic member in a group of the consumer protocol is not told to rejoin at a new epoch
        "kemu/actors/coordinator/classic_member_requests.py",
        "        if is_behind or _waits(group, member.member_id):\n",
        "        if _waits(group, member.member_id):\n",
        "liveness/not-at-rest",
        ("mixed_group.toml:1",),
    ),
    Mutation(  # a member sends heartbeats four times as rarely as its coordinator says
        "kemu/actors/consumer/modern_membership.py",
        "                self._interval_us = reply.heartbeat_interval_ms * 1000\n",
        "                self._interval_us = reply.heartbeat_interval_ms * 4000\n",
        "group-progress/not-reconciled",
        ("consumer-protocol-steady:1",),
    ),
    Mutation(  # only a join computes a target
        "kemu/actors/coordinator/consumer_group/heartbeats.py",
        "        if is_behind and not downgrades and",
        "        if is_behind and not former.topics and not downgrades and",
        "group-progress/not-reconciled",
        ("consumer-protocol-scale-in:1",),
    ),
    Mutation(  # a member does not tell its coordinator that it gave up partitions
        "kemu/actors/consumer/modern_membership.py",
        "if tells_owned else None,",
        "if tells_owned and not before else None,",
        "group-progress/not-revoked",
        ("consumer-protocol-steady:1",),
    ),
]
