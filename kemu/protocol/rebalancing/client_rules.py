"""What consumers of a release do around their membership, whatever the rebalance protocol: each difference one value.

Sources are Kafka's classes at the tags named; AC is ``AbstractCoordinator``, CC ``ConsumerCoordinator``.
"""

from attrs import evolve, frozen

from kemu.protocol.errors import ErrorCode


@frozen(kw_only=True)
class ClientRules:
    """The decisions of one release's consumer; the defaults are those of 3.9 and later."""

    returns_records_while_joining: bool = True
    """poll() returns what was fetched while a join, or the search for a coordinator, goes on. Before 2.5 it returns
    nothing until the join is over (``KafkaConsumer.poll`` 2.4.1: empty unless ``updateAssignmentMetadataIfNeeded``;
    2.5.1: ``waitForJoinGroup`` false)."""
    beats_while_completing: bool = True
    """Heartbeats run from the answer to JoinGroup on. Before 2.6 from the answer to SyncGroup
    (AC 2.5.1 ``initiateJoinGroup``: ``disableHeartbeatThread``, enabled again when the join future is done)."""
    passes_over_late_errors: bool = True
    """An error only resets a membership that still is the one the request was sent in. Before 2.6 any does
    (AC 2.6.3 ``CoordinatorResponseHandler.generationUnchanged``)."""
    keeps_member_id: bool = True
    """ILLEGAL_GENERATION leaves a member its id. Before 3.2 it forgets it, and its old self stays in the group until
    the session ends (AC 3.2.3 ``resetStateOnResponseError(..., shouldResetMemberId)``)."""
    forgets_when_a_join_fails: bool = False
    """A join that failed and may be tried again (no answer, no coordinator) makes it forget id and generation: in 2.6
    alone (AC 2.6.3 ``joinGroupIfNeeded``: ``resetStateAndRejoin``; gone in 2.7.2)."""
    serves_while_committing: bool = True
    """A cooperative member goes on returning records while the commit before a join runs. Before 3.2 that commit holds
    poll() up (CC 3.1.2 ``onJoinPrepare``: ``maybeAutoCommitOffsetsSync``)."""

    refetches_after_any_retriable_error: bool = True
    """OffsetFetch is asked again after any retriable error of the group. Before 3.9 after COORDINATOR_LOAD_IN_PROGRESS
    and NOT_COORDINATOR alone: COORDINATOR_NOT_AVAILABLE is raised (CC 3.8.0 ``OffsetFetchResponseHandler``)."""

    def fetches_again(self, error: ErrorCode) -> bool:
        """Whether OffsetFetch is asked again after this error of the group; else it is raised to the application."""
        return error in _ANY_RELEASE or (error.retriable and self.refetches_after_any_retriable_error)


_ANY_RELEASE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,  # of a partition, and of KIP-333's two logs together
)
CLIENT_3_9 = ClientRules()
CLIENT_3_2 = evolve(CLIENT_3_9, refetches_after_any_retriable_error=False)
CLIENT_2_7 = evolve(CLIENT_3_2, keeps_member_id=False, serves_while_committing=False)
CLIENT_2_6 = evolve(CLIENT_2_7, forgets_when_a_join_fails=True)
CLIENT_2_4 = evolve(
    CLIENT_2_7,
    returns_records_while_joining=False,
    beats_while_completing=False,
    passes_over_late_errors=False,
)
