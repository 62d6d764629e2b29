"""The differences between releases of the coordinator for groups with the consumer protocol (KIP-848), as values.

Each constant is about the last release of its line: 4.0.2, 4.1.2, 4.2.1, 4.3.0.

Source: Kafka ``GroupMetadataManager``, ``ConsumerGroup``, ``ModernGroup``, ``CurrentAssignmentBuilder`` of these
releases, and of 4.0.1 and 4.1.1.
"""

from kemu.protocol.frozen import evolve, frozen


@frozen
class ReconcilingRules:
    """The differences between releases in the steps of members towards their targets."""

    next_epoch_after_revocation: bool = True
    """A member that gave up its partitions and must give up more gets an epoch larger by one (up to 4.1)."""
    own_revoked_is_free: bool = True
    """A member gets a partition back that it must give up (since 4.0.2, 4.1.2 and 4.2). Before, the member waits."""
    follows_subscription: bool = False
    """Partitions of topics without a subscription are given up at once, whatever the target says (since 4.2)."""
    following_repeats_epoch: bool = True
    """The previous epoch becomes the epoch when a member gives up such partitions (since 4.3; in 4.2 it stays)."""


@frozen(kw_only=True)
class ConsumerGroupRules:
    """The decisions of one release; the defaults are the decisions of 4.0.2 and 4.1.2."""

    reconciling: ReconcilingRules = ReconcilingRules()
    """The steps of members towards their targets."""
    readmits_members: bool = False
    """A known member may join again with epoch 0 (since 4.2). Before, the join is FENCED_MEMBER_EPOCH until the
    member's session ends, unless the member's previous epoch is 0.

    Source: ``GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid`` 4.1.1, 4.2.1.
    """
    ended_pattern_raises_epoch: bool = True
    """The group's epoch rises if a member ends its subscription to a pattern (since 4.0.2, 4.1.2 and 4.2).

    Source: ``GroupMetadataManager.maybeUpdateRegularExpressions`` 4.0.1, 4.0.2, 4.1.1, 4.1.2.
    """
    refreshes_regexes: bool = False
    """Regular expressions are resolved anew after ``group.consumer.regex.refresh.interval.ms``, an internal key (since
    4.1). Before, only new topics and new expressions are a reason. The key lets a change of ACLs take effect.

    Source: ``GroupMetadataManager.maybeUpdateRegularExpressions`` 4.0.2, 4.1.1; ``GroupCoordinatorConfig`` 4.1.1.
    """
    hashes_topics: bool = False
    """The log has a hash of the subscribed topics instead of the topics (since 4.1). The hash also covers the racks of
    each partition's replicas, so that the group's epoch rises after a replica moved to another rack. The next heartbeat
    removes the topics that a coordinator of 4.0 wrote.

    Source: ``Utils.computeTopicHash``, ``GroupMetadataManager.updateSubscriptionMetadata`` 4.0.2, 4.1.0, 4.3.0.
    """
    regexes_name_groups: bool = False
    """Regular expressions may have groups ``(?<name>...)`` (since 4.1: RE2/J 1.8 instead of 1.7).

    Source: the dependencies of ``kafka-group-coordinator`` 4.0.0, 4.1.0.
    """
    first_epoch: int = 0
    """The epoch of a new group and of its empty target. Up to 4.2 the first heartbeat always raises the epoch. Since
    4.3 only a subscription to topics raises the epoch, so that the epoch after the first join is 2.

    Source: ``ModernGroup``, ``TargetAssignmentMetadata.INITIAL``, ``GroupMetadataManager.consumerGroupHeartbeat`` of
    4.2.1 and 4.3.0.
    """
    checks_requests_first: bool = False
    """An invalid heartbeat is INVALID_REQUEST also at a broker that does not coordinate the group (since 4.1).

    Source: ``throwIfConsumerGroupHeartbeatRequestIsInvalid`` in ``GroupMetadataManager`` 4.0.2, and in
    ``GroupCoordinatorService`` 4.1.1.
    """
    limits_settings: bool = False
    """A coordinator limits the settings of groups to the range of its own keys (since 4.3).

    Source: ``GroupConfig.evaluate`` 4.3.0.
    """
    spaces_targets: bool = False
    """``group.consumer.assignment.interval.ms`` separates two targets of a group (since 4.3, KIP-1263). A heartbeat
    within the interval gets the former target.

    Source: ``GroupMetadataManager.canComputeNextTargetAssignment`` 4.3.0.
    """
    keeps_partition_epochs: bool = False
    """The coordinator keeps the epoch at which a member got each partition, also in its log (since 4.3, KIP-1251). A
    commit with an older epoch than the member's is accepted if the member got all its partitions at that epoch or
    before. One other partition refuses the whole commit. Before, each older epoch is refused.

    Source: ``ConsumerGroup.validateOffsetCommit`` 4.2.1, 4.3.0; ``OffsetMetadataManager.commitOffset`` 4.3.0.
    """
    stale_target_rebalances_downgraded: bool = False
    """A group becomes classic when a static classic member replaces its last member of the consumer protocol. It
    rebalances if the target is older than the group's epoch (since 4.3). Before, it rebalances if the subscription of
    that member has changed (since 4.0.2 and 4.1.1).

    Source: ``GroupMetadataManager.classicGroupJoinToConsumerGroup`` 4.0.1, 4.0.2, 4.1.1, 4.2.1, 4.3.0.
    """
    downgrade_needs_targets: bool = True
    """A group cannot become classic while a member has no target: UNKNOWN_SERVER_ERROR (up to 4.2). A classic member
    that joins without topics has none until the next target.

    Source: ``ClassicGroup.fromConsumerGroup`` 4.0.2, 4.2.1, 4.3.0.
    """
    classic_members_follow_target: bool = False
    """A classic member is told to rejoin when the target's epoch is above its epoch (since 4.3), not the group's epoch.

    Source: ``GroupMetadataManager.throwIfRebalanceInProgress``, ``classicGroupHeartbeatToConsumerGroup`` 4.2.1, 4.3.0.
    """
    describes_revoking: bool = False
    """ConsumerGroupDescribe lists partitions that a member must give up among its assigned partitions (since 4.3).

    Source: ``ConsumerGroupMember.asConsumerGroupDescribeMember`` 4.2.1, 4.3.0.
    """


RULES_4_0 = ConsumerGroupRules()
RULES_4_0_1 = ConsumerGroupRules(
    reconciling=ReconcilingRules(own_revoked_is_free=False), ended_pattern_raises_epoch=False
)
"""The decisions of 4.0.0, 4.0.1, 4.1.0 and 4.1.1."""
RULES_4_1 = evolve(
    RULES_4_0, refreshes_regexes=True, hashes_topics=True, regexes_name_groups=True, checks_requests_first=True
)
RULES_4_2 = evolve(
    RULES_4_1,
    reconciling=ReconcilingRules(
        next_epoch_after_revocation=False, follows_subscription=True, following_repeats_epoch=False
    ),
    readmits_members=True,
)
RULES_4_3 = evolve(
    RULES_4_2,
    reconciling=evolve(RULES_4_2.reconciling, following_repeats_epoch=True),
    first_epoch=1,
    limits_settings=True,
    spaces_targets=True,
    keeps_partition_epochs=True,
    classic_members_follow_target=True,
    stale_target_rebalances_downgraded=True,
    downgrade_needs_targets=False,
    describes_revoking=True,
)
