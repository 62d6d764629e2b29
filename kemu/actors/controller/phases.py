"""The states of partitions and replicas, as the controller sees them."""

from enum import Enum


class PartitionPhase(Enum):
    """The state of a partition."""

    NON_EXISTENT = "NonExistentPartition"
    """The partition was never created, or is deleted."""
    NEW = "NewPartition"
    """The partition has an assignment, but no leader and ISR yet."""
    ONLINE = "OnlinePartition"
    """The partition has a leader."""
    OFFLINE = "OfflinePartition"
    """The partition's leader has failed."""


class ReplicaPhase(Enum):
    """The state of a replica."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    """The replica is assigned; it can only become a follower."""
    ONLINE = "OnlineReplica"
    """The replica is started; it may lead or follow."""
    OFFLINE = "OfflineReplica"
    """The replica's broker is down, or the replica was stopped."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """The deletion of the replica failed or cannot begin; a later event causes another attempt."""
