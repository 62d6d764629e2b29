"""Frames that real clients have sent; ``python -m lab.record_frames`` records them."""

import json

import pytest

from kemu.protocol.kafka_wire.batches import records_of
from kemu.protocol.kafka_wire.frames import (
    UnsupportedWireVersion,
    WireRequest,
    read_back,
    read_request,
    write_request,
)
from lab.record_frames import FILE, GROUP, KIP_848, RECORDS, TOPIC

RECORDED: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))
EVERY = {"ApiVersions", "Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetFetch",
         "ListOffsets", "Fetch", "OffsetCommit", "LeaveGroup", "InitProducerId", "Produce"}  # fmt: skip

OF_CONSUMER_PROTOCOL = EVERY - {"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"} | {"ConsumerGroupHeartbeat"}

every_client = pytest.mark.parametrize("client", RECORDED)


def spoken(client: str) -> list[tuple[bytes, WireRequest]]:
    """The frames of a client in spoken versions, and their requests."""
    found = []
    for text in RECORDED[client]:
        frame = bytes.fromhex(text)
        try:
            found.append((frame, read_request(frame)))
        except UnsupportedWireVersion as error:
            assert error.api_key == 18  # the client then asks in an older version
    return found


@every_client
def test_a_recorded_request_is_written_as_the_client_wrote_it(client: str) -> None:
    """No byte of a real client is lost, in any request."""
    for frame, request in spoken(client):
        assert write_request(request)[4:] == frame, request
        assert read_back(request) == request


@every_client
def test_a_client_has_sent_every_request_of_a_producer_and_of_a_member(client: str) -> None:
    """The client accepted the answers to these requests, otherwise it would not have sent the next ones."""
    requests = [request for _, request in spoken(client)]

    assert {type(request.message).__name__ for request in requests} == (
        OF_CONSUMER_PROTOCOL if KIP_848 in client else EVERY
    )
    groups = {request.message.group for request in requests if hasattr(request.message, "group")}
    assert groups == {GROUP}


@every_client
def test_the_records_of_a_client_are_in_its_batches(client: str) -> None:
    """The first two of the recorded batches."""
    values = [
        value
        for _, request in spoken(client)
        for (topic, partition), batch in request.records.items()
        for _, value in records_of(batch)
        if (topic, partition) == (TOPIC, 0)
    ]

    assert values == [b"record-%d" % number for number in range(len(values))]
    assert 2 <= len(values) <= RECORDS
