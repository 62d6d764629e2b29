"""For each kept seed of the swarm (``tests/data/swarm``): the fix that the seed found, broken again.

The run of a seed changes with each mend of a machine, and may then no longer need the fix. So a small explicit case
must notice the break as soon as the seed's run does not: facts that are told by hand (``tests/emulator/checkers``), or
a few steps of one machine. Such a case depends on no draw. The kept seed itself must still hold.
"""

from tests.mutations import OWN, Mutation

_CHECKERS, _WATCHING, _TESTS = "kemu/emulator/checkers/", "kemu/emulator/watching/", "tests/"
_STORIES = f"{_TESTS}emulator/checkers/"


def _kept(name: str, file: str, old: str, new: str, caught_by: str) -> Mutation:
    return Mutation(file, old, new, caught_by, (f"../data/swarm/{name}.toml:{OWN}",))


MUTATIONS = [
    _kept(  # an empty acknowledgement always means a revocation
        "acknowledged-before-its-topic-was-known",
        f"{_CHECKERS}consumer_protocol.py",
        "                if at in added and not self._is_freed_unresolved(life, member, at):\n",
        "                if at in added:\n",
        "consumer-protocol/assigned-too-soon",
    ),
    _kept(  # the second consumer asks without a backoff for a log that ends before its range
        "ends-before-its-open-range",
        "kemu/actors/consumer/child.py",
        "if timestamp_ms == LATEST_TIMESTAMP and work.ranges and row.offset < work.ranges[0].start:",
        "if False:",
        "clients/storm",
    ),
    _kept(  # a log may be truncated after the check of a commit, and before its end is read
        "cut-between-the-check-and-the-end",
        "kemu/actors/consumer/positions.py",
        "                if one.seeking is Seeking.END and self._machine.catch_up is not None:\n",
        "                if False:\n",
        "no-lost-record/committed-unprocessed",
    ),
    _kept(  # a member that a failed conversion turned away has as long as any other member
        "turned-away-by-a-failed-conversion",
        f"{_CHECKERS}membership.py",
        "            longest_us = self._initial_delay_us if member.turned_away else group.rebalance_us\n",
        "            longest_us = group.rebalance_us\n",
        "membership/evicted",
    ),
    _kept(  # every commit that arrives after a reset was sent after it
        "committed-late-after-a-cut",
        f"{_CHECKERS}commits.py",
        "            may_be_late = fact.offset == work.reached_before  # sent before the reset\n",
        "            may_be_late = False\n",
        "commits/went-back",
    ),
    _kept(  # the records of a group that has just become Stable are in the log
        "stable-before-its-records",
        f"{_WATCHING}panel.py",
        "end if end > group.begun_at else sys.maxsize",
        "end",
        "membership/generation",
    ),
    _kept(  # a group that migrates has the sessions of classic members only
        "crashes-after-an-upgrade",
        f"{_WATCHING}group_times.py",
        "        if name in scenario.consumer_protocol_groups:",
        "        if False:",
        "group-progress/member-kept",
    ),
    _kept(  # a removed member of a group that became classic fails for no reason of Kafka's
        "returns-to-a-classic-group",
        f"{_CHECKERS}liveness.py",
        "            return DOWNGRADED_GROUP",
        "            return MEMBER_FAILED",
        "liveness/member-failed",
    ),
    _kept(  # a controller that reads an ISR again tells a wrong one
        "read-again-when-a-replica-is-offline",
        f"{_CHECKERS}controller_duties.py",
        "            if known in (now, stored) or",
        "            if known == now or",
        "duties/stale-metadata",
    ),
    _kept(  # a process that closes has the settings of the next process
        "closes-with-its-former-settings",
        f"{_WATCHING}settings.py",
        "        self._next_members[fact.host] = own.then(",
        "        self._consumers.pop(fact.host, None)\n        self._members[fact.host] = own.then(",
        "fields/wrong",
    ),
    _kept(  # an id that the loaded log replaced still owns
        "an-id-that-was-lost-in-between",
        f"{_CHECKERS}one_owner.py",
        "            if instance in instances:\n",
        "            if instance in instances and False:\n",
        "one-owner/two-owners",
    ),
    _kept(  # two records of one epoch at one offset are a difference
        "appended-in-the-place-of-the-lost",
        f"{_WATCHING}copies.py",
        "        return any(taken.parts(offset, one, other) for taken in self.taken.get(at, ()))",
        "        return False",
        "replicas/logs-differ",
    ),
    _kept(  # a batch that the log lost counts as appended
        "appended-in-the-place-of-the-lost",
        f"{_CHECKERS}idempotence.py",
        " and not lacking([before], log):",
        ":",
        "idempotence/appended-twice",
    ),
    _kept(  # a request that arrives at a closed connection is read
        "arrives-at-a-closed-connection",
        "kemu/actors/connections.py",
        "        self._closed[at] = None\n",
        "",
        "requests/out-of-order",
    ),
    _kept(  # a reassignment of a partition that the controller does not know is refused before its replicas are read
        "asked-without-a-context",
        "kemu/protocol/reassign/requests.py",
        "        if wrong:\n",
        "        if wrong and current is not None:\n",
        f"{_TESTS}actors/controller/test_reassignment.py::test_what_is_asked_for_wrongly_is_refused_and_the_rest_done",
    ),
    _kept(  # a member of the ISR has every record, whatever its disk lost
        "back-before-it-is-missed",
        f"{_CHECKERS}replicas.py",
        "if has_all and node not in stays:",
        "if has_all:",
        "replicas/isr-without-committed",
    ),
    _kept(  # a paused coordinator coordinates until it hears of its successor
        "begun-anew-while-its-coordinator-stands-still",
        f"{_WATCHING}panel.py",
        '                group.coordinator, group.loaded = "", False\n\n    def _forget_generations',
        "                pass\n\n    def _forget_generations",
        f"{_TESTS}emulator/watching/test_panel.py::"
        "test_a_coordinator_speaks_for_nobody_from_its_successors_first_moment_on_unless_it_leads_again",
    ),
    _kept(  # a log that lost its group still has the generation
        "begun-on-both-sides",
        f"{_WATCHING}panel.py",
        "        if lost:\n            self.remembered",
        "        if False:\n            self.remembered",
        "membership/generation",
    ),
    _kept(  # withheld partitions must be assigned
        "comes-back-before-it-is-given-out",
        f"{_CHECKERS}liveness.py",
        "        if why := self._forgotten_rebalance(name):\n",
        '        if why := "":\n',
        "liveness/not-at-rest",
    ),
    _kept(  # a commit may be lower than the last one, whoever made it
        "committed-again-after-a-late-commit",
        f"{_CHECKERS}catch_up.py",
        "        repeated = self._is_repeated(fact) and known == fact.offset",
        "        repeated = False",
        f"{_STORIES}test_catch_up.py::test_commits_that_do_not_rise",
    ),
    _kept(  # the last writer is known after the log lost records
        "committed-again-after-a-power-cut",
        f"{_CHECKERS}catch_up.py",
        "    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:\n        self._writers.clear()",
        "    def _lost_tail(self, seen: Seen, fact: DiskTailLost) -> None:\n        pass",
        f"{_STORIES}test_catch_up.py::test_a_commit_that_the_log_may_have_lost_is_made_again_by_the_next_owner",
    ),
    _kept(  # a coordinator with a successor still speaks for the group
        "committed-to-a-deposed-coordinator",
        f"{_WATCHING}coordinators.py",
        "        return led is not None and led < self._newest.get(log, led)",
        "        return False",
        f"{_STORIES}test_deposed_coordinators.py::test_it_goes_on_with_its_members_and_commits",
    ),
    _kept(  # a truncation is no reason to commit a lower offset
        "committed-where-its-partition-was-cut",
        f"{_CHECKERS}commits.py",
        "            work.may_go_back_to = None if fact.why == COMMITTED else fact.offset",
        "            work.may_go_back_to = None if fact.why in (COMMITTED, TRUNCATED) else fact.offset",
        f"{_STORIES}test_catch_up.py::test_a_commit_goes_back_to_where_its_partition_was_cut",
    ),
    _kept(  # records that a leader deleted must be in every log
        "deleted-and-lost-with-its-disk",
        f"{_CHECKERS}replica_truth.py",
        "        return [(max(first, least), last, term) for first, last, term in runs if last > least]",
        "        return list(runs)",
        "replicas/committed-lost",
    ),
    _kept(  # a paused host must act
        "deposed-leader-stands-still",
        f"{_WATCHING}disturbances.py",
        "        self._idle.setdefault(fact.host, seen.at_us)\n",
        "        self._idle.update({fact.host: seen.at_us} if isinstance(fact, HostDown) else {})\n",
        "requests/waits-for-ever",
    ),
    _kept(  # whatever a group's log lost, its coordinator knows the group
        "fails-without-its-groups-log",
        f"{_CHECKERS}liveness.py",
        "records.term_at(position) != term\n",
        "records.term_at(position) != term and False\n",
        "liveness/member-failed",
    ),
    _kept(  # nobody may be fenced for an id of a deposed coordinator
        "fenced-for-an-id-of-a-deposed-coordinator",
        f"{_CHECKERS}liveness.py",
        "        fenced = fact.error is ErrorCode.FENCED_INSTANCE_ID",
        "        fenced = False",
        f"{_STORIES}test_illegal_runs.py::"
        "test_a_static_member_that_is_fenced_for_an_id_that_a_deposed_coordinator_gave_it",
    ),
    _kept(  # a leader knows each partition at once
        "heard-of-with-the-next-metadata",
        f"{_CHECKERS}liveness.py",
        "(self._max_age_us if waits else 0)",
        "0",
        "liveness/not-at-rest",
    ),
    _kept(  # a follower that kept what its leader lost has another log
        "kept-by-a-follower",
        f"{_WATCHING}copies.py",
        "        return any(taken.parts(offset, one, other) for taken in self.taken.get(at, ()))",
        "        return False",
        "replicas/committed-lost",
    ),
    _kept(  # a generation is not forgotten with its record
        "kept-by-a-follower",
        f"{_WATCHING}panel.py",
        "            self.forgotten.update(dict.fromkeys(lost))\n",
        "",
        "membership/generation",
    ),
    _kept(  # a leader in its old epoch reports each loss
        "leads-again-in-its-epoch",
        f"{_CHECKERS}no_lost_record.py",
        "        for part in self.panel.progress.read_past(progress, at, piece):",
        "        for part in ():",
        "no-lost-record/committed-unprocessed",
    ),
    _kept(  # likewise of records on a lost disk
        "leads-again-with-an-empty-disk",
        f"{_CHECKERS}no_lost_record.py",
        "        for part in self.panel.progress.read_past(progress, at, piece):",
        "        for part in ():",
        f"{_TESTS}emulator/exploring/test_swarm.py::test_so_is_what_it_lost_with_its_disk_or_had_not_flushed"
        "[leads-again-with-an-empty-disk-20087-read_past0]",
    ),
    _kept(  # likewise of records that were not flushed
        "leads-again-without-what-was-not-flushed",
        f"{_CHECKERS}no_lost_record.py",
        "        for part in self.panel.progress.read_past(progress, at, piece):",
        "        for part in ():",
        "no-lost-record/committed-unprocessed",
    ),
    _kept(  # a run ends before a member has learned what a log lost
        "learns-what-a-log-lost",
        f"{_CHECKERS}no_lost_record.py",
        "            progress.was_truncated and self.panel.running_members(group) and",
        "            False and",
        f"{_STORIES}test_allowed.py::test_a_run_is_not_over_while_a_member_has_to_learn_what_a_log_lost",
    ),
    _kept(  # the swarm searches no second bug behind the first
        "left-out-and-then-fenced",
        "kemu/tools/commands/swarm.py",
        "            left = without(*known)\n",
        "            break\n",
        f"{_TESTS}tools/test_swarm.py::test_a_failure_is_known_if_it_is_gone_with_one_of_the_releases_own_bugs",
    ),
    _kept(  # a generation counts only once it was Stable
        "loaded-and-lost",
        f"{_WATCHING}panel.py",
        "            group.remember(fact.generation, 0, self.logs.of(log).records.end)",
        "            pass",
        f"{_STORIES}test_legal_runs.py::"
        "test_a_generation_that_was_loaded_before_it_was_committed_is_lost_and_begins_again",
    ),
    _kept(  # a follower that kept what its leader lost has another log
        "nobody-tells-a-follower",
        f"{_WATCHING}copies.py",
        "        return any(taken.parts(offset, one, other) for taken in self.taken.get(at, ()))",
        "        return False",
        "replicas/logs-differ",
    ),
    _kept(  # each member learns what a log lost
        "nobody-tells-it",
        f"{_CHECKERS}no_lost_record.py",
        "        return bool(self.panel.unrecoverable and progress",
        "        return bool(False and progress",
        f"{_STORIES}test_allowed.py::test_in_a_core_that_cannot_get_well_members_need_not_hear_of_what_a_log_lost",
    ),
    _kept(  # a token may be written once
        "opened-again-after-a-time-out",
        f"{_CHECKERS}catch_up.py",
        "        repeated = self._is_repeated(fact) and before.tokens[-1:] == (OffsetRange(fact.start, fact.end),)",
        "        repeated = False",
        f"{_STORIES}test_catch_up.py::test_a_range_that_is_opened_again",
    ),
    _kept(  # tokens that nobody reported are unknown after a load
        "opened-without-a-word",
        f"{_WATCHING}ranges_of_groups.py",
        "            self._write(seen, fact, tokens=tokens, secondary=secondary)",
        "            pass",
        f"{_STORIES}test_catch_up.py::test_a_range_that_only_the_log_tells_of_is_processed_too",
    ),
    _kept(  # a late commit may not be older than the one before
        "read-after-its-client-left",
        f"{_CHECKERS}commits.py",
        " and not commits.late and (",
        " and (",
        "commits/went-back",
    ),
    _kept(  # a reset delivers no record again
        "reset-after-a-range",
        f"{_CHECKERS}catch_up.py",
        " and not owned.was_reset:",
        ":",
        "catch-up/delivered-twice",
    ),
    _kept(  # an id that the loaded log replaced still owns, once KAFKA-9801 is fixed
        "static-member-without-assignment",
        f"{_CHECKERS}one_owner.py",
        "            if instance in instances:\n",
        "            if instance in instances and False:\n",
        f"{_TESTS}tools/test_swarm.py::test_what_comes_after_a_member_that_failed_is_none_of_its_own",
    ),
    _kept(  # Java's coordinator waits for all in-sync replicas
        "too-few-for-the-assignment",
        "kemu/actors/coordinator/log.py",
        "LEADER_ALONE if rules.waits_for_watermark else ALL_IN_SYNC",
        "ALL_IN_SYNC",
        f"{_TESTS}actors/coordinator/test_group_on_broker_log.py::"
        "test_java_appends_to_the_leader_alone_and_waits_itself",
    ),
    _kept(  # a leader that waits for another epoch must rebalance
        "too-few-while-its-leader-waits",
        f"{_CHECKERS}liveness.py",
        "        if why := self._unknown_isr(name):\n",
        '        if why := "":\n',
        "liveness/not-at-rest",
    ),
    _kept(  # the end of a range was read before its partition was truncated
        "jumped-to-an-end-that-was-cut",
        "kemu/emulator/watching/progress.py",
        "elif fact.why in (COMMITTED, JUMPED):",
        "elif fact.why == COMMITTED:",
        "commits/not-truncated",
    ),
    _kept(  # all members always share an assignor
        "upgraded-before-the-former-members-left",
        f"{_CHECKERS}liveness.py",
        "        if inconsistent and fact.group in self._reassigned:\n",
        "        if False:\n",
        "liveness/member-failed",
    ),
    _kept(  # ranges of a truncated partition stay open
        "void-where-its-partition-was-cut",
        f"{_CHECKERS}catch_up.py",
        "                self._truncated[at] = None",
        "                pass",
        "catch-up/range-misplaced",
    ),
    _kept(  # a copy that waits for its directory has nothing
        "waits-for-another-threads-directory",
        "kemu/actors/streams/thread.py",
        "if one.state is not TaskState.CREATED and (",
        "if (",
        "tasks/state-passed-over",
    ),
    _kept(  # a range whose commit the log lost was never processed
        "worked-off-and-then-lost",
        f"{_CHECKERS}catch_up.py",
        "            owned.committed >= each.end and",
        "            False and",
        f"{_STORIES}test_catch_up.py::test_a_range_that_was_worked_off_and_whose_commit_the_log_lost",
    ),
    _kept(  # work that outlasts the interval starts no further interval
        "worked-on-when-the-interval-ends",
        "kemu/actors/consumer/child.py",
        "work.one.serving or work.done > work.progress for",
        "work.one.serving or work.processed > work.progress for",
        f"{_TESTS}kips/test_kip_333.py::test_the_second_consumer_commits_work_that_outlasts_its_interval",
    ),
    _kept(  # the second consumer may work only on ranges in the log
        "works-on-when-its-range-is-lost",
        f"{_CHECKERS}catch_up.py",
        "(*self.panel.ranges.of(fact.group, at).tokens, *self.panel.ranges.kept(fact.group, at).opened)",
        "self.panel.ranges.of(fact.group, at).tokens",
        f"{_STORIES}test_catch_up.py::"
        "test_the_second_consumer_works_on_while_it_has_yet_to_hear_that_the_log_lost_its_range",
    ),
]
