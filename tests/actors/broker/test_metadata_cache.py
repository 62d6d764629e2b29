"""Topics' metadata for clients after UpdateMetadata: ``ZkMetadataCache.updateMetadata``."""

from kemu.actors.broker.metadata_cache import Topics, cached, topics_after
from kemu.protocol.messages.control import (
    LEADER_DURING_DELETE,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataPartition,
)


def after(topics: Topics, *rows: tuple[int, int, int], live: int = 2) -> Topics:
    """The cache after a request about t: (partition, leader, topic id)."""
    states = tuple(
        UpdateMetadataPartition(
            topic_name="t",
            partition_index=number,
            controller_epoch=1,
            leader=leader,
            leader_epoch=0,
            isr=(0,),
            zk_version=0,
            replicas=(0, 1),
            topic_id=topic_id,
        )
        for number, leader, topic_id in rows
    )
    brokers = tuple(UpdateMetadataBroker(id=number, host=f"b{number}") for number in range(live))
    request = UpdateMetadata(controller_id=0, controller_epoch=1, partition_states=states, live_brokers=brokers)
    then = topics_after(topics, request)
    for found in cached(then, request)[0]:
        assert found.topic_id == then["t"].topic_id
    return then


def test_clients_are_told_the_id_of_the_topic_that_was_told_last():
    """A topic recreated under its name has another id (KIP-516)."""
    first = after({}, (0, 0, "7"), (1, 1, "7"))
    assert first["t"].topic_id == "7"

    gone = after(first, (0, LEADER_DURING_DELETE, "7"), (1, LEADER_DURING_DELETE, "7"))
    assert "t" not in gone
    again = after(gone, (0, 1, "8"))
    assert again["t"].topic_id == "8"
    assert after(first, (0, 0, "8"))["t"].topic_id == "8"


def test_who_lives_changes_no_id_and_a_request_that_is_too_old_for_ids_takes_it_away():
    """``newZeroIds``: for topics named in such a request (since 3.1); a request only about brokers names none."""
    first = after({}, (0, 0, "7"))
    assert after(first, live=1)["t"].topic_id == "7"
    assert after(first)["t"] is first["t"]

    assert after(first, (0, 0, ""))["t"].topic_id == ""
