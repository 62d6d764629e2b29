"""Error replies: every request that may be refused, in every version it has."""

import pytest

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import Heartbeat, HeartbeatReply, LeaveGroup
from kemu.protocol.messages.refusals import REFUSALS, refusal
from kemu.protocol.wire.codec import seal, unseal
from kemu.protocol.wire.schema import SPECS
from tests.protocol.golden import sample

CASES = [(cls, version) for cls in REFUSALS for version in SPECS[cls].versions]


def errors_in(message: object) -> set[ErrorCode]:
    """Every error code a message carries, at any depth."""
    found: set[ErrorCode] = set()
    for name in message.__attrs_attrs__:  # type: ignore[attr-defined]
        value = getattr(message, name.name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, ErrorCode):
                found.add(each)
            elif hasattr(each, "__attrs_attrs__"):
                found |= errors_in(each)
    return found


@pytest.mark.parametrize(("cls", "version"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_refusal_says_its_error_in_the_requests_version(cls: type, version: int) -> None:
    """The reply is of the request's API and has the error at the top, in every row, or both."""
    request = sample(SPECS[cls], version)

    reply = unseal(seal(refusal(request, ErrorCode.NOT_COORDINATOR, version), version))[0]

    assert type(reply).__name__ == f"{cls.__name__}Reply"
    assert ErrorCode.NOT_COORDINATOR in errors_in(reply)
    assert errors_in(reply) <= {ErrorCode.NOT_COORDINATOR, ErrorCode.NONE}


def test_a_reply_is_no_request_to_refuse() -> None:
    """Each refusal is for a known request class."""
    assert LeaveGroup in REFUSALS and Heartbeat in REFUSALS
    with pytest.raises(AssertionError, match="not a request"):
        refusal(HeartbeatReply(error=ErrorCode.NONE), ErrorCode.NOT_COORDINATOR, 0)
