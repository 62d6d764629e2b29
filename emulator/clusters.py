"""Which kind of cluster a scenario asks for."""

from emulator.arranged_cluster import ArrangedCluster
from emulator.cluster import Cluster
from emulator.replicated_cluster import ReplicatedCluster
from emulator.scenario import Scenario


def cluster_class(scenario: Scenario) -> type[Cluster]:
    """By whether its brokers replicate."""
    return ArrangedCluster if scenario.brokers.replication is None else ReplicatedCluster
