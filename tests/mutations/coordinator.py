"""Breaks of the coordinator, each with the test that is there for it."""

from tests.mutations import Mutation

MUTATIONS = [
    Mutation(  # skip the fencing of a replaced static member
        "actors/coordinator/members.py",
        "return ErrorCode.FENCED_INSTANCE_ID",
        "return ErrorCode.NONE",
        "tests/actors/coordinator/test_group_static.py::test_the_original_id_is_fenced_after_a_replacement",
    ),
    Mutation(  # accept a heartbeat of any generation
        "actors/coordinator/group.py",
        """        if request.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        assert self.state is not EMPTY, f"{self.name}: {request.member_id} is a member of an empty group"
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is PREPARING else _NONE

    # --- leave""",
        """        assert self.state is not EMPTY, f"{self.name}: {request.member_id} is a member of an empty group"
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is PREPARING else _NONE

    # --- leave""",
        "tests/actors/coordinator/test_group_sync.py::test_heartbeats_by_state",
    ),
    Mutation(  # accept a commit of any generation
        "actors/coordinator/group.py",
        """            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        else:""",
        """        else:""",
        "tests/actors/coordinator/test_group_offsets.py::test_who_may_commit",
    ),
    Mutation(  # forget the session timer at join completion
        "actors/coordinator/rebalance.py",
        """            self.start_session(member)
            member.is_new = False""",
        """            member.is_new = False""",
        "tests/actors/coordinator/test_group_join.py::test_the_join_limit_of_a_new_member_ends_with_the_join_phase",
    ),
    Mutation(  # expire a member whose join is parked
        "actors/coordinator/rebalance.py",
        "if not member.is_new and (member.join is not None or member.sync is not None):",
        "if False:",
        "tests/actors/coordinator/test_group_join.py::test_a_join_does_not_rearm_the_session_and_a_parked_member_does_not_expire",
    ),
    Mutation(  # never start the sync timer
        "actors/coordinator/rebalance.py",
        "        self._start_ms(self._sync_key, members.rebalance_timeout_ms())\n",
        "",
        "tests/actors/coordinator/test_group_sync.py::test_members_that_never_sync_are_removed_although_they_heartbeat",
    ),
    Mutation(  # tell members their assignment before it is in the log
        "actors/coordinator/group.py",
        "self.desk.write(self.partition, (record,), SyncWrite(self, self.generation, assignments))",
        "self.sync_written(SyncWrite(self, self.generation, assignments), _NONE); assert record",
        "tests/actors/coordinator/test_group_sync.py::test_before_the_leader_a_follower_waits_until_the_assignment_is_in_the_log",
    ),
    Mutation(  # believe an assignment written for a generation that is over
        "actors/coordinator/group.py",
        "if self.state is not COMPLETING or self.generation != write.generation:",
        "if False:",
        "tests/actors/coordinator/test_group_sync.py::test_a_rebalance_meanwhile_makes_a_written_assignment_void",
    ),
    Mutation(  # ids that were handed out do not hold the join phase
        "actors/coordinator/members.py",
        "return self.awaiting_join == len(self.by_id) and not self.pending",
        "return self.awaiting_join == len(self.by_id)",
        "tests/actors/coordinator/test_group_join.py::test_a_rebalance_waits_for_the_ids_that_were_handed_out",
    ),
    Mutation(  # drop static members that miss a join phase
        "actors/coordinator/rebalance.py",
        "[m for m in members if m.join is None and m.instance_id is None]",
        "[m for m in members if m.join is None]",
        "tests/actors/coordinator/test_group_static.py::test_a_silent_static_leader_stays_a_member_and_another_leads",
    ),
    Mutation(  # keep the generation when a join phase completes
        "actors/coordinator/rebalance.py",
        "        self.generation += 1\n",
        "",
        "tests/actors/coordinator/test_group_sync.py"
        "::test_the_generation_rises_with_every_completed_join_phase_and_with_nothing_else",
    ),
    Mutation(  # leave parked syncs alone when a rebalance starts
        "actors/coordinator/rebalance.py",
        "            self.reset_assignments(ErrorCode.REBALANCE_IN_PROGRESS)",
        "            pass",
        "tests/actors/coordinator/test_group_sync.py::test_a_leave_while_the_assignment_is_awaited_sends_all_back_to_join",
    ),
    Mutation(  # show an offset before it is in the log
        "actors/coordinator/offset_requests.py",
        "        group.offsets.begin([partition for partition, _ in values])\n",
        "        group.offsets.begin([partition for partition, _ in values])\n"
        "        group.offsets.committed.update({p: Kept(v, -1) for p, v in values})\n",
        "tests/actors/coordinator/test_group_offsets.py::test_a_commit_is_answered_and_visible_when_it_is_in_the_log",
    ),
    Mutation(  # accept commits while the assignment is awaited
        "actors/coordinator/group.py",
        "return ErrorCode.REBALANCE_IN_PROGRESS if self.state is COMPLETING else _NONE",
        "return _NONE",
        "tests/actors/coordinator/test_group_offsets.py::test_a_commit_while_the_assignment_is_awaited",
    ),
    Mutation(  # load a group without its sessions
        "actors/coordinator/group.py",
        """        for member in self.members:
            self.start_session(member)
        if len""",
        """        if len""",
        "tests/actors/coordinator/test_group_failover.py::test_after_a_load_every_member_has_a_fresh_session",
    ),
]
