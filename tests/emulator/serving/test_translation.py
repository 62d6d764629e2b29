"""Answers of emulated brokers as frames for real clients."""

import pytest

from kemu.emulator.cluster.releases import Releases
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.serving.payloads import Payloads
from kemu.emulator.serving.translation import OFFERED, frame_of, requests_of
from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.frames import WireReply, WireRequest, read_reply
from kemu.protocol.messages.negotiation import ApiVersions, versions_reply
from kemu.protocol.messages.versions import KAFKA_2_3, KAFKA_2_4, SpokenVersions
from kemu.protocol.profiles import PROFILES


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


@pytest.mark.parametrize("profile", ["kafka-3.9", "kafka-4.0"])
def test_a_broker_offers_the_consumer_protocol_since_4_0(profile: str) -> None:
    """In 3.7 to 3.9 the protocol is a preview, which is off by default."""
    scenario = scenario_from_toml("[topics.orders]\npartitions = 1\n[groups.g]\ntopics = ['orders']", name="any")
    release = Releases(scenario, PROFILES[profile], ["b0"]).offered_by("b0")

    offered = {row.api_key: row.max_version for row in api_versions_of(release, 3, 3).message.api_keys}
    found = {key: offered.get(key) for key in (8, 9, 16, 68, 69)}

    assert found == {8: 9, 9: 9, 16: 5, **({68: 1, 69: 1} if profile == "kafka-4.0" else {68: None, 69: None})}
