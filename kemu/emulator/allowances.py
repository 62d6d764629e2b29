"""The allowances: behaviours that break a rule as stated, and that checkers accept because Kafka has the same
behaviours.

Each allowance names its rules, its condition, and its source in Kafka. An allowance is scoped to an actor, a partition,
an offset range or an interval, and ends with its cause. Two tests accompany each allowance, or one test with both
cases: a correct run that needs the allowance, and a similar fault that a checker still reports.

The code of an allowance is a function, a class or a module of its own, so that its size can be measured
(``tests/emulator/checkers/test_allowances.py``).
"""

from kemu.protocol.frozen import frozen


@frozen
class Allowance:
    """A behaviour of Kafka that breaks a rule as stated, and that checkers accept.

    Args:
        name: the allowed behaviour, as words with hyphens.
        rules: the bounded rules, each ``checker: kind``.
        condition: one sentence.
        source: a class and release, KIP or issue.
        code: ``module:Class.method``, ``module:function`` or ``module``.
        needed_by: test of a correct run that needs the allowance (``path::test``).
        bounded_by: test of a similar fault that a checker still reports; "": ``needed_by`` has both cases.
    """

    name: str
    rules: tuple[str, ...]
    condition: str
    source: str
    code: tuple[str, ...]
    needed_by: str
    bounded_by: str = ""


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
        "The controller wrote an ISR and lost the answer; the partition's leader waits for another leader epoch.",
        "Kafka 3.4 KafkaController.processAlterPartition, Partition.submitAlterPartition",
        (
            "kemu.emulator.watching.unknown_isrs",
            "kemu.emulator.checkers.liveness:Liveness._unknown_isr",
            "kemu.emulator.checkers.replica_duties:ReplicaDuties._can_ask",
            "kemu.emulator.checkers.group_progress:GroupDuties._is_unknown_isr",
        ),
        "tests/emulator/checkers/test_unknown_isrs.py::"
        "test_a_group_whose_log_has_too_few_in_sync_while_its_leader_waits_stands_still",
        "tests/emulator/checkers/test_unknown_isrs.py::test_a_lost_answer_excuses_no_group_whose_log_can_be_written",
    ),
    Allowance(
        "replica-that-the-watermark-waited-for",
        ("duties: watermark-waits",),
        "A replica outside the ISR had every record when a fault ended its fetches; the leader appended nothing after"
        " the lag.",
        "Kafka 3.4 Partition.maybeIncrementLeaderHW: at changes of a log end or of the ISR",
        ("kemu.emulator.checkers.replica_duties:ReplicaDuties._waited_for",),
        "tests/emulator/checkers/test_replication_duties.py::"
        "test_a_high_watermark_may_wait_for_a_replica_that_ceased_before_it_joined_the_isr",
        "tests/emulator/checkers/test_replication_duties.py::"
        "test_a_high_watermark_does_not_wait_for_a_replica_that_ceased_after_an_append_behind_its_lag",
    ),
    Allowance(
        "static-id-missing-from-the-log",
        ("liveness: forgotten-instance",),
        "A static member is fenced for an id whose record the group's log lost, or whose coordinator never wrote it.",
        "Kafka 3.4 GroupMetadataManager.storeGroup, GroupCoordinator.updateStaticMemberAndRebalance; Kafka 4.0"
        " GroupMetadataManager.throwIfInstanceIdIsFenced",
        (
            "kemu.emulator.checkers.liveness:Liveness._is_forgotten",
            "kemu.emulator.watching.static_ids",
        ),
        "tests/emulator/checkers/test_illegal_runs.py::"
        "test_a_static_member_that_is_fenced_after_the_groups_log_lost_its_id",
        "tests/emulator/checkers/test_illegal_runs.py::"
        "test_a_static_member_that_is_fenced_for_an_id_from_a_rebalance_that_was_never_written",
    ),
    Allowance(
        "static-member-before-the-end-of-its-session",
        ("liveness: unreleased-instance",),
        "The coordinator still has a member with this group.instance.id that has not left, or whose leave could not be"
        " written: of the former process, or of a join without an answer.",
        "Kafka 4.0 GroupMetadataManager.throwIfInstanceIdIsUnreleased, ConsumerHeartbeatRequestManager",
        ("kemu.emulator.checkers.liveness:Liveness._kind_of",),
        "tests/emulator/checkers/test_failing_members.py::"
        "test_a_static_member_of_the_consumer_protocol_that_returns_too_early_fails_for_good",
        "tests/emulator/checkers/test_failing_members.py::"
        "test_a_static_member_of_the_consumer_protocol_fails_for_good_without_another_process",
    ),
    Allowance(
        "member-that-has-not-heard-of-its-removal",
        ("liveness: unheard-removal",),
        "OffsetFetch got UNKNOWN_MEMBER_ID, and the coordinator has no such member.",
        "Kafka 4.0 to 4.3 CommitRequestManager.OffsetFetchRequestState.onFailure, AsyncKafkaConsumer.poll",
        ("kemu.emulator.checkers.liveness:Liveness._kind_of",),
        "tests/emulator/checkers/test_failing_members.py::"
        "test_a_removed_member_fails_if_it_asks_for_offsets_before_a_heartbeat",
    ),
    Allowance(
        "sync-before-the-group-is-loaded",
        ("liveness: sync-while-loading",),
        "A coordinator of 4.0 or later that had not loaded the group refused the member's last SyncGroup with"
        " COORDINATOR_LOAD_IN_PROGRESS.",
        "Kafka 4.0 to 4.3 GroupCoordinatorService.syncGroup, AbstractCoordinator.SyncGroupResponseHandler",
        ("kemu.emulator.checkers.liveness:Liveness._sync_refused",),
        "tests/emulator/checkers/test_failing_members.py::"
        "test_a_classic_member_fails_if_it_syncs_while_a_coordinator_of_4_0_loads_its_group",
    ),
    Allowance(
        "classic-members-without-a-target",
        ("liveness: unheard-epoch", "group-progress: not-reconciled"),
        "The group of the consumer protocol is Assigning, and the last request of each member is a classic one; since"
        " 4.3.",
        "Kafka 4.3 GroupMetadataManager.classicGroupHeartbeatToConsumerGroup, validateOnlineDowngradeWithFencedMembers",
        ("kemu.emulator.watching.reconciliations:Reconciliations.hears_of_no_epoch",),
        "tests/emulator/checkers/test_reconciling_groups.py::"
        "test_since_4_3_no_heartbeat_tells_classic_members_of_an_epoch_without_a_target",
    ),
    Allowance(
        "group-missing-from-the-log",
        ("liveness: forgotten-group",),
        "The copy of the present leader of the group's log lacks a record from before the member's assignment; without"
        " replication, a disk lost records of the log.",
        "Kafka 4.0 GroupMetadataManager.consumerGroupHeartbeat, AbstractHeartbeatRequestManager.onErrorResponse",
        ("kemu.emulator.checkers.liveness:Liveness._has_lost",),
        "tests/emulator/checkers/test_failing_members.py::"
        "test_a_group_is_forgotten_only_if_the_copy_of_its_logs_leader_lost_its_records",
        "tests/emulator/checkers/test_failing_members.py::test_a_member_whose_group_is_not_found_without_a_loss_is_a_violation",
    ),
    Allowance(
        "group-deleted-without-its-member",
        ("liveness: forgotten-group",),
        "The coordinator removed this member, deleted the empty group, and then answered the member's heartbeat.",
        "Kafka 4.0 to 4.3 GroupMetadataManager.getOrMaybeCreateConsumerGroup,"
        " AbstractHeartbeatRequestManager.onErrorResponse",
        ("kemu.emulator.checkers.liveness:Liveness._refused",),
        "tests/emulator/checkers/test_failing_members.py::"
        "test_a_removed_member_fails_for_good_after_its_group_was_deleted_and_others_do_not",
    ),
    Allowance(
        "classic-group-without-an-assignor",
        ("liveness: unconverted-group",),
        "The coordinator refused the join of this member in a join phase of a classic group that began Empty.",
        "Kafka 4.0 to 4.3 ConsumerGroup.fromClassicGroup: the group has no protocol name before the phase ends",
        ("kemu.emulator.checkers.liveness:Liveness._refused",),
        "tests/emulator/checkers/test_failing_members.py::"
        "test_a_group_cannot_be_converted_only_in_a_join_phase_that_began_empty",
    ),
    Allowance(
        "member-of-a-group-that-became-classic",
        ("liveness: downgraded-group",),
        "The coordinator removed this member, and then converted the group to a classic group.",
        "Kafka 4.0 to 4.3 GroupMetadataManager.getOrMaybeCreateConsumerGroup,"
        " AbstractHeartbeatRequestManager.onErrorResponse",
        ("kemu.emulator.checkers.liveness:Liveness._kind_of",),
        "tests/emulator/checkers/test_failing_members.py::"
        "test_a_removed_member_of_a_group_that_became_classic_fails_for_good_and_others_do_not",
    ),
    Allowance(
        "late-answer-to-a-removed-member",
        ("consumer-protocol: assigned-too-soon",),
        "The coordinator removed the member that takes the partition, and has not added the member again.",
        "Kafka 4.0 ConsumerMembershipManager.onHeartbeatSuccess, AbstractMembershipManager.processAssignmentReceived",
        ("kemu.emulator.checkers.consumer_protocol:ConsumerProtocol._assigned",),
        "tests/emulator/checkers/test_consumer_protocol.py::test_a_removed_member_may_take_partitions_by_a_late_answer",
        "tests/emulator/checkers/test_consumer_protocol.py::"
        "test_a_member_that_takes_a_partition_before_its_owner_gave_it_up_is_a_violation",
    ),
    Allowance(
        "acknowledgement-of-an-older-assignment",
        ("consumer-protocol: assigned-too-soon",),
        "The coordinator freed the partition by a heartbeat of its owner. The heartbeat states an assignment that the"
        " owner adopted before the owner got the partition; the owner took the partition afterwards, before or after"
        " its next owner.",
        "Kafka 4.0 to 4.3 AbstractMembershipManager.maybeReconcile, ConsumerHeartbeatRequestManager.buildRequestData,"
        " CurrentAssignmentBuilder.computeNextAssignment",
        ("kemu.emulator.checkers.consumer_protocol:ConsumerProtocol._is_freed_by_older",),
        "tests/emulator/checkers/test_consumer_protocol.py::"
        "test_a_member_takes_what_an_older_acknowledgement_freed_only_if_it_got_the_partition_later",
    ),
    Allowance(
        "turned-away-in-the-initial-delay",
        ("group-progress: join-unfinished",),
        "A join of this phase was turned away, the phase began Empty, and no member waited when the initial delay"
        " ended; the bound is the rebalance timeout.",
        "Kafka 4.0 to 4.3 GroupMetadataManager.completeClassicGroupJoin, maybeCompleteJoinPhase",
        ("kemu.emulator.checkers.group_progress:GroupDuties._look_at_joins",),
        "tests/emulator/checkers/test_group_progress.py::"
        "test_a_group_whose_first_join_was_turned_away_waits_for_the_rebalance_timeout",
    ),
    Allowance(
        "commit-repeated-before-a-join",
        ("clients: not-rejoined",),
        "The coordinator answers the member's commit with UNKNOWN_TOPIC_OR_PARTITION; the bound is the rebalance"
        " timeout.",
        "Kafka 3.9 to 4.3 ConsumerCoordinator.onJoinPrepare",
        ("kemu.emulator.checkers.clients:Clients._repeats_commit",),
        "tests/emulator/checkers/test_clients.py::"
        "test_a_member_repeats_the_commit_before_a_join_for_its_rebalance_timeout",
    ),
    Allowance(
        "assignors-changed-too-soon",
        ("liveness: inconsistent-members",),
        "The plan changed the assignors of a member of the group, and a coordinator refused this member's join"
        " (membership judges the refusal).",
        "Kafka 4.0 ClassicGroup.supportsProtocols; KIP-429: a second bounce follows the first",
        ("kemu.emulator.checkers.liveness:Liveness._kind_of",),
        "tests/emulator/checkers/test_failing_members.py::"
        "test_a_member_is_inconsistent_if_the_plan_changed_assignors_and_a_coordinator_refused_it",
        "tests/emulator/checkers/test_membership.py::"
        "test_a_join_is_inconsistent_only_if_it_shares_no_protocol_with_all_members",
    ),
    Allowance(
        "offset-delete-without-a-report",
        ("fields: wrong",),
        "An OffsetDelete named the partition, and no later commit followed; the answer has no offset.",
        "Kafka 2.4 to 4.3 GroupMetadataManager.cleanupGroupMetadata, OffsetMetadataManager.deleteOffsets: a tombstone"
        " that a coordinator wrote may reach the next leader, also if the coordinator was isolated before its answer",
        ("kemu.emulator.checkers.fields:Fields._offsets_answered",),
        "tests/emulator/checkers/test_fields.py::test_an_offset_delete_without_a_report_may_be_in_the_log",
    ),
    Allowance(
        "operators-commit-without-a-report",
        ("fields: wrong", "commits: position-not-committed"),
        "A former coordinator received a commit of an operator at this offset, and did not report it or answer that it"
        " was not written; no later commit was reported.",
        "Kafka 3.4 GroupMetadataManager.storeOffsets, 4.0 CoordinatorRuntime: a commit that is in the log when its"
        " time ends, or when the coordinator ends, may reach the next leader",
        ("kemu.emulator.watching.group_commits:GroupCommits.unreported",),
        "tests/emulator/checkers/test_fields.py::test_a_commit_of_an_operator_without_a_report_may_be_in_the_log",
        "tests/emulator/checkers/test_causes.py::"
        "test_a_member_may_start_at_an_operators_commit_that_no_coordinator_reported",
    ),
    Allowance(
        "controller-without-a-context",
        ("fields: wrong",),
        "The controller resigned and has not been ready again: it read its own node of a former session.",
        "Kafka 3.9 KafkaController.elect, onControllerResignation, processReplicaLeaderElection",
        ("kemu.emulator.checkers.fields:Fields._knows_partitions",),
        "tests/emulator/checkers/test_fields.py::"
        "test_a_controller_that_resigned_knows_no_partition_until_it_is_ready_again",
    ),
    Allowance(
        "sync-of-a-removed-member",
        ("requests: unanswered",),
        "The group removed the member while its SyncGroup waited for the assignment.",
        "Kafka 3.4 GroupCoordinator.removeMemberAndUpdateGroup, GroupMetadata.remove",
        ("kemu.emulator.checkers.requests:Requests._member_removed",),
        "tests/emulator/checkers/test_requests.py::test_a_sync_waits_for_the_assignment_while_its_member_is_one",
    ),
    Allowance(
        "coordinator-without-its-replica",
        ("liveness: untold-coordinator", "group-progress: not-rejoined"),
        "The request to stop the coordinator's replica of the group's log was lost; the coordinator still answers its"
        " members.",
        "Kafka 3.4 KafkaController.onPartitionReassignment, GroupMetadataManager.storeGroup",
        (
            "kemu.emulator.checkers.liveness:Liveness._removed_coordinator",
            "kemu.emulator.checkers.group_progress:GroupDuties._leads",
        ),
        "tests/emulator/checkers/test_deposed_coordinators.py::"
        "test_a_coordinator_that_was_never_told_that_its_replica_was_taken_is_named",
        "tests/emulator/checkers/test_deposed_coordinators.py::"
        "test_a_coordinator_that_may_still_hear_of_its_successor_is_no_excuse",
    ),
    Allowance(
        "rebalance-never-requested",
        ("liveness: forgotten-rebalance",),
        "A static member revoked partitions, led without knowing them, or subscribed to their topics later, and"
        " rejoined without its member id before it requested the rebalance. Or a static member's join converted the"
        " group without a rebalance, and no member held or received"
        " the partition in this generation.",
        "Kafka 3.4 GroupCoordinator.updateStaticMemberAndRebalance, ConsumerCoordinator.onLeaderElected, KIP-429;"
        " Kafka 4.0 to 4.3 GroupMetadataManager.convertToClassicGroup, convertToConsumerGroup",
        (
            "kemu.emulator.watching.forgotten_rebalances",
            "kemu.emulator.checkers.liveness:Liveness._forgotten_rebalance",
        ),
        "tests/emulator/checkers/test_forgotten_rebalances.py::"
        "test_what_its_former_owner_does_not_ask_for_is_named_as_kafkas_own",
        "tests/emulator/checkers/test_forgotten_rebalances.py::"
        "test_a_group_that_lacks_more_or_whose_owner_must_ask_has_no_excuse",
    ),
    Allowance(
        "loss-that-no-leader-reported",
        ("no-lost-record: committed-unprocessed",),
        "The group processed other records at these offsets, in the new records' leader epoch or a later one, and the "
        "log lost them: no leader's answer ends before the group's position.",
        "Kafka 3.4 LeaderEpochFileCache.endOffsetFor, SubscriptionState.maybeCompleteValidation",
        (
            "kemu.emulator.watching.progress:GroupProgress.read_past",
            "kemu.emulator.checkers.no_lost_record:NoLostRecord._read_past",
        ),
        "tests/emulator/checkers/test_relapses.py::"
        "test_a_group_is_told_nothing_by_a_leader_that_has_more_records_of_an_epoch_before",
        "tests/emulator/checkers/test_illegal_runs.py::test_reading_on_behind_a_cut_of_which_another_leader_epoch_told",
    ),
    Allowance(
        "full-group-not-checked",
        ("membership: join-phase", "group-progress: join-unfinished"),
        "A full group removed a member that rejoined; the join phase lasts until its timeout.",
        "Kafka 4.0 GroupMetadataManager.classicGroupJoinToClassicGroup",
        (
            "kemu.emulator.watching.memberships:Memberships._refused",
            "kemu.emulator.checkers.membership:MembershipRules._is_overlooked",
        ),
        "tests/emulator/checkers/test_membership.py::"
        "test_in_4_0_a_full_group_that_turns_a_member_away_does_not_look_whether_all_have_joined",
    ),
    Allowance(
        "end-from-a-deposed-leader",
        ("tasks: runs-without-state",),
        "A broker that still believes to lead the changelog answers with its own, lower high watermark.",
        "Kafka 3.4 Partition.fetchOffsetForTimestamp, StoreChangelogReader.endOffsetForChangelogs",
        ("kemu.emulator.watching.readable:ReadableEnds.end",),
        "tests/emulator/checkers/test_task_state.py::"
        "test_a_leader_that_does_not_know_of_its_successor_may_tell_an_older_end",
        "tests/emulator/checkers/test_task_state.py::"
        "test_an_active_task_runs_only_with_what_its_changelog_had_when_its_restore_began",
    ),
    Allowance(
        "own-unacknowledged-records",
        ("tasks: runs-without-state",),
        "A task's state has the records of a batch that its producer gave up, wherever the changelog has them.",
        "Kafka 3.4 RecordCollectorImpl.send, ChangeLoggingKeyValueBytesStore.put",
        ("kemu.emulator.watching.applications:WatchedApplications._produce_failed",),
        "tests/emulator/checkers/test_task_state.py::"
        "test_a_task_has_what_it_wrote_itself_although_nobody_acknowledged_it",
        "tests/emulator/checkers/test_task_state.py::test_a_task_that_comes_back_needs_what_its_other_owner_wrote",
    ),
    Allowance(
        "commit-prevented-by-a-fault",
        ("tasks: given-up-uncommitted",),
        "A commit of the thread failed, or a fault hit the thread or a broker within ``default.api.timeout.ms``.",
        "Kafka 3.4 TaskManager.handleRevocation, ConsumerCoordinator.commitOffsetsSync",
        ("kemu.emulator.checkers.tasks:Tasks._may_have_failed",),
        "tests/emulator/checkers/test_task_duties.py::test_what_is_given_up_is_committed",
        "tests/emulator/checkers/test_task_duties.py::test_an_error_of_an_earlier_commit_excuses_nothing",
    ),
    Allowance(
        "request-to-a-former-controller",
        ("duties: out-of-isr", "duties: never-shrunk"),
        "A leader requested an ISR before the newest controller was ready; the request waits for the socket timeout.",
        "Kafka 3.4 AlterPartitionManager (one request in flight), BrokerToControllerRequestThread",
        ("kemu.emulator.checkers.replica_duties:ReplicaDuties._answered_from_us",),
        "tests/emulator/checkers/test_replication_duties.py::"
        "test_a_leader_that_asked_a_controller_that_died_waits_until_its_socket_times_out",
        "tests/emulator/checkers/test_replication_duties.py::"
        "test_a_leader_that_still_waits_after_its_socket_timed_out_is_a_violation",
    ),
    Allowance(
        "order-lost-with-its-controller",
        ("duties: replica-kept",),
        "The controller that removed the replica, or the broker's registration at that time, no longer exists.",
        "Kafka 3.4 ControllerChannelManager.removeBroker: queued requests end with their channel",
        ("kemu.emulator.checkers.kept_logs:KeptLogs._is_owed",),
        "tests/emulator/checkers/test_replication_duties.py::test_the_order_to_stop_it_is_lost_with_its_controller",
        "tests/emulator/checkers/test_replication_duties.py::"
        "test_a_replica_that_is_not_stopped_after_a_reassignment_is_a_violation",
    ),
    Allowance(
        "records-lost-by-a-disk",
        ("replicas: committed-lost", "replicas: isr-without-committed"),
        "A replica lacks exactly the records lost in a power cut or by its disk, until it has every record again.",
        "Kafka documentation of log.flush.interval.*, KIP-966",
        ("kemu.emulator.checkers.replicas:Replicas._reasons", "kemu.emulator.watching.copies:Copies._found"),
        "tests/emulator/checkers/test_replication.py::test_a_disk_that_lost_its_tail_is_an_excuse",
        "tests/emulator/checkers/test_replication.py::"
        "test_a_disk_is_an_excuse_only_until_its_replica_has_everything_again",
    ),
    Allowance(
        "records-lost-by-the-only-disk",
        ("no-lost-record: acknowledged-lost",),
        "No broker replicates the log, and its host's disk lost exactly these records since the host went down.",
        "Kafka documentation of log.flush.interval.*",
        ("kemu.emulator.checkers.no_lost_record:NoLostRecord._lost",),
        "tests/emulator/checkers/test_losses_agree.py::"
        "test_all_brokers_lose_power_and_with_it_what_nothing_has_put_on_the_disk",
        "tests/emulator/checkers/test_illegal_runs.py::test_an_acknowledged_record_that_is_gone_after_a_restart",
    ),
    Allowance(
        "unclean-election",
        ("replicas: committed-lost", "replicas: isr-without-committed"),
        "The topic allows unclean elections, or an admin requested an election; records that the elected replica "
        "lacked are lost.",
        "KIP-460; Kafka documentation of unclean.leader.election.enable",
        ("kemu.emulator.checkers.replicas:Replicas._elected_uncleanly",),
        "tests/emulator/checkers/test_replication.py::test_an_unclean_election_loses_what_the_leader_did_not_have",
        "tests/emulator/checkers/test_replication.py::"
        "test_an_unclean_election_excuses_no_record_that_the_elected_replica_had_by_then",
    ),
    Allowance(
        "acknowledged-by-the-leader-alone",
        ("replicas: acknowledged-uncommitted",),
        "The producer asked for acks=0 or 1, and the record was in the leader's log.",
        "Kafka documentation of acks",
        (
            "kemu.emulator.checkers.replica_truth:PartitionTruth.acknowledge_by_leader",
            "kemu.emulator.checkers.replica_truth:PartitionTruth.lost_by_leader_only",
        ),
        "tests/emulator/checkers/test_replication.py::test_a_producer_that_asks_the_leader_alone_may_be_told_early",
        "tests/emulator/checkers/test_replication.py::test_a_producer_that_is_told_too_early",
    ),
    Allowance(
        "equal-epochs-of-two-records",
        ("replicas: logs-differ", "replicas: committed-lost"),
        "A leader whose disk lost the end of its log still led in the same epoch; the two records are a lost and a "
        "rewritten record.",
        "Kafka 3.4 LeaderEpochFileCache.endOffsetFor, KIP-101, KIP-320",
        ("kemu.emulator.watching.copies:Copies.may_differ", "kemu.emulator.watching.copies:Taken"),
        "tests/emulator/checkers/test_relapses.py::test_a_follower_that_went_on_so_leads_with_what_was_lost",
        "tests/emulator/checkers/test_relapses.py::"
        "test_a_follower_with_other_records_has_no_excuse_if_no_disk_lost_them_or_an_epoch_told_it",
    ),
    Allowance(
        "leader-deposed-by-an-election-with-losses",
        ("replicas: another-record", "replicas: isr-without-committed"),
        "A later leader lacks records from there on, for a reason, and the deposed leader does not know of its "
        "election.",
        "Kafka 3.4 ReplicaManager.becomeLeaderOrFollower: a leader leads until it receives an order",
        (
            "kemu.emulator.checkers.replica_truth:PartitionTruth.deposed_from",
            "kemu.emulator.checkers.replica_truth:PartitionTruth.led_with_losses",
        ),
        "tests/emulator/checkers/test_replication.py::test_a_leader_deposed_by_an_unclean_election_goes_on_for_itself",
        "tests/emulator/checkers/test_replication.py::"
        "test_an_unclean_election_excuses_nothing_that_was_written_after_it",
    ),
    Allowance(
        "log-of-a-deleted-topic",
        ("replicas: another-record", "replicas: read-uncommitted", "leadership: two-leaders"),
        "The broker does not know that the topic was deleted, and continues in the topic's last leader epoch.",
        "Kafka 3.4 RequestSendThread, ReplicaManager of brokers without topic ids (KIP-516)",
        ("kemu.emulator.watching.former_lives",),
        "tests/emulator/checkers/test_replication.py::"
        "test_a_leader_that_heard_nothing_of_a_deletion_goes_on_with_the_log_of_the_deleted_topic",
        "tests/emulator/checkers/test_replication.py::test_a_deletion_that_was_not_heard_of_excuses_nothing_else",
    ),
    Allowance(
        "log-of-another-topic",
        ("duties: no-leader", "duties: order-not-obeyed", "duties: out-of-isr"),
        "The broker refused the partition: it has the log of a deleted topic of that name. No controller acts on that "
        "error.",
        "Kafka 3.4 ReplicaManager.becomeLeaderOrFollower (INCONSISTENT_TOPIC_ID), KIP-516",
        (
            "kemu.emulator.watching.control_plane:ControlPlane._log_of_another_topic",
            "kemu.emulator.checkers.replication_duties:ReplicationDuties._of_another_topic",
        ),
        "tests/emulator/checkers/test_takeover.py::"
        "test_no_other_leader_is_owed_while_the_one_in_the_store_has_a_log_of_another_topic",
        "tests/emulator/checkers/test_takeover.py::"
        "test_a_broker_that_the_store_names_and_that_does_not_lead_is_a_violation",
    ),
    Allowance(
        "state-unknown-to-its-controller",
        (
            "duties: unheard-state",
            "duties: no-leader",
            "duties: order-not-obeyed",
            "duties: stale-metadata",
            "duties: former-leader",
            "duties: dead-in-isr",
            "duties: not-balanced",
            "liveness: unheard-state",
            "reassignment: unfinished",
        ),
        "The controller created a partition's first state, lost the answer, and was refused when it tried again.",
        "Kafka 2.4 to 3.9 PartitionStateMachine.initializeLeaderAndIsrForPartitions: NODEEXISTS is a failed change;"
        " KafkaController.moveReassignedPartitionLeaderIfRequired",
        ("kemu.emulator.watching.unknown_states",),
        "tests/emulator/checkers/test_unknown_states.py::"
        "test_a_partition_whose_state_the_controller_lost_has_no_leader_until_another_controller",
        "tests/emulator/checkers/test_unknown_states.py::"
        "test_a_lost_state_excuses_no_other_partition_and_no_other_controller",
    ),
    Allowance(
        "isr-outside-of-the-replicas",
        ("leadership: state-written",),
        "A removed replica is the last member of the ISR, or a controller that ended left it there.",
        "KAFKA-14424; Kafka 3.4 ReplicaStateMachine.doRemoveReplicasFromIsr",
        ("kemu.emulator.checkers.leadership:LeadershipChecker._may_be_in_sync",),
        "tests/emulator/checkers/test_replication.py::"
        "test_who_left_the_replicas_is_in_the_isr_until_somebody_takes_it_out",
        "tests/emulator/checkers/test_replication.py::"
        "test_who_left_the_replicas_is_not_left_in_the_isr_nor_brought_back",
    ),
    Allowance(
        "leaders-stay-while-partitions-move",
        ("duties: not-balanced",),
        "A partition is being reassigned.",
        "KAFKA-10149; Kafka to 3.3.2 KafkaController.checkAndTriggerAutoLeaderRebalance",
        ("kemu.emulator.checkers.controller_duties:ControllerDuties._of_balance",),
        "tests/emulator/checkers/test_allowed.py::test_no_leader_moves_back_while_a_partition_is_reassigned",
    ),
    Allowance(
        "throttled-replicas",
        ("duties: fetch-stalled",),
        "The topic's settings name throttled replicas.",
        "Kafka 3.4 ReplicationQuotaManager, ReplicaFetcherThread.shouldFollowerThrottle",
        ("kemu.emulator.checkers.replica_duties:ReplicaDuties._node_written",),
        "tests/emulator/checkers/test_allowed.py::test_a_throttled_follower_may_get_nothing_for_long",
    ),
    Allowance(
        "packets-delayed-by-a-fault",
        ("duties: stale-metadata", "duties: out-of-isr", "group-progress: member-kept"),
        "A fault held packets of this link; TCP sends them again after at most the duration of the fault.",
        "RFC 6298 (the retransmission timeout doubles)",
        ("kemu.emulator.watching.disturbances:Disturbances._ended",),
        "tests/emulator/watching/test_disturbances.py::"
        "test_what_a_fault_kept_from_a_link_may_come_as_much_later_again_as_it_lasted",
        "tests/emulator/watching/test_disturbances.py::test_clocks_run_again_from_the_end_of_a_fault",
    ),
    Allowance(
        "order-before-the-assignment",
        ("reassignment: deleted-assigned",),
        "The StopReplica has the leader epoch before the assignment, and the broker got no later leader epoch.",
        "Kafka 2.8 RequestSendThread: one request at a time, in order",
        ("kemu.emulator.checkers.reassignment:ReassignmentChecker._got_order",),
        "tests/emulator/checkers/test_reassignment.py::"
        "test_a_broker_may_obey_late_that_it_lost_a_replica_that_it_has_again",
    ),
    Allowance(
        "limits-changed-just-now",
        ("reassignment: too-many-leaders", "reassignment: too-many-partitions", "reassignment: too-many-replicas"),
        "A limit was changed at most two seconds ago, or before a fault of the controller or of its link to the store;"
        " such a fault ended at most two seconds ago.",
        "Kafka 3.4 ZkConfigManager: brokers learn of settings by a watch",
        ("kemu.emulator.checkers.reassignment:ReassignmentChecker._forget_limits",),
        "tests/emulator/checkers/test_allowed.py::test_a_controller_goes_by_limits_that_were_changed_for_a_moment",
    ),
    Allowance(
        "coordinator-with-a-successor",
        ("commits: went-back", "one-owner: two-owners", "membership: generation"),
        "The broker coordinated the group, and does not know that another broker is the coordinator now.",
        "Kafka 3.4 GroupMetadataManager.isGroupLocal, GroupCoordinator.onResignation",
        ("kemu.emulator.watching.panel:Panel.is_current", "kemu.emulator.watching.panel:Panel.asks_deposed"),
        "tests/emulator/checkers/test_deposed_coordinators.py::test_it_goes_on_with_its_members_and_commits",
        "tests/emulator/checkers/test_deposed_coordinators.py::"
        "test_two_members_do_not_own_one_partition_in_its_generations_either",
    ),
    Allowance(
        "generation-number-used-twice",
        ("one-owner: two-owners",),
        "The log that the next coordinator loaded lacks the generation, or lost the generation.",
        "Kafka 3.4 GroupMetadataManager.storeGroup: a generation is written with its assignment",
        ("kemu.emulator.checkers.one_owner:OneOwner._loaded", "kemu.emulator.checkers.one_owner:OneOwner._completed"),
        "tests/emulator/checkers/test_legal_runs.py::test_a_failover_in_mid_rebalance_uses_a_generation_number_again",
        "tests/emulator/checkers/test_illegal_runs.py::test_two_members_take_one_partition_in_one_generation",
    ),
    Allowance(
        "two-ids-of-one-instance",
        ("one-owner: two-owners",),
        "The member id that first owned the partition was removed, or the loaded log has another id of the same "
        "instance.",
        "Kafka 3.4 GroupCoordinator.updateStaticMemberAndRebalance, KAFKA-10284",
        ("kemu.emulator.checkers.one_owner:OneOwner._removed", "kemu.emulator.checkers.one_owner:OneOwner._added"),
        "tests/emulator/checkers/test_legal_runs.py::"
        "test_a_static_member_restarts_in_the_same_generation_under_a_new_id",
        "tests/emulator/checkers/test_illegal_runs.py::"
        "test_an_assignment_taken_twice_by_ids_that_do_not_replace_each_other",
    ),
    Allowance(
        "static-member-that-did-not-return",
        ("cooperative: handed-over-too-soon",),
        "The member has an instance id, and claimed its partitions before its process ended.",
        "Kafka 3.4 GroupCoordinator.doJoinGroup, KIP-345",
        ("kemu.emulator.checkers.cooperative:Cooperative._added",),
        "tests/emulator/checkers/test_legal_runs.py::test_a_static_zombie_claims_what_was_given_away_a_generation_ago",
        "tests/emulator/checkers/test_cooperative.py::"
        "test_a_direct_move_is_caught_whether_or_not_the_owner_hears_of_it_first",
    ),
    Allowance(
        "coordinator-with-a-wrong-clock",
        ("membership: evicted", "membership: join-phase", "membership: no-cause"),
        "The clock of its host is wrong by one per cent or more in its present life; smaller errors are within one "
        "per cent.",
        "Kafka 3.4 SystemTimer: delays are measured by the host's clock",
        (
            "kemu.emulator.checkers.membership:MembershipRules._fault",
            "kemu.emulator.checkers.membership:MembershipRules._over",
            "kemu.emulator.checkers.membership:MembershipRules._is_late",
        ),
        "tests/emulator/checkers/test_allowed.py::"
        "test_a_coordinator_whose_clock_is_wrong_by_a_per_cent_may_remove_too_early",
    ),
    Allowance(
        "generations-lost-by-a-groups-log",
        ("membership: generation", "membership: loaded"),
        "The group's log lost the records of these generations.",
        "Kafka 3.4 GroupMetadataManager.loadGroupsAndOffsets",
        (
            "kemu.emulator.checkers.membership:MembershipRules._led",
            "kemu.emulator.checkers.membership:MembershipRules._lost_tail",
        ),
        "tests/emulator/checkers/test_legal_runs.py::test_a_log_that_lost_its_tail_explains_what_was_forgotten",
        "tests/emulator/checkers/test_illegal_runs.py::test_a_failover_that_forgets_a_stable_generation",
    ),
    Allowance(
        "commits-lost-by-a-groups-log",
        ("commits: position-not-committed", "commits: removed-too-early"),
        "The group's log lost exactly these commits, with a disk or a leader.",
        "Kafka 3.4 GroupMetadataManager.loadGroupsAndOffsets",
        (
            "kemu.emulator.checkers.commits:CommitsChecker._lost_tail",
            "kemu.emulator.checkers.commits:CommitsChecker._led",
            "kemu.emulator.checkers.commits:CommitsChecker._may_start_before",
        ),
        "tests/emulator/checkers/test_legal_runs.py::test_a_log_that_lost_its_tail_explains_what_was_forgotten",
        "tests/emulator/checkers/test_illegal_runs.py::test_a_log_that_lost_other_commits_is_no_excuse",
    ),
    Allowance(
        "late-commit",
        ("commits: went-back",),
        "The coordinator read the commit from a connection that the member had closed.",
        "Kafka 3.4 NetworkClient.disconnect: the broker still reads what is in its socket",
        ("kemu.emulator.watching.group_commits:GroupCommits._is_of",),
        "tests/emulator/checkers/test_illegal_runs.py::test_a_commit_that_was_read_late_may_be_one_of_before",
        "tests/emulator/checkers/test_illegal_runs.py::test_that_another_commit_was_read_late_is_no_excuse",
    ),
    Allowance(
        "removed-offsets",
        ("commits: removed-too-early", "commits: position-not-committed"),
        "The scenario deleted the group, its offsets of the topic, or the topic, within default.api.timeout.ms.",
        "KIP-229, KIP-496; Kafka 3.4 GroupCoordinator.handleDeletedPartitions",
        ("kemu.emulator.checkers.commits:CommitsChecker._is_asked_for",),
        "tests/emulator/checkers/test_causes.py::test_an_operator_may_remove_an_offset_that_was_just_committed",
        "tests/emulator/checkers/test_causes.py::test_an_operator_who_deletes_another_group_is_no_excuse",
    ),
    Allowance(
        "removal-decided-before",
        ("commits: removed-too-early",),
        "The group's state let the offset expire when the removal was decided; writing the record takes time.",
        "Kafka 3.4 GroupMetadataManager.cleanupGroupMetadata",
        ("kemu.emulator.checkers.commits:CommitsChecker._periods_before",),
        "tests/emulator/checkers/test_legal_runs.py::"
        "test_offsets_of_a_group_that_was_empty_for_long_may_expire_while_it_comes_back",
        "tests/emulator/checkers/test_illegal_runs.py::"
        "test_an_offset_expires_while_a_group_that_was_empty_for_a_moment_comes_back",
    ),
    Allowance(
        "eager-commit-prevented-by-a-fault",
        ("commits: given-up-uncommitted",),
        "A fault hit the member or a broker within ten seconds or since it was asked to close, or its coordinator is "
        "deposed.",
        "Kafka 3.4 ConsumerCoordinator.onJoinPrepare, close: a failed commit is logged",
        ("kemu.emulator.checkers.commits:CommitsChecker._can_commit",),
        "tests/emulator/checkers/test_causes.py::"
        "test_a_fault_excuses_work_that_is_not_committed_of_the_member_that_it_hits",
        "tests/emulator/checkers/test_causes.py::test_a_member_gives_up_work_that_it_has_not_committed",
    ),
    Allowance(
        "close-without-time",
        ("commits: given-up-uncommitted",),
        "close() of a group with a shorter timeout than Kafka's sent the commit, and its time is over.",
        "Kafka 4.1.1 ConsumerCoordinator.commitOffsetsSync: one attempt, also when the timer has expired",
        ("kemu.emulator.checkers.commits:CommitsChecker._member_became",),
        "tests/emulator/checkers/test_causes.py::test_a_close_without_time_awaits_no_answer_to_the_commit_that_it_sent",
        "tests/emulator/checkers/test_causes.py::"
        "test_a_close_without_time_excuses_neither_an_unsent_commit_nor_another_revocation",
    ),
    Allowance(
        "position-awaiting-validation",
        ("commits: given-up-uncommitted",),
        "A broker became leader of the partition within the last ten seconds, or owes the member a validation.",
        "Kafka 3.4 SubscriptionState.allConsumed: a position in AWAIT_VALIDATION is not valid (KIP-320)",
        ("kemu.emulator.checkers.commits:CommitsChecker._awaits_validation",),
        "tests/emulator/checkers/test_causes.py::test_a_new_leader_excuses_work_on_its_partition_alone",
        "tests/emulator/checkers/test_causes.py::test_a_member_gives_up_work_that_it_has_not_committed",
    ),
    Allowance(
        "unsubscribed-application",
        ("commits: given-up-uncommitted",),
        "The plan unsubscribed this host's application, until it gets partitions again.",
        "Kafka 3.4 KafkaConsumer.unsubscribe, ConsumerCoordinator.onLeavePrepare: nothing is committed",
        ("kemu.emulator.checkers.commits:CommitsChecker._operated",),
        "tests/emulator/checkers/test_causes.py::test_an_application_that_unsubscribes_leaves_work_uncommitted",
        "tests/emulator/checkers/test_causes.py::"
        "test_a_member_that_was_assigned_partitions_since_it_unsubscribed_commits_its_work",
    ),
    Allowance(
        "member-without-a-subscription",
        ("group-progress: not-rejoined",),
        "The member's application unsubscribed from all topics.",
        "Kafka 3.4 KafkaConsumer.unsubscribe",
        ("kemu.emulator.checkers.group_progress:GroupDuties._look_at_member",),
        "tests/emulator/checkers/test_group_progress.py::test_a_member_that_unsubscribed_owes_nothing",
        "tests/emulator/checkers/test_group_progress.py::test_an_ousted_member_that_does_not_join_again_is_a_violation",
    ),
    Allowance(
        "paused-partitions",
        ("group-progress: records-unread",),
        "The plan pauses partitions of this member.",
        "Kafka 3.4 KafkaConsumer.pause, SubscriptionState.isFetchable",
        ("kemu.emulator.checkers.group_progress:GroupDuties._is_paused",),
        "tests/emulator/checkers/test_group_progress.py::test_a_paused_partition_may_wait_and_another_members_may_not",
        "tests/emulator/checkers/test_group_progress.py::"
        "test_records_that_an_undisturbed_member_does_not_read_are_a_violation",
    ),
    Allowance(
        "join-that-may-be-lost",
        ("group-progress: not-rejoined",),
        "The member waits for the answer to a JoinGroup that the present coordinator may never have read.",
        "Kafka 3.4 AbstractCoordinator.sendJoinGroupRequest: the request has the rebalance timeout",
        ("kemu.emulator.checkers.group_progress:GroupDuties._look_at_removed",),
        "tests/emulator/checkers/test_group_progress.py::"
        "test_a_join_that_may_be_lost_is_waited_for_as_long_as_the_client_does",
        "tests/emulator/checkers/test_group_progress.py::"
        "test_a_member_has_its_time_to_join_again_from_when_it_gave_a_lost_join_up",
    ),
    Allowance(
        "injected-error",
        ("liveness: member-failed",),
        "The plan injected this error into an answer to this member; the error excuses one failure.",
        "the scenario",
        ("kemu.emulator.checkers.liveness:Liveness._injected",),
        "tests/emulator/checkers/test_causes.py::test_an_injected_answer_excuses_one_failure_by_that_error",
        "tests/emulator/checkers/test_causes.py::"
        "test_an_injected_answer_excuses_no_failure_by_another_error_or_of_another_member",
    ),
    Allowance(
        "leader-with-old-metadata",
        ("liveness: not-at-rest",),
        "No leader has assigned a partition yet; the leader's metadata may be metadata.max.age.ms old.",
        "Kafka 3.4 ConsumerCoordinator.maybeUpdateSubscriptionMetadata, Metadata.timeToNextUpdate",
        ("kemu.emulator.checkers.liveness:Liveness._disturbed",),
        "tests/emulator/checkers/test_illegal_runs.py::"
        "test_a_leader_hears_of_a_partition_when_its_metadata_are_too_old",
        "tests/emulator/checkers/test_illegal_runs.py::"
        "test_a_partition_that_no_leader_ever_assigns_is_missed_when_it_must_have_heard",
    ),
    Allowance(
        "enforced-rejoins",
        ("useless-work: rejoin-without-cause",),
        "At most three a minute: a leader's metadata changes late, and an application may enforce a rebalance.",
        "Kafka 3.4 KafkaConsumer.enforceRebalance, ConsumerCoordinator.rejoinNeededOrPending",
        ("kemu.emulator.checkers.useless_work:UselessWork._joins",),
        "tests/emulator/checkers/test_useless_work.py::test_some_joins_that_an_application_asks_for_are_not",
        "tests/emulator/checkers/test_useless_work.py::test_a_member_that_joins_again_and_again_is_told",
    ),
    Allowance(
        "skipped-idle-time",
        ("pace: too-soon",),
        "Two consecutive requests are too soon: emulated time skipped hours.",
        "the engine (it skips idle time)",
        ("kemu.emulator.checkers.pace:Pace._judge_interval",),
        "tests/emulator/checkers/test_pace.py::test_a_rhythm_that_is_moved_once_is_not",
        "tests/emulator/checkers/test_pace.py::test_heartbeats_that_come_much_sooner_are_told",
    ),
    Allowance(
        "end-from-one-of-several-leaders",
        ("commits: wrong-reset",),
        "Several brokers led the partition: a deposed leader that does not know its successor may answer an older end.",
        "Kafka 3.4 Partition.fetchOffsetForTimestamp",
        ("kemu.emulator.watching.progress:WatchedProgress._not_the_end",),
        "tests/emulator/checkers/test_causes.py::test_a_deposed_leader_may_tell_an_earlier_end",
        "tests/emulator/checkers/test_causes.py::test_latest_is_the_end_of_the_log",
    ),
    Allowance(
        "position-in-a-recreated-topic",
        ("no-lost-record: committed-unprocessed",),
        "The records are below a position that a member had in a deleted topic of the same name.",
        "Kafka 2.8 SubscriptionState: clients before topic ids (KIP-516)",
        ("kemu.emulator.watching.progress:WatchedProgress.deleted",),
        "tests/emulator/checkers/test_allowed.py::"
        "test_what_lies_before_a_members_position_in_a_topic_that_is_created_again_is_skipped",
    ),
    Allowance(
        "core-that-cannot-recover",
        ("no-lost-record: committed-unprocessed",),
        "The log lost records, and the hosts that would report the loss to the group stay faulty.",
        "Kafka 3.4 KafkaConsumer.updateAssignmentMetadataIfNeeded",
        ("kemu.emulator.checkers.no_lost_record:NoLostRecord._may_never_learn",),
        "tests/emulator/checkers/test_allowed.py::"
        "test_in_a_core_that_cannot_get_well_members_need_not_hear_of_what_a_log_lost",
    ),
    Allowance(
        "member-unaware-of-its-removal",
        ("tasks: runs-twice",),
        "The group's coordinator removed the member, or the group's log lost the group; the member got the task before"
        " the other owner.",
        "Kafka 3.4 AbstractCoordinator.HeartbeatThread: an isolated member runs until max.poll.interval.ms",
        ("kemu.emulator.checkers.tasks:Tasks._became",),
        "tests/emulator/checkers/test_allowed.py::"
        "test_a_task_may_run_twice_while_a_member_that_was_removed_does_not_know_it",
        "tests/emulator/checkers/test_allowed.py::"
        "test_a_restore_of_a_member_that_does_not_know_its_removal_may_end_after_the_next_owner_runs_the_task",
    ),
    Allowance(
        "leader-without-lags",
        ("tasks: state-passed-over",),
        "The leader decided five seconds or more after the join phase, because it did not learn the ends of the "
        "changelogs.",
        "Kafka 3.4 StreamsPartitionAssignor.populateClientStatesMap (fetchEndOffsets failed)",
        ("kemu.emulator.checkers.tasks:Tasks._passed_over",),
        "tests/emulator/checkers/test_tasks.py::test_a_task_does_not_go_past_who_has_most_of_it",
    ),
    Allowance(
        "task-that-changes-its-thread",
        ("tasks: state-passed-over",),
        "The task's owner has several threads and keeps a copy: another thread runs the task after the next rebalance.",
        "Kafka 3.4 StreamsPartitionAssignor.assignTasksToThreads, buildStandbyTaskMap",
        ("kemu.emulator.checkers.tasks:Tasks._passed_over",),
        "tests/emulator/checkers/test_tasks.py::test_a_task_may_go_to_another_thread_of_its_owner",
    ),
    Allowance(
        "standby-whose-thread-is-busy",
        ("tasks: not-restored",),
        "The copy's thread applies records of other copies without a pause.",
        "Kafka 3.4 StoreChangelogReader.restore: one batch at a time, active tasks first",
        ("kemu.emulator.checkers.task_duties:TaskDuties._restored",),
        "tests/emulator/checkers/test_task_duties.py::"
        "test_a_standby_waits_while_its_thread_applies_records_of_another_without_a_pause",
        "tests/emulator/checkers/test_task_duties.py::test_a_standby_follows_its_changelog",
    ),
    Allowance(
        "changelog-without-a-leader",
        ("tasks: not-restored",),
        "No broker leads the changelog.",
        "Kafka 3.4 StoreChangelogReader: a fetch needs a leader",
        ("kemu.emulator.checkers.task_duties:TaskDuties._is_led",),
        "tests/emulator/checkers/test_allowed.py::test_a_copy_is_restored_only_while_somebody_leads_its_changelog",
    ),
    Allowance(
        "range-processed-by-its-owner",
        ("catch-up: range-left-open",),
        "The groups' log lost the commit of an owner that processed the range; the next owner processes the range "
        "again.",
        "KIP-333",
        ("kemu.emulator.checkers.catch_up:CatchUpChecker._is_processed",),
        "tests/emulator/checkers/test_catch_up.py::test_a_range_that_was_worked_off_and_whose_commit_the_log_lost",
        "tests/emulator/checkers/test_catch_up.py::test_a_range_that_nobody_works_off",
    ),
    Allowance(
        "repeated-request",
        ("catch-up: commit-not-rising", "catch-up: range-misplaced"),
        "The same member, in the same generation, wrote the last record of this kind, and both records are equal.",
        "KIP-333; Kafka 3.4 ConsumerCoordinator: a request without an answer is retried",
        ("kemu.emulator.checkers.catch_up:CatchUpChecker._is_repeated",),
        "tests/emulator/checkers/test_catch_up.py::test_a_range_that_is_opened_again",
        "tests/emulator/checkers/test_catch_up.py::test_commits_that_do_not_rise",
    ),
    Allowance(
        "truncated-partition",
        ("catch-up: commit-not-rising", "catch-up: outside-range", "catch-up: range-misplaced"),
        "The partition lost records, so the ranges no longer describe the records at these offsets.",
        "KIP-333 does not cover logs that lose records",
        ("kemu.emulator.checkers.catch_up:CatchUpChecker._leader_changed",),
        "tests/emulator/checkers/test_catch_up.py::test_a_commit_goes_back_to_where_its_partition_was_cut",
        "tests/emulator/checkers/test_catch_up.py::"
        "test_a_range_begins_where_both_commit_logs_end_and_ends_within_the_partition",
    ),
    Allowance(
        "ranges-deleted-by-retention",
        ("catch-up: committed-unprocessed",),
        "Retention deleted these records before the second consumer read them.",
        "Kafka documentation of retention.ms",
        ("kemu.emulator.watching.progress:WatchedProgress._trimmed",),
        "tests/emulator/checkers/test_catch_up.py::test_what_retention_took_counts_as_done",
        "tests/emulator/checkers/test_catch_up.py::test_a_commit_of_what_nobody_processed",
    ),
)
