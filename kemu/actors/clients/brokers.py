"""Which broker a client asks when any will do. Source: Kafka's ``NetworkClient.leastLoadedNode``."""

from kemu.actors.client import Client
from kemu.actors.machine import Machine
from kemu.protocol.names import ActorName


class BrokersToAsk:
    """The brokers last heard of and the bootstrap ones: the one that answered last is asked again.

    Args:
        bootstrap: the brokers to ask first, not empty.
        first: which of them is the first.
    """

    def __init__(self, machine: Machine, client: Client, bootstrap: tuple[ActorName, ...], first: int) -> None:
        self._machine = machine
        self._client = client
        self._bootstrap = bootstrap
        self._nodes = bootstrap
        self._turn = first

    def pick(self) -> ActorName:
        """Whom to ask: the next in turn while one is unreachable."""
        nodes = self._nodes
        for _ in nodes:
            node = nodes[self._turn % len(nodes)]
            if self._client.available_at(node) <= self._machine.now_us:
                return node
            self._turn += 1
        return nodes[self._turn % len(nodes)]

    def pass_over(self, host: ActorName) -> None:
        """This one failed: it is the next one's turn, unless another failure said so already."""
        if self._nodes[self._turn % len(self._nodes)] == host:
            self._turn += 1

    def learned(self, brokers: tuple[ActorName, ...]) -> None:
        """These live; the bootstrap brokers are kept behind them."""
        self._nodes = brokers + tuple(node for node in self._bootstrap if node not in brokers)
