"""The kind of cluster of a scenario. A run imports the machines of its own kind only."""

from kemu.emulator.cluster.cluster import Cluster
from kemu.emulator.scenario.scenario import Scenario


def cluster_class(scenario: Scenario) -> type[Cluster]:
    """Return the class for a scenario with or without replication."""
    if scenario.brokers.replication is None:
        from kemu.emulator.cluster.arranged import ArrangedCluster

        return ArrangedCluster
    from kemu.emulator.cluster.replicated import ReplicatedCluster

    return ReplicatedCluster
