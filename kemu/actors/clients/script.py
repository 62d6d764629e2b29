"""The script of a real client: the connections, requests and answers of a recorded run (``kemu scriptify``)."""

from typing import Any, TypeAlias

from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import frozen
from kemu.protocol.messages import consumer_group, control, data, group
from kemu.protocol.names import ActorName

LOOPS = (data.Fetch, data.Produce, group.Heartbeat, group.OffsetCommit, consumer_group.ConsumerGroupHeartbeat)
"""Requests that a client repeats. Only later requests of the same connection wait for their answers."""
ABOUT_PARTITIONS = (data.Fetch, data.Produce, data.ListOffsets, control.OffsetForLeaderEpoch)
"""Requests to leaders of partitions."""
ROWS = {
    data.Fetch: "partitions",
    data.Produce: "batches",
    data.ListOffsets: "questions",
    control.OffsetForLeaderEpoch: "questions",
}
"""Request to leaders -> its field with a row for each partition."""
REPLY_ROWS = {
    data.FetchReply: "partitions",
    data.ProduceReply: "batches",
    data.ListOffsetsReply: "answers",
    control.OffsetForLeaderEpochReply: "answers",
}
"""Reply of a leader -> its field with a row for each partition."""


@frozen
class ScriptOpens:
    """The client opened a TCP connection. ``client_id``: of its first request."""

    at_us: int
    connection: str
    client_id: str


@frozen
class ScriptAsks:
    """The client sent a request, in the form of kemu's messages; ``answer`` is None without an answer.

    ``to`` is a broker, or its coordinator. ``answered_us`` is -1 without an answer.
    """

    at_us: int
    connection: str
    to: ActorName
    version: int
    request: Any
    answered_us: int = -1
    answer: Any = None

    @property
    def is_setup(self) -> bool:
        """Whether all later requests of the client wait for the answer."""
        return self.answered_us >= 0 and not isinstance(self.request, LOOPS)


@frozen
class ScriptCloses:
    """The client's TCP connection ended."""

    at_us: int
    connection: str


ScriptStep: TypeAlias = ScriptOpens | ScriptAsks | ScriptCloses
Script: TypeAlias = tuple[ScriptStep, ...]
"""The steps of one client, in the order of their times."""


def errors_in(answer: Any) -> dict[tuple[Any, ...], ErrorCode]:
    """The errors of an answer: () -> the error of the whole answer, (field, topic, partition) -> the error of a row.

    Rows without a topic are numbered. Rows without an error are left out.
    """
    found: dict[tuple[Any, ...], ErrorCode] = {}
    for name in _names(answer):
        value = getattr(answer, name)
        if isinstance(value, ErrorCode):
            found[()] = value
        elif isinstance(value, tuple):
            for index, row in enumerate(value):
                error = getattr(row, "error", getattr(row, "error_code", ErrorCode.NONE))
                if isinstance(error, ErrorCode) and error is not ErrorCode.NONE:
                    at = (row.topic, row.partition) if hasattr(row, "partition") else (index,)
                    found[name, *at] = error
    return {at: error for at, error in found.items() if error is not ErrorCode.NONE}


def _names(answer: Any) -> list[str]:
    return [each.name for each in type(answer).__attrs_attrs__]
