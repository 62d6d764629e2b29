"""Breaks of the coordinator, each with the test that is there for it."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # skip the fencing of a replaced static member
        "kemu/actors/coordinator/members.py",
        "return ErrorCode.FENCED_INSTANCE_ID",
        "return ErrorCode.NONE",
        "tests/actors/coordinator/test_group_static.py::test_the_original_id_is_fenced_after_a_replacement",
    ),
    Mutation(  # accept a heartbeat of any generation
        "kemu/actors/coordinator/group.py",
        """        if request.generation != self.shared.generation:
            return ErrorCode.ILLEGAL_GENERATION
        assert self.shared.state is not EMPTY, f"{self.name}: {request.member_id} is a member of an empty group"
        if self.shared.state is COMPLETING:
            return self._machine.rules.answer_while_completing
        return ErrorCode.REBALANCE_IN_PROGRESS if self.shared.state is PREPARING else _NONE

    # --- leave""",
        """        assert self.shared.state is not EMPTY, self.name
        return ErrorCode.REBALANCE_IN_PROGRESS if self.shared.state is PREPARING else _NONE

    # --- leave""",
        "tests/actors/coordinator/test_group_sync.py::test_heartbeats_by_state",
    ),
    Mutation(  # accept a commit of any generation
        "kemu/actors/coordinator/group.py",
        """            if generation != self.shared.generation:
                return ErrorCode.ILLEGAL_GENERATION
        else:""",
        """        else:""",
        "tests/actors/coordinator/test_group_offsets.py::test_who_may_commit",
    ),
    Mutation(  # forget the session timer at join completion
        "kemu/actors/coordinator/join_phase.py",
        """            shared.start_session(member)
            member.is_new = False""",
        """            member.is_new = False""",
        "tests/actors/coordinator/test_group_join.py::test_the_join_limit_of_a_new_member_ends_with_the_join_phase",
    ),
    Mutation(  # expire a member whose join is parked
        "kemu/actors/coordinator/join_phase.py",
        "if not member.is_new and (member_id in self.parked or member_id in self._syncing.parked):",
        "if False:",
        "tests/actors/coordinator/test_group_join.py::test_a_join_does_not_rearm_the_session_and_a_parked_member_does_not_expire",
    ),
    Mutation(  # never start the sync timer
        "kemu/actors/coordinator/syncing.py",
        "            self._machine.start_timer(self._timer, members.rebalance_timeout_ms() * US_PER_MS)\n",
        "            pass\n",
        "tests/actors/coordinator/test_group_sync.py::test_members_that_never_sync_are_removed_although_they_heartbeat",
    ),
    Mutation(  # tell members their assignment before it is in the log
        "kemu/actors/coordinator/group.py",
        "self._machine.writes.begin(self.partition, (record,), write)",
        "write.done(_NONE, 0); assert record",
        "tests/actors/coordinator/test_group_sync.py::test_before_the_leader_a_follower_waits_until_the_assignment_is_in_the_log",
    ),
    Mutation(  # believe an assignment written for a generation that is over
        "kemu/actors/coordinator/group.py",
        "if self.shared.state is not COMPLETING or self.shared.generation != generation:",
        "if False:",
        "tests/actors/coordinator/test_group_sync.py::test_a_rebalance_meanwhile_makes_a_written_assignment_void",
    ),
    Mutation(  # ids that were handed out do not hold the join phase
        "kemu/actors/coordinator/join_phase.py",
        "return len(self.parked) == len(members) and not members.pending",
        "return len(self.parked) == len(members)",
        "tests/actors/coordinator/test_group_join.py::test_a_rebalance_waits_for_the_ids_that_were_handed_out",
    ),
    Mutation(  # drop static members that miss a join phase
        "kemu/actors/coordinator/join_phase.py",
        "[m for m in members if m.instance_id is None and m.member_id not in self.parked]",
        "[m for m in members if m.member_id not in self.parked]",
        "tests/actors/coordinator/test_group_static.py::test_a_silent_static_leader_stays_a_member_and_another_leads",
    ),
    Mutation(  # keep the generation when a join phase completes
        "kemu/actors/coordinator/join_phase.py",
        "        shared.generation += 1\n",
        "",
        "tests/actors/coordinator/test_group_sync.py"
        "::test_the_generation_rises_with_every_completed_join_phase_and_with_nothing_else",
    ),
    Mutation(  # leave parked syncs alone when a rebalance starts
        "kemu/actors/coordinator/join_phase.py",
        "            self._syncing.reset(ErrorCode.REBALANCE_IN_PROGRESS)",
        "            pass",
        "tests/actors/coordinator/test_group_sync.py::test_a_leave_while_the_assignment_is_awaited_sends_all_back_to_join",
    ),
    Mutation(  # show an offset before it is in the log
        "kemu/actors/coordinator/offset_requests.py",
        "        group.offsets.begin([partition for partition, _ in values])\n",
        "        group.offsets.begin([partition for partition, _ in values])\n"
        "        group.offsets.committed.update({p: Kept(v, -1) for p, v in values})\n",
        "tests/actors/coordinator/test_group_offsets.py::test_a_commit_is_answered_and_visible_when_it_is_in_the_log",
    ),
    Mutation(  # accept commits while the assignment is awaited
        "kemu/actors/coordinator/group.py",
        "return ErrorCode.REBALANCE_IN_PROGRESS if self.shared.state is COMPLETING else _NONE",
        "return _NONE",
        "tests/actors/coordinator/test_group_offsets.py::test_a_commit_while_the_assignment_is_awaited",
    ),
    Mutation(  # load a group without its sessions
        "kemu/actors/coordinator/group.py",
        """        for member in self.members:
            self.shared.start_session(member)
        most =""",
        """        most =""",
        "tests/actors/coordinator/test_group_failover.py::test_after_a_load_every_member_has_a_fresh_session",
    ),
]
