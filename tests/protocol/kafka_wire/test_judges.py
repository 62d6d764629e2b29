"""Other implementations of Kafka's protocol read and write the same frames: kafka-python's schemas and kio.

Both are generated from Kafka's own JSON schemas. Nothing of kemu needs them to run.
"""

import dataclasses
import importlib
import io
import warnings
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.apis import APIS, SPOKEN, Api, api_versions
from kemu.protocol.kafka_wire.frames import WireReply, WireRequest, write_reply, write_request
from kemu.protocol.messages.negotiation import ApiVersionsReply, versions_reply
from kemu.protocol.messages.versions import (
    KAFKA_2_3,
    KAFKA_2_4,
    KAFKA_2_6,
    KAFKA_2_8,
    KAFKA_3_0,
    KAFKA_3_4,
    KAFKA_3_7,
    KAFKA_4_2,
    LATEST,
    SpokenVersions,
)
from kemu.protocol.wire.schema import fields_of
from lab.drawn_frames import drawn_reply, drawn_request

every_api = pytest.mark.parametrize("api", list(APIS.values()), ids=lambda api: api.name)

CANONICAL = {
    # kafka-python's names of fields -> kemu's
    "name": "topic", "topics": "topic", "topic_names": "topic", "index": "partition", "partition_index": "partition",
    "partition_indexes": "partition", "partitions": "partition", "key": "key", "error_code": "error",
    "top_level_error_code": "error", "log_append_time_ms": "append_time_ms", "group_id": "group", "groups": "group",
    "groups_names": "group", "group_instance_id": "instance_id", "generation_id": "generation",
    "generation_id_or_member_epoch": "generation", "committed_offset": "offset", "committed_metadata": "metadata",
    "committed_leader_epoch": "leader_epoch", "timestamp": "timestamp_ms", "leader_id": "leader",
    "replica_nodes": "replicas", "isr_nodes": "isr", "group_state": "state", "protocol_data": "protocol",
    "member_metadata": "metadata", "member_assignment": "assignment", "configuration_keys": "names",
    "config_source": "source", "partition_max_bytes": "max_bytes",
    "diverging_epoch": "diverging", "id": "broker_id", "broker_ids": "assignments",
}  # fmt: skip
"""Kafka's name of a field -> the name under which values are compared."""
BOTH = {"name": "topic", "topic_ids": "topic_id", "topic": "topic", "partitions": "partition", "groups": "group",
        "topics": "topic", "topic_names": "topic", "error_code": "error"}  # fmt: skip
"""kemu's name of a field -> the name under which values are compared."""
DERIVED = {"records", "batches", "count", "producer_id", "producer_epoch", "sequence", "host", "forgotten",
           "cluster_authorized_operations"}  # fmt: skip
"""Fields of another form: batches, which ``test_batches.py`` compares, addresses, pairs, sets."""


PREVIEWS = {68, 69}
"""APIs of the consumer protocol: before 4.0 a preview, which is off by default."""
OF_4_0 = LATEST.but(ConsumerGroupHeartbeat=1, OffsetFetch=9)
OF_4_2 = KAFKA_4_2.but(ConsumerGroupHeartbeat=1)
"""As ``Releases.offered_by``."""
BACK_IN_4_0_1 = {11: (0, 9)}
"""kafka-python's versions are those of 4.0.0. Brokers since 4.0.1 have JoinGroup v0 and v1, which 4.0.0 lacks."""


def kafka_python() -> dict[tuple[int, bool], Any]:
    """(API key, whether requests) -> kafka-python's class."""
    pytest.importorskip("kafka", reason="kafka-python is not installed (extra dev)")
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's reading of schemas warns in Python 3.11
        for package in ("admin", "consumer", "metadata", "producer"):
            module = importlib.import_module(f"kafka.protocol.{package}")
            for name, made in vars(module).items():
                if name.endswith(("Request", "Response")) and hasattr(made, "API_KEY"):
                    found[made.API_KEY, name.endswith("Request")] = made
    return found


