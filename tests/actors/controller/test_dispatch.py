"""Dispatch: events go to the parts that subscribed to them, and a new part needs one row."""

from collections.abc import Sequence

import pytest

from kemu.actors.controller.dispatch import ANYTHING, Dispatch, Job, Moment
from kemu.actors.controller.transactions import Work, ask_one, get
from kemu.protocol.messages.store import WatchEvent, WatchEventKind
from kemu.protocol.nodes import (
    ISR_CHANGE_PREFIX,
    REASSIGN_PARTITIONS,
    PartitionState,
    partitions_data,
    state_data,
    state_path,
    topic_path,
)
from tests.actors.controller.control_world import CONFIG, ControlWorld

CHANGED = WatchEventKind.NODE_DATA_CHANGED


class Follower:
    """A part like a reassignment: it subscribes to state nodes, brokers, ISRs and failovers."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def subscribe(self, to: Dispatch) -> None:
        """See ``Part``."""
        to.on_watch(state_path(ANYTHING, ANYTHING), Job("state", self._state), CHANGED)
        to.on_watch(REASSIGN_PARTITIONS, Job("reassign", self._asked))
        to.on_moment(Moment.TOOK_OVER, self._took_over)
        to.on_moment(Moment.BROKERS_STARTED, self._started)
        to.on_moment(Moment.ISRS_CHANGED, self._isrs)

    def _state(self, topic: str, partition: str) -> Work[None]:
        self.heard.append(("state", topic, int(partition)))
        yield from ()

    def _asked(self) -> Work[None]:
        yield from ask_one(get(REASSIGN_PARTITIONS))
        self.heard.append(("asked",))

    def _took_over(self) -> Work[None]:
        yield from ask_one(get(REASSIGN_PARTITIONS, watch=True))
        yield from ask_one(get(state_path("t", 0), watch=True))
        self.heard.append(("took over",))

    def _started(self, brokers: Sequence[int]) -> Work[None]:
        self.heard.append(("started", *brokers))
        yield from ()

    def _isrs(self, partitions: Sequence[tuple[str, int]]) -> Work[None]:
        self.heard.append(("isrs", *partitions))
        yield from ()


@pytest.mark.parametrize(
    ("path", "kind", "names"),
    [
        ("/brokers/topics/t", CHANGED, [("topic", "t")]),
        ("/brokers/topics/t", WatchEventKind.NODE_DELETED, []),
        ("/brokers/topics/t/partitions/0/state", CHANGED, [("state", "t", "0")]),
        ("/brokers/topics/t/partitions/0", CHANGED, []),
        ("/brokers/topics", CHANGED, []),
    ],
)
def test_a_watch_goes_to_the_job_of_its_node(path: str, kind: WatchEventKind, names: list[tuple[str, ...]]):
    """A partition's state node is no topic's node, although it stands below one."""
    dispatch = Dispatch()
    dispatch.on_watch(topic_path(ANYTHING), Job("topic", lambda topic: iter(())), CHANGED)
    dispatch.on_watch(state_path(ANYTHING, ANYTHING), Job("state", lambda topic, number: iter(())), CHANGED)

    assert [(task.job.name, *task.about) for task in dispatch.of_watch(WatchEvent(path=path, kind=kind))] == names


def test_two_parts_cannot_answer_the_same_request():
    """Each request gets one answer."""
    dispatch = Dispatch()
    dispatch.on_request(PartitionState, Job("one", lambda request: iter(())))
    with pytest.raises(AssertionError, match="has a job"):
        dispatch.on_request(PartitionState, Job("two", lambda request: iter(())))


def test_a_part_that_is_added_hears_of_what_it_asked_for():
    """State nodes, its own node, broker starts, ISR changes, the failover."""
    world = ControlWorld(3, {"t": ((0, 1, 2),)})
    parts = {broker: Follower() for broker in world.ids}
    for broker, part in parts.items():
        world.part(broker).add(part)
    world.kill(0)
    world.run(CONFIG.zookeeper_session_timeout_ms + 1_000)
    heard = parts[world.active.broker_id].heard
    assert heard == [("took over",)]
    assert sum(len(part.heard) for part in parts.values()) == 1, "only who controls takes over"

    state = world.state("t")
    world.put(state_path("t", 0), state_data(state))
    world.run(200)
    world.put(ISR_CHANGE_PREFIX + "0000000001", partitions_data([("t", 0)]))
    world.run(200)
    world.revive(0)
    world.run(1_000)

    # The announcement is removed, and that is a change below the watched node, too: nothing is announced then.
    assert heard[1:] == [("state", "t", 0), ("isrs", ("t", 0)), ("isrs",), ("started", 0)]
