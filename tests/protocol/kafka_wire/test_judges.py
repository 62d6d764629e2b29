"""Other implementations of Kafka's protocol read and write the same frames: kafka-python's schemas and kio.

Both are generated from Kafka's own JSON schemas. Nothing of kemu needs them to run.
"""

import dataclasses
import importlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, given, reject, settings

from kemu.protocol.errors import ErrorCode
from kemu.protocol.kafka_wire.apis import APIS, Api
from kemu.protocol.kafka_wire.frames import WireReply, WireRequest, write_reply, write_request
from kemu.protocol.messages.negotiation import ApiVersionsReply
from kemu.protocol.wire.schema import fields_of
from tests.protocol.kafka_wire.drawing import replies, requests

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
BOTH = {"name": "topic", "topic": "topic", "partitions": "partition", "groups": "group", "topics": "topic",
        "topic_names": "topic", "error_code": "error"}  # fmt: skip
"""kemu's name of a field -> the name under which values are compared."""
DERIVED = {"records", "batches", "count", "producer_id", "producer_epoch", "sequence", "host", "forgotten",
           "cluster_authorized_operations"}  # fmt: skip
"""Fields of another form: batches, which ``test_batches.py`` compares, addresses, pairs, sets."""


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
    elif hasattr(value, "fields"):
        for field in value.fields:
            yield from theirs(getattr(value, field), field)
    else:
        yield CANONICAL.get(name, name), value


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


@every_api
def test_kafka_python_reads_the_same_values_and_writes_the_same_bytes(api: Api) -> None:
    """Every spoken version: a field at another place, or of another type, would have another value."""
    judges = kafka_python()

    def check(judge: Any, version: int, frame: bytes, message: Any, beside: Any) -> None:
        found = judge.decode(frame[4:], version=version, header=True)
        found._header = None  # kafka-python cannot write the header of a response that it has read
        body = bytes(found.encode(version=version, header=False, framed=False))
        assert frame.endswith(body)
        pairs = (*ours(message, version), *((BOTH.get(name, name), value) for name, value in beside.items()))
        expected = {(name, value) for name, value in pairs if name not in DERIVED}
        expected.discard(("topic", None))  # all topics are an empty array in Metadata v0
        assert expected <= set(theirs(found)), f"{expected - set(theirs(found))} not in {found}"

    for version in range(api.lowest, api.highest + 1):

        @settings(max_examples=3, deadline=None, phases=[Phase.generate])
        @given(requests(api, version), replies(api, version))
        def check_version(request: WireRequest, reply: tuple[int, WireReply]) -> None:
            version = request.version
            check(judges[api.key, True], version, write_request(request), request.message, request.beside)
            message, beside = reply[1].message, reply[1].beside
            if isinstance(message, ApiVersionsReply) and message.error is not ErrorCode.NONE:
                return  # kafka-python reads an error as the reply of version 0
            frame = write_reply(request, message, beside=beside, records=reply[1].records)
            check(judges[api.key, False], version, frame, message, beside)

        check_version()


@every_api
def test_kio_reads_and_writes_the_same_bytes(api: Api) -> None:
    """Every spoken version, header and message, without a byte left over."""
    pytest.importorskip("kio", reason="kio is not installed (extra dev)")
    from kio.index import load_payload_module
    from kio.serial import entity_reader, entity_writer
    from kio.serial.errors import SerialError
    from kio.static.constants import EntityType

    def check(kind: Any, version: int, frame: bytes) -> None:
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
                reject()
            at += size
            entity_writer(schema)(made, value)
        assert at == len(frame)
        assert made.getvalue() == frame[4:]

    for version in range(api.lowest, api.highest + 1):

        @settings(max_examples=3, deadline=None, phases=[Phase.generate])
        @given(requests(api, version), replies(api, version))
        def check_version(request: WireRequest, reply: tuple[int, WireReply]) -> None:
            version = request.version
            check(EntityType.request, version, write_request(request))
            frame = write_reply(request, reply[1].message, beside=reply[1].beside, records=reply[1].records)
            check(EntityType.response, version, frame)

        check_version()
