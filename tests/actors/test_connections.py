"""The connections of real clients that a server remembers."""

import pytest

from kemu.actors.connections import Connections
from kemu.actors.machine import Event, Machine, Received
from kemu.protocol.messages.data import Metadata
from kemu.protocol.names import ActorName

REAL, EMULATED = "x-app/7", "c1"


class _Server(Machine):
    def handle(self, event: Event) -> None:
        raise AssertionError(event)


def _request(client: ActorName, number: int, connection: int = 1) -> Received:
    return Received(client, connection, number, 5, Metadata(topics=()))


def _rows(connections: Connections) -> int:
    """Number of everything that is remembered."""
    names = [name for name in Connections.__slots__ if name not in ("_handle", "_machine")]
    return sum(len(getattr(connections, name)) for name in names)


@pytest.fixture
def served() -> list[Received]:
    return []


@pytest.fixture
def connections(served: list[Received]) -> Connections:
    return Connections(_Server("b0"), served.append)


def test_a_real_clients_connection_is_forgotten_with_its_end(connections: Connections) -> None:
    """A served cluster runs for days, and each connection has a new name."""
    for number in range(100):
        request = _request(f"x-app/{number}", 1)
        connections.mute(request)
        connections.answered(request)
        connections.link_down(request[0])

    assert _rows(connections) == 0


def test_unanswered_requests_keep_the_connection_until_their_answers(
    connections: Connections, served: list[Received]
) -> None:
    """A broker reads the requests that arrived before the connection broke."""
    first, second = _request(REAL, 1), _request(REAL, 2)
    connections.mute(first)
    assert connections.keeps(second)

    connections.link_down(REAL)
    assert connections.is_gone(REAL)
    connections.answered(first)
    connections.read_on()

    assert served == [second]
    assert not connections.is_gone(REAL)
    assert _rows(connections) == 0


def test_the_last_answer_forgets_the_connection(connections: Connections) -> None:
    request = _request(REAL, 1)
    connections.mute(request)
    connections.link_down(REAL)
    assert connections.is_gone(REAL)

    connections.answered(request)

    assert not connections.is_gone(REAL)
    assert _rows(connections) == 0


def test_the_newest_connection_of_an_emulated_client_stays_known(connections: Connections) -> None:
    """Its next connection has the same name, and a higher number."""
    old, new = _request(EMULATED, 1), _request(EMULATED, 2, connection=2)
    for request in (old, new):
        connections.mute(request)
        connections.answered(request)
    connections.link_down(EMULATED)

    assert not connections.is_gone(EMULATED)
    assert connections.has_left(old) and not connections.has_left(new)
