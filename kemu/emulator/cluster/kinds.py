"""Which kind of cluster a scenario asks for."""

from kemu.emulator.cluster.arranged import ArrangedCluster
from kemu.emulator.cluster.cluster import Cluster
from kemu.emulator.cluster.replicated import ReplicatedCluster
from kemu.emulator.scenario.scenario import Scenario


def cluster_class(scenario: Scenario) -> type[Cluster]:
    """By whether its brokers replicate."""
    return ArrangedCluster if scenario.brokers.replication is None else ReplicatedCluster
