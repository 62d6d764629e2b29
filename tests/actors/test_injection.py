"""Injected errors: the requests that they hit."""

from kemu.actors.injection import Injections
from kemu.actors.machine import Machine, Note
from kemu.protocol.commands import AnswerNext
from kemu.protocol.errors import ErrorCode
from kemu.protocol.notes.groups import AnswerInjected


class _Server(Machine):
    """Takes an injection per event; what it took is in ``taken``."""

    def __init__(self) -> None:
        super().__init__("b0")
        self.injections = Injections(self)


def _tell(server: _Server, sender: str, nth: int, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
    server.injections.arm(AnswerNext(api="SyncGroup", sender=sender, nth=nth, error=error))


def test_only_the_nth_request_of_that_sender_and_api_is_hit():
    """A plan says "answer the 2nd SyncGroup of c3 with REBALANCE_IN_PROGRESS"."""
    server = _Server()
    _tell(server, "c3", 2, ErrorCode.REBALANCE_IN_PROGRESS)

    requests = [("SyncGroup", "c3"), ("SyncGroup", "c1"), ("JoinGroup", "c3"), ("SyncGroup", "c3"), ("SyncGroup", "c3")]
    answers = [server.injections.take(api, sender) for api, sender in requests]

    assert answers == [None, None, None, ErrorCode.REBALANCE_IN_PROGRESS, None]
    assert server._effects == [
        Note(AnswerInjected(api="SyncGroup", sender="c3", error=ErrorCode.REBALANCE_IN_PROGRESS))
    ]


def test_an_empty_sender_counts_everybodys_requests():
    """AnswerNext: "sender an actor name or "" for anyone"."""
    server = _Server()
    _tell(server, "", 2)

    assert server.injections.take("SyncGroup", "c1") is None
    assert server.injections.take("SyncGroup", "c2") is ErrorCode.NOT_COORDINATOR
    assert server.injections.take("SyncGroup", "c1") is None


def test_two_commands_due_at_once_hit_two_requests_in_the_order_told():
    """No command may be swallowed by another one: a fault that never fires is reported as such."""
    server = _Server()
    _tell(server, "c1", 1, ErrorCode.NOT_COORDINATOR)
    _tell(server, "", 1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    answers = [server.injections.take("SyncGroup", "c1") for _ in range(3)]

    assert answers == [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None]


def test_who_names_a_host_means_its_parts():
    """``c1`` has parts with connections of their own, such as ``c1/main``; ``c10`` is another host."""
    server = _Server()
    _tell(server, "c1", 2)

    answers = [server.injections.take("SyncGroup", sender) for sender in ("c10/main", "c1/main", "c1/catch-up")]

    assert answers == [None, None, ErrorCode.NOT_COORDINATOR]
