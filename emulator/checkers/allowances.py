"""The table of allowances: each behaviour that a checker would report, and lets pass, because Kafka shows it, too.

An allowance names the rule that it bounds, the condition under which it holds, and Kafka's source for it. It is scoped
to an actor, a partition, an offset range or an interval, and ends with its cause. Two tests stand beside each: one in
which a correct run needs it, and one in which a real fault beside it is still caught.

The code of an allowance is a function, a class or a module of its own, so that its size can be measured
(``tests/emulator/checkers/test_allowances.py``).
"""

from attrs import frozen


@frozen
class Allowance:
    """One row of the table.

    Args:
        name: what is allowed, in words with hyphens.
        rules: the rules that it bounds, each ``checker: kind``.
        condition: when it holds, in one sentence.
        source: Kafka's class and release, KIP or JIRA issue.
        code: where it is decided: ``module:Class.method``, ``module:function`` or a whole ``module``, below ``kemu.``.
        needed_by: the test of a correct run that needs it (``path::test``).
        bounded_by: the test of a fault beside it that is still caught.
    """

    name: str
    rules: tuple[str, ...]
    condition: str
    source: str
    code: tuple[str, ...]
    needed_by: str
    bounded_by: str


ALLOWANCES: tuple[Allowance, ...] = (
    Allowance(
        "isr-unknown-to-its-controller",
        (
            "liveness: unheard-isr",
            "duties: watermark-waits",
            "duties: out-of-isr",
            "duties: never-shrunk",
            "group-progress: offsets-uncommitted",
            "group-progress: records-unread",
        ),
        "The controller wrote an ISR to the store and lost the answer; its leader waits for another leader epoch.",
        "Kafka 3.4 KafkaController.processAlterPartition, Partition.submitAlterPartition",
        (
            "emulator.watching.unheard_isrs",
            "emulator.checkers.liveness:Liveness._unheard_isr",
            "emulator.checkers.replica_duties:ReplicaDuties._can_ask",
            "emulator.checkers.group_progress:GroupDuties._is_unheard",
        ),
        "tests/emulator/checkers/test_unheard_isrs.py::"
        "test_a_group_whose_log_has_too_few_in_sync_while_its_leader_waits_stands_still",
        "tests/emulator/checkers/test_unheard_isrs.py::test_a_lost_answer_excuses_no_group_whose_log_can_be_written",
    ),
    Allowance(
        "instance-that-the-log-does-not-have",
        ("liveness: forgotten-instance",),
        "A static member is fenced for an id of which the group's log lost the record, or which its giver never wrote.",
        "Kafka 3.4 GroupMetadataManager.storeGroup, GroupCoordinator.updateStaticMemberAndRebalance",
        (
            "emulator.checkers.liveness:Liveness._is_forgotten",
            "emulator.watching.static_ids",
        ),
        "tests/emulator/checkers/test_illegal_runs.py::"
        "test_a_static_member_that_is_fenced_after_the_groups_log_lost_its_id",
        "tests/emulator/checkers/test_illegal_runs.py::"
        "test_a_static_member_that_is_fenced_for_an_id_from_a_rebalance_that_was_never_written",
    ),
    Allowance(
        "coordinator-that-was-not-told",
        ("liveness: untold-coordinator", "group-progress: not-rejoined"),
        "The order to stop the coordinator's replica of the group's log was lost; its members ask it, and it answers.",
        "Kafka 3.4 KafkaController.onPartitionReassignment, GroupMetadataManager.storeGroup",
        (
            "emulator.checkers.liveness:Liveness._untold_coordinator",
            "emulator.checkers.group_progress:GroupDuties._leads",
        ),
        "tests/emulator/checkers/test_deposed_coordinators.py::"
        "test_a_coordinator_that_was_never_told_that_its_replica_was_taken_is_named",
        "tests/emulator/checkers/test_deposed_coordinators.py::"
        "test_a_coordinator_that_may_still_hear_of_its_successor_is_no_excuse",
    ),
    Allowance(
        "rebalance-that-nobody-asks-for",
        ("liveness: forgotten-rebalance",),
        "A static member gave partitions up and rejoined before the follow-up rebalance; nobody else asks for one.",
        "Kafka 3.4 GroupCoordinator.updateStaticMemberAndRebalance, KIP-429",
        ("emulator.watching.forgotten_rebalances", "emulator.checkers.liveness:Liveness._forgotten_rebalance"),
        "tests/emulator/checkers/test_forgotten_rebalances.py::"
        "test_what_its_former_owner_does_not_ask_for_is_named_as_kafkas_own",
        "tests/emulator/checkers/test_forgotten_rebalances.py::"
        "test_a_group_that_lacks_more_or_whose_owner_must_ask_has_no_excuse",
    ),
    Allowance(
        "read-past-what-nobody-told",
        ("no-lost-record: committed-unprocessed",),
        "The group passed others at these offsets, in the leader epoch of the new records or a later one, and the"
        " log has lost those: no leader's answer ends before the group's position.",
        "Kafka 3.4 LeaderEpochFileCache.endOffsetFor, SubscriptionState.maybeCompleteValidation",
        (
            "emulator.watching.progress:GroupProgress.read_past",
            "emulator.checkers.no_lost_record:NoLostRecord._read_past",
        ),
        "tests/emulator/checkers/test_relapses.py::"
        "test_a_group_is_told_nothing_by_a_leader_that_has_more_records_of_an_epoch_before",
        "tests/emulator/checkers/test_illegal_runs.py::test_reading_on_behind_a_cut_of_which_another_leader_epoch_told",
    ),
    Allowance(
        "end-told-by-a-deposed-leader",
        ("tasks: runs-without-state",),
        "Another broker takes itself for the changelog's leader, and tells the lower end that its high watermark has.",
        "Kafka 3.4 Partition.fetchOffsetForTimestamp, StoreChangelogReader.endOffsetForChangelogs",
        ("emulator.watching.readable:ReadableEnds.end",),
        "tests/emulator/checkers/test_task_state.py::"
        "test_a_leader_that_does_not_know_of_its_successor_may_tell_an_older_end",
        "tests/emulator/checkers/test_task_state.py::"
        "test_an_active_task_runs_only_with_what_its_changelog_had_when_its_restore_began",
    ),
    Allowance(
        "own-records-that-nobody-acknowledged",
        ("tasks: runs-without-state",),
        "A task whose producer gave up on a batch has these records in its state, wherever the changelog has them.",
        "Kafka 3.4 RecordCollectorImpl.send, ChangeLoggingKeyValueBytesStore.put",
        ("emulator.watching.applications:WatchedApplications._produce_failed",),
        "tests/emulator/checkers/test_task_state.py::"
        "test_a_task_has_what_it_wrote_itself_although_nobody_acknowledged_it",
        "tests/emulator/checkers/test_task_state.py::test_a_task_that_comes_back_needs_what_its_other_owner_wrote",
    ),
    Allowance(
        "commit-that-a-fault-kept-from-the-coordinator",
        ("tasks: given-up-uncommitted",),
        "A commit of the thread was refused, or a fault hit it or a broker within ``default.api.timeout.ms``.",
        "Kafka 3.4 TaskManager.handleRevocation, ConsumerCoordinator.commitOffsetsSync",
        ("emulator.checkers.tasks:Tasks._tried",),
        "tests/emulator/checkers/test_task_duties.py::test_what_is_given_up_is_committed",
        "tests/emulator/checkers/test_task_duties.py::test_an_error_of_an_earlier_commit_excuses_nothing",
    ),
    Allowance(
        "request-to-a-former-controller",
        ("duties: out-of-isr", "duties: never-shrunk"),
        "A leader asked for an ISR before the newest controller was ready; its request waits for the socket timeout.",
        "Kafka 3.4 AlterPartitionManager (one request in flight), BrokerToControllerRequestThread",
        ("emulator.checkers.replica_duties:ReplicaDuties._answered_from_us",),
        "tests/emulator/checkers/test_replication_duties.py::"
        "test_a_leader_that_asked_a_controller_that_died_waits_until_its_socket_times_out",
        "tests/emulator/checkers/test_replication_duties.py::"
        "test_a_leader_that_still_waits_after_its_socket_timed_out_is_a_violation",
    ),
    Allowance(
        "order-lost-with-its-controller",
        ("duties: replica-kept",),
        "The controller that took a replica from a broker, or the registration of that broker, is not the one of then.",
        "Kafka 3.4 ControllerChannelManager.removeBroker: queued requests go with their channel",
        ("emulator.checkers.kept_logs:KeptLogs._is_owed",),
        "tests/emulator/checkers/test_replication_duties.py::test_the_order_to_stop_it_is_lost_with_its_controller",
        "tests/emulator/checkers/test_replication_duties.py::"
        "test_a_replica_that_is_not_stopped_after_a_reassignment_is_a_violation",
    ),
)
