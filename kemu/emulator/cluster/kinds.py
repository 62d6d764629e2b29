"""The kind of cluster of a scenario."""

from kemu.emulator.cluster.arranged import ArrangedCluster
from kemu.emulator.cluster.cluster import Cluster
from kemu.emulator.cluster.replicated import ReplicatedCluster
from kemu.emulator.scenario.scenario import Scenario


def cluster_class(scenario: Scenario) -> type[Cluster]:
    """Return the class for a scenario with or without replication."""
    return ArrangedCluster if scenario.brokers.replication is None else ReplicatedCluster