def theirs(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """(compared name, value) of every value in kafka-python's message."""
    if isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from theirs(item, name)
    elif hasattr(value, "fields") and not isinstance(value, UUID):
        for field in value.fields:
            yield from theirs(getattr(value, field), field)
    else:
        yield CANONICAL.get(name, name), "" if (name, value) == ("topic_id", None) else values_of(value)[0]


def values_of(value: Any) -> tuple[Any, ...]:
    """The values of a field beside the message, one for each message of the frame; UUIDs in kemu's form."""
    if isinstance(value, UUID):
        return (str(value) if value.int else "",)
    return value if isinstance(value, tuple) else (value,)


def ours(value: Any, version: int, name: str = "") -> Iterator[tuple[str, Any]]:
    """(compared name, value) of every value in kemu's message in this version."""
    if isinstance(value, tuple):
        for item in value:
            yield from ours(item, version, name)
    elif hasattr(value, "__attrs_attrs__"):
        for field in fields_of(type(value)):
            if field.since <= version <= field.until and field.name not in DERIVED:
                yield from ours(getattr(value, field.name), version, field.name)
    else:
        yield BOTH.get(name, name), value


def drawn(api: Api) -> Iterator[tuple[int, WireRequest, WireReply]]:
    """Three requests and three replies of every spoken version."""
    for version in range(api.lowest, api.highest + 1):
        for number in range(3):
            draws = Random(f"{api.name} {version} {number}")
            yield version, drawn_request(draws, api, version), drawn_reply(draws, api, version)


def frame_of(request: WireRequest, reply: WireReply) -> bytes:
    """The frame of a reply."""
    return write_reply(request, reply.message, beside=reply.beside, records=reply.records, further=reply.further)


@every_api
def test_kafka_python_reads_the_same_values_and_writes_the_same_bytes(api: Api) -> None:
    """Every spoken version: a field at another place, or of another type, would have another value."""
    judges = kafka_python()
    if (api.key, True) not in judges:
        pytest.skip("kafka-python lacks this API")

    def check(judge: Any, version: int, frame: bytes, message: Any, beside: Any) -> None:
        found = judge.decode(frame[4:], version=version, header=True)
        found._header = None  # kafka-python cannot write the header of a response that it has read
        body = bytes(found.encode(version=version, header=False, framed=False))
        assert frame.endswith(body)
        named = ((BOTH.get(name, name), each) for name, value in beside.items() for each in values_of(value))
        pairs = (*ours(message, version), *named)
        expected = {(name, value) for name, value in pairs if name not in DERIVED}
        expected.discard(("topic", None))  # all topics are an empty array in Metadata v0
        assert expected <= set(theirs(found)), f"{expected - set(theirs(found))} not in {found}"

    for version, request, reply in drawn(api):
        check(judges[api.key, True], version, write_request(request), request.messages, request.beside)
        if isinstance(reply.message, ApiVersionsReply) and reply.message.error is not ErrorCode.NONE:
            continue  # kafka-python reads an error as the reply of version 0
        messages = reply.message, *reply.further
        check(judges[api.key, False], version, frame_of(request, reply), messages, reply.beside)


@every_api
def test_kio_reads_and_writes_the_same_bytes(api: Api) -> None:
    """Every spoken version, header and message, without a byte left over."""
    pytest.importorskip("kio", reason="kio is not installed (extra dev)")
    from kio.index import load_payload_module
    from kio.serial import entity_reader, entity_writer
    from kio.serial.errors import SerialError
    from kio.static.constants import EntityType

    def is_same(kind: Any, version: int, frame: bytes) -> bool:
        module = load_payload_module(api.key, version, kind)
        (entity,) = [
            each
            for name, each in vars(module).items()
            if dataclasses.is_dataclass(each) and getattr(each, "__type__", None) is kind
        ]
        at, made = 4, io.BytesIO()
        for schema in (entity.__header_schema__, entity):
            try:
                value, size = entity_reader(schema)(frame, at)
            except (ValueError, SerialError) as error:
                assert any(word in f"{error!r}" for word in ("timedelta", "year", "OutOfBound")), error
                return False  # kio has no such time
            at += size
            entity_writer(schema)(made, value)
        assert at == len(frame)
        assert made.getvalue() == frame[4:]
        return True

    same = 0
    for version, request, reply in drawn(api):
        same += is_same(EntityType.request, version, write_request(request))
        same += is_same(EntityType.response, version, frame_of(request, reply))
    assert same >= api.highest - api.lowest + 1


@pytest.mark.parametrize(
    ("release", "versions"),
    [((2, 3), KAFKA_2_3), ((2, 4), KAFKA_2_4), ((2, 6), KAFKA_2_6), ((2, 8), KAFKA_2_8), ((3, 0), KAFKA_3_0),
     ((3, 4), KAFKA_3_4), ((3, 7), KAFKA_3_7), ((3, 9), LATEST), ((4, 0), OF_4_0), ((4, 1), OF_4_0), ((4, 2), OF_4_2),
     ((4, 3), OF_4_2)],
)  # fmt: skip
def test_a_broker_offers_the_spoken_versions_of_its_release(release: tuple[int, int], versions: SpokenVersions) -> None:
    """kafka-python knows the answers of brokers of all releases to ApiVersions."""
    kafka_python()
    from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

    rows = api_versions(versions_reply(versions)).api_keys
    found = {row.api_key: (row.min_version, row.max_version) for row in rows}

    theirs = BROKER_API_VERSIONS[release] | (BACK_IN_4_0_1 if release == (4, 0) else {})
    assert found == {
        key: (max(low, theirs[key][0]), min(high, theirs[key][1]))
        for key, (low, high) in SPOKEN.items()
        if key in theirs and (release >= (4, 0) or key not in PREVIEWS)
    }
