"""Breaks of the consumer, each with the test that is there for it."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # act on a heartbeat error of a generation that is over
        "kemu/actors/consumer/membership.py",
        "        if sent != self.generation and self._client.passes_over_late_errors:\n            return False\n",
        "",
        "tests/actors/consumer/test_consumer_heartbeat.py::test_errors_about_a_generation_that_is_over_are_ignored",
    ),
    Mutation(  # act on a JoinGroup error of a generation that is over
        "kemu/actors/consumer/membership.py",
        """            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.refused(error, encountered("JoinGroup", error), sent)
                self._refuse""",
        """            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.reset(why, forget_member_id=True)
                self._refuse""",
        "tests/actors/consumer/test_consumer_join.py"
        "::test_unknown_member_on_join_keeps_the_id_when_the_generation_changed_since",
    ),
    Mutation(  # keep the member id on UNKNOWN_MEMBER_ID
        "kemu/actors/consumer/membership.py",
        "        self.reset(why, forget_member_id=not keeps)\n",
        "        self.reset(why, forget_member_id=False)\n",
        "tests/actors/consumer/test_consumer_heartbeat.py::test_being_no_member_any_more_loses_the_partitions_at_the_next_poll",
    ),
    Mutation(  # call onPartitionsRevoked where it must be onPartitionsLost
        "kemu/actors/consumer/rebalancing.py",
        'machine.call_listener("onPartitionsLost", owned, self._lost_before_join)',
        'machine.call_listener("onPartitionsRevoked", owned, self._revoked_before_join)',
        "tests/actors/consumer/test_consumer_rebalance.py::test_a_cooperative_member_that_was_reset_loses_everything",
    ),
    Mutation(  # commit what is fetched instead of what was returned
        "kemu/actors/consumer/positions.py",
        "offset=one.position, leader_epoch=one.offset_epoch\n",
        "offset=one.buffer[-1][1] if one.buffer else one.position, leader_epoch=one.offset_epoch\n",
        "tests/actors/consumer/test_consumer_commit.py::test_a_commit_never_runs_ahead_of_what_was_processed",
    ),
    Mutation(  # read the answer to JoinGroup although the polling thread is busy
        "kemu/actors/consumer/membership.py",
        "        self._unread = reply, sent\n        self._machine.wake()",
        "        self._read_join_reply(reply, sent)",
        "tests/actors/consumer/test_consumer_heartbeat.py::test_a_busy_application_takes_the_join_answer_only_when_it_polls",
    ),
    Mutation(  # a static member says goodbye
        "kemu/actors/consumer/membership.py",
        "            (operation == CLOSE_LEAVES or (operation == CLOSE_DEFAULT and self._instance_id is None))\n"
        "            and self._machine.config.internal_leave_group_on_close",
        "            self._machine.config.internal_leave_group_on_close",
        "tests/actors/consumer/test_consumer_close.py::test_a_static_member_does_not_say_goodbye",
    ),
    Mutation(  # forget max.poll.interval
        "kemu/actors/consumer/polling.py",
        "            self._membership.poll_timed_out()\n",
        "            pass\n",
        "tests/actors/consumer/test_consumer_heartbeat.py::test_an_application_that_does_not_poll_in_time_leaves_the_group",
    ),
    Mutation(  # wait for the commit before a join for ever
        "kemu/actors/consumer/rebalancing.py",
        "self._prepare_until_us = now_us + config.max_poll_interval_ms * 1000",
        "self._prepare_until_us = now_us + config.max_poll_interval_ms * 1_000_000",
        "tests/actors/consumer/test_consumer_rebalance.py"
        "::test_a_commit_before_the_join_that_is_not_answered_does_not_hold_it_back_for_ever",
    ),
    Mutation(  # a cooperative member that gave something up does not come back
        "kemu/protocol/rebalancing/rules.py",
        "rejoin=bool(revoked)",
        "rejoin=False",
        "tests/actors/consumer/test_consumer_rebalance.py"
        "::test_a_cooperative_member_gives_up_only_what_is_taken_away_and_then_rejoins",
    ),
    Mutation(  # return records of partitions that are about to be revoked
        "kemu/actors/consumer/positions.py",
        "            one.serving = False\n            one.buffer = []",
        "            one.buffer = []",
        "tests/actors/consumer/test_consumer_rebalance.py"
        "::test_records_are_not_returned_any_more_once_the_commit_before_the_join_is_sent",
    ),
    Mutation(  # a leader that does not watch metadata
        "kemu/actors/consumer/rebalancing.py",
        "if self.is_leader and not self._membership.rejoin_needed and self._assigned_from != snapshot:",
        "if False:",
        "tests/actors/consumer/test_consumer_rebalance.py::test_a_leader_rejoins_when_a_topic_grows",
    ),
    Mutation(  # a leader that finds its coordinator looks at metadata of now, not of when its poll() began
        "kemu/actors/consumer/rebalancing.py",
        "self._check_against(taken[-1] if taken else self._snapshot())",
        "self._check_against(self._snapshot())",
        "tests/actors/consumer/test_consumer_rebalance.py"
        "::test_a_leader_that_finds_its_coordinator_again_looks_at_the_metadata_of_when_its_poll_began",
    ),
    Mutation(  # a consumer that was fenced commits once more when it closes
        "kemu/actors/consumer/commits.py",
        "            self._fenced = True",
        "            pass",
        "tests/actors/consumer/test_consumer_commit.py::test_who_was_fenced_commits_no_more_when_it_closes",
    ),
    Mutation(  # no backoff while there is no coordinator
        "kemu/actors/client.py",
        "wait_us = min(self.first_us << min(failures - 1, _MAX_EXPONENT), self.most_us)",
        "wait_us = self.first_us",
        "tests/actors/consumer/test_consumer_discovery.py"
        "::test_a_coordinator_that_is_not_available_is_looked_up_ever_more_slowly",
    ),
]
