"""Decisions of a release's consumers about their membership, for all rebalance protocols; one value per difference.

The sources are Kafka's classes at the tags named; AC is ``AbstractCoordinator``, CC ``ConsumerCoordinator``.
"""

from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import evolve, frozen


@frozen(kw_only=True)
class ClientRules:
    """The decisions of one release's consumer; the defaults are the decisions of 3.9 and later."""

    returns_records_while_joining: bool = True
    """poll() returns fetched records during a join or the search for a coordinator. Before 2.5 poll() returns no
    records until the join is complete (``KafkaConsumer.poll`` 2.4.1: empty unless ``updateAssignmentMetadataIfNeeded``;
    2.5.1: ``waitForJoinGroup`` false).
    """
    beats_while_completing: bool = True
    """The member sends heartbeats from the answer to JoinGroup on. Before 2.6 the member sends heartbeats from the
    answer to SyncGroup on (AC 2.5.1 ``initiateJoinGroup``: ``disableHeartbeatThread``, enabled again when the join
    future is done).
    """
    passes_over_late_errors: bool = True
    """An error resets the membership only if the request contained the present generation. Before 2.6 any error resets
    the membership (AC 2.6.3 ``CoordinatorResponseHandler.generationUnchanged``).
    """
    keeps_member_id: bool = True
    """A member keeps its id after ILLEGAL_GENERATION. Before 3.2 the member drops the id, and its old entry remains in
    the group until the session expires (AC 3.2.3 ``resetStateOnResponseError(..., shouldResetMemberId)``).
    """
    forgets_when_a_join_fails: bool = False
    """After a failed join that may be retried (no answer, no coordinator) a member drops its id and generation. The
    rule exists only in 2.6 (AC 2.6.3 ``joinGroupIfNeeded``: ``resetStateAndRejoin``; removed in 2.7.2).
    """
    serves_while_committing: bool = True
    """A cooperative member still returns records during the commit before a join. Before 3.2 this commit blocks poll()
    (CC 3.1.2 ``onJoinPrepare``: ``maybeAutoCommitOffsetsSync``).
    """
    names_the_given_id: bool = True
    """The reason of the JoinGroup after MEMBER_ID_REQUIRED names the given id. Before 3.7 the reason names the
    exception (AC 3.7.0 ``joinGroupIfNeeded``: no ``requestRejoin`` for ``MemberIdRequiredException``).
    """
    refetches_after_any_retriable_error: bool = True
    """OffsetFetch is retried after any retriable error of the group. Before 3.9 OffsetFetch is retried only after
    COORDINATOR_LOAD_IN_PROGRESS and NOT_COORDINATOR. COORDINATOR_NOT_AVAILABLE is raised (CC 3.8.0
    ``OffsetFetchResponseHandler``).
    """
    beats_after_no_or_the_longest_backoff: bool = False
    """A member of the consumer protocol waits either not at all or for ``retry.backoff.max.ms`` after a failed
    heartbeat, each in half of the cases. In 4.0 and 4.1 the jitter of this back-off is ``max.poll.interval.ms`` by
    mistake; since 4.2 the jitter is 20 percent (``AbstractHeartbeatRequestManager`` 4.1.1, 4.2.1).
    """
    polls_in_the_background: bool = True
    """poll() of a member of the consumer protocol does not wait for the network thread. Before 4.2 poll() waits until
    the network thread has begun the commits, and until it has found the positions (``AsyncKafkaConsumer.poll`` 4.1.1:
    ``PollEvent.reconcileAndAutoCommit``, ``updateFetchPositions``; 4.2.1: ``checkInflightPoll``).
    """
    stops_lost_partitions: bool = True
    """poll() of a member of the consumer protocol returns no records of lost partitions before ``onPartitionsLost``.
    Before 4.3 poll() returns them (``ConsumerMembershipManager`` 4.2.1, 4.3.0 ``signalPartitionsLost``).
    """
    assigns_with_the_callback: bool = True
    """The application's thread of a member of the consumer protocol assigns the partitions just before
    ``onPartitionsAssigned``, so that their positions are requested after it. Before 4.3 the network thread assigns them
    (``AbstractMembershipManager.updateSubscriptionAwaitingCallback`` 4.2.1, ``ApplyAssignmentEvent`` 4.3.0).
    """
    leaves_missing_groups: bool = True
    """A leave of the consumer protocol that gets GROUP_ID_NOT_FOUND is done. Before 4.2 the error is fatal
    (``AbstractHeartbeatRequestManager`` 4.1.1, 4.2.1 ``onErrorResponse``).
    """
    asks_for_all_topics_of_brokers_pattern: bool = False
    """A consumer whose pattern the brokers match (``SubscriptionPattern``) requests metadata of all topics (4.0 only).
    Since 4.1 it requests the assigned topics by id (``ConsumerMetadata.newMetadataRequestBuilder`` 4.0.1, 4.1.1).
    """

    refetches_unknown_topics: bool = True
    """A consumer of the consumer protocol retries OffsetFetch after UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID of a
    partition, until ``default.api.timeout.ms`` has passed. Before 4.2 the application gets the error
    (``CommitRequestManager.OffsetFetchRequestState.onSuccess`` 4.1.1, 4.2.1).
    """

    closes_without_coordinator: bool = True
    """close() of a consumer of the consumer protocol does not wait for a coordinator: commits without one fail. Before
    4.2 these commits wait (``CommitRequestManager.poll`` 4.1.1, 4.2.1).
    """

    def retries_offset_fetch(self, error: ErrorCode) -> bool:
        """Whether OffsetFetch is retried after this error of the group; otherwise the application gets the error."""
        return error in _ANY_RELEASE or (error.retriable and self.refetches_after_any_retriable_error)


_ANY_RELEASE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,  # in the answer for a partition, or for both of KIP-333's logs
)
CLIENT_3_9 = ClientRules()
CLIENT_4_2 = evolve(CLIENT_3_9, stops_lost_partitions=False, assigns_with_the_callback=False)
CLIENT_4_1 = evolve(
    CLIENT_4_2,
    beats_after_no_or_the_longest_backoff=True,
    polls_in_the_background=False,
    refetches_unknown_topics=False,
    leaves_missing_groups=False,
    closes_without_coordinator=False,
)
CLIENT_4_0 = evolve(CLIENT_4_1, asks_for_all_topics_of_brokers_pattern=True)
CLIENT_3_7 = evolve(CLIENT_3_9, refetches_after_any_retriable_error=False)
CLIENT_3_2 = evolve(CLIENT_3_7, names_the_given_id=False)
CLIENT_2_7 = evolve(CLIENT_3_2, keeps_member_id=False, serves_while_committing=False)
CLIENT_2_6 = evolve(CLIENT_2_7, forgets_when_a_join_fails=True)
CLIENT_2_4 = evolve(
    CLIENT_2_7,
    returns_records_while_joining=False,
    beats_while_completing=False,
    passes_over_late_errors=False,
)
