"""The selection of the broker for requests that any broker can answer. Source: ``NetworkClient.leastLoadedNode``."""

from kemu.actors.client import Client
from kemu.actors.machine import Machine
from kemu.protocol.names import ActorName


class BrokersToAsk:
    """The known brokers and the bootstrap brokers. The client asks the last answering broker again.

    Args:
        bootstrap: the brokers to ask first, not empty.
        first: the index of the first broker to ask.
    """

    def __init__(self, machine: Machine, client: Client, bootstrap: tuple[ActorName, ...], first: int) -> None:
        self._machine = machine
        self._client = client
        self._bootstrap = bootstrap
        self._nodes = bootstrap
        self._turn = first

    def pick(self) -> ActorName:
        """The broker to ask: the present broker, or the next broker that can be reached."""
        nodes = self._nodes
        for _ in nodes:
            node = nodes[self._turn % len(nodes)]
            if self._client.available_at(node) <= self._machine.now_us:
                return node
            self._turn += 1
        return nodes[self._turn % len(nodes)]

    def pass_over(self, host: ActorName) -> None:
        """Continue with the next broker after this broker failed, unless another failure already changed the broker."""
        if self._nodes[self._turn % len(self._nodes)] == host:
            self._turn += 1

    def learned(self, brokers: tuple[ActorName, ...]) -> None:
        """Ask these live brokers, and then the bootstrap brokers."""
        self._nodes = brokers + tuple(node for node in self._bootstrap if node not in brokers)
