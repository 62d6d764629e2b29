"""Answers of emulated brokers as frames for real clients."""

import pytest

from kemu.emulator.serving.payloads import Payloads
from kemu.emulator.serving.translation import OFFERED, frame_of, requests_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.frames import WireReply, WireRequest, read_reply
from kemu.protocol.messages.negotiation import ApiVersions, versions_reply
from kemu.protocol.messages.versions import KAFKA_2_3, KAFKA_2_4, SpokenVersions


def api_versions_of(release: SpokenVersions, version: int, read_as: int) -> WireReply:
    """The answer of a broker of this release to ApiVersions."""
    (asked,) = requests_of("b0", WireRequest(18, version, 7, "test", ApiVersions()))
    asked.answers.append(versions_reply(release))
    frame = frame_of(asked, str, Payloads(), {}, OFFERED)
    assert frame is not None
    return read_reply(frame[4:], 18, read_as)


@pytest.mark.parametrize(("release", "version"), [(KAFKA_2_3, 2), (KAFKA_2_4, 3)])
def test_a_broker_answers_the_versions_of_its_release(release: SpokenVersions, version: int) -> None:
    reply = api_versions_of(release, version, version)

    assert reply.message.error is ErrorCode.NONE
    assert {row.api_key: row.max_version for row in reply.message.api_keys}[18] == version
    assert {row.api_key for row in reply.message.api_keys} <= OFFERED


def test_a_broker_of_2_3_refuses_the_version_that_2_4_brought() -> None:
    """In version 0, so that each client can read the answer, and without versions (KIP-511)."""
    reply = api_versions_of(KAFKA_2_3, 3, 0)

    assert reply.correlation_id == 7
    assert reply.message.error is ErrorCode.UNSUPPORTED_VERSION
    assert reply.message.api_keys == ()
