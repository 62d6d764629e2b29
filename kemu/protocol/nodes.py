"""Paths in the metadata store, and the contents of its nodes as Kafka writes them (JSON).

============================================  =================  ====================================================
path                                          kind               written by
============================================  =================  ====================================================
/controller                                   ephemeral          the elected broker, together with /controller_epoch
/controller_epoch                             persistent         the same; its version fences all controller writes
/brokers/ids/<b>                              ephemeral          the broker; the czxid of its creation = broker epoch
/brokers/topics/<t>                           persistent         admin (creates), controller
/brokers/topics/<t>/partitions/<p>/state      persistent         controller (fenced), leader (by version only)
/isr_change_notification/isr_change_<seq>     sequential         leaders create, controller deletes
/admin/delete_topics/<t>                      persistent         admin creates, controller deletes
/admin/preferred_replica_election             persistent         a tool creates, controller deletes
/admin/reassign_partitions                    persistent         a tool creates, controller shrinks and deletes
/config/topics/<t>                            persistent         admin
/config/brokers/<default>                     persistent         admin; for all brokers
/config/changes/config_change_<seq>           sequential         admin, after each config change; never removed here
============================================  =================  ====================================================

Source: Kafka 2.8 ``ZkData``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kemu.protocol.frozen import evolve, frozen
from kemu.protocol.names import TopicPartition

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = "/isr_change_notification/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "/log_dir_event_notification/log_dir_event_"
DELETE_TOPICS = "/admin/delete_topics"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
BROKER_DEFAULTS = "/config/brokers/<default>"
GROUP_CONFIGS = "/config/groups"
"""The settings of groups; the node exists since the first change of a group's settings."""
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"

PERSISTENT_ROOTS = (BROKER_IDS, TOPICS, ISR_CHANGES, DELETE_TOPICS, TOPIC_CONFIGS, BROKER_CONFIGS, CONFIG_CHANGES)
"""Nodes that a broker creates at its start if the nodes are missing, with their parents."""


class BadNode(ValueError):
    """The error for a node whose content Kafka would not write."""


# --- paths ---------------------------------------------------------------------------------------------------------


def broker_path(broker: int) -> str:
    """The path of a broker's registration."""
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    """The path of a topic's assignment."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """The path of the parent of a topic's partitions."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    """The path of the parent of a partition's state."""
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    """The path of a partition's leader, epoch and ISR."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_of(path: str) -> str:
    """The topic whose assignment is stored at this path; "" for any other path."""
    parts = path.split("/")
    return parts[3] if len(parts) == 4 and parts[1:3] == ["brokers", "topics"] else ""


def partition_of_state(path: str) -> TopicPartition | None:
    """The partition whose state node has this path; None for any other path."""
    parts = path.split("/")
    if len(parts) != 7 or parts[6] != "state" or parts[1:3] != ["brokers", "topics"]:
        return None
    return parts[3], int(parts[5])


def delete_path(topic: str) -> str:
    """The path of the request to delete a topic."""
    return f"{DELETE_TOPICS}/{topic}"


def broker_config_path(broker: int) -> str:
    """The path of a broker's own settings."""
    return f"{BROKER_CONFIGS}/{broker}"


def group_config_path(group: str) -> str:
    """The path of a group's settings."""
    return f"{GROUP_CONFIGS}/{group}"


def topic_config_path(topic: str) -> str:
    """The path of a topic's own settings."""
    return f"{TOPIC_CONFIGS}/{topic}"


# --- contents ------------------------------------------------------------------------------------------------------


@frozen
class ReplicaAssignment:
    """A partition's replicas, preferred leader first, with the replicas being added and removed (KIP-455).

    The other fields are set only while a partition is reassigned in batches (KIP-435), because a single batch does not
    contain the whole move. ``target_replicas``: the requested list. ``original_replicas``: the list at the start.
    ``rolls_back``: the target is the original list of a cancelled reassignment.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    target_replicas: tuple[int, ...] = ()
    original_replicas: tuple[int, ...] = ()
    rolls_back: bool = False

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def is_being_reassigned(self) -> bool:
        """Whether replicas are still to be added, removed or reordered."""
        return bool(self.adding or self.removing or self.target_replicas)

    def without(self, broker: int) -> "ReplicaAssignment":
        """The assignment without this replica; all other additions and removals remain."""
        return evolve(
            self,
            replicas=tuple(each for each in self.replicas if each != broker),
            adding=tuple(each for each in self.adding if each != broker),
            removing=tuple(each for each in self.removing if each != broker),
        )


@frozen
class PartitionState:
    """The content of a state node. ``leader`` -1: no leader. ``controller_epoch``: the epoch of the electing
    controller.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


def controller_data(broker: int, timestamp_ms: int) -> bytes:
    """The content of the node of the active controller."""
    return _dump({"version": 1, "brokerid": broker, "timestamp": str(timestamp_ms)})


def read_controller(data: bytes) -> int:
    """The broker id of the active controller; raises BadNode."""
    return int(_load(data, "brokerid"))


def epoch_data(epoch: int) -> bytes:
    """The content of the node of the controller epoch."""
    return str(epoch).encode()


def read_epoch(data: bytes) -> int:
    """The controller epoch; raises BadNode."""
    try:
        return int(data)
    except ValueError:
        raise BadNode(f"not a controller epoch: {data!r}") from None


def broker_data(host: str, rack: str | None) -> bytes:
    """The content of a broker's registration: its address (actor name) and rack."""
    endpoints = [f"PLAINTEXT://{host}:9092"]
    given: dict[str, Any] = {"version": 4, "host": host, "port": 9092, "endpoints": endpoints}
    return _dump(given if rack is None else {**given, "rack": rack})


def read_broker(data: bytes) -> tuple[str, str | None]:
    """(host, rack); raises BadNode."""
    given = _object(data)
    return str(_item(given, "host")), given.get("rack")


def topic_data(partitions: dict[int, ReplicaAssignment], topic_id: str = "") -> bytes:
    """The content of a topic's assignments; additions and removals are written only if there are any.

    The keys for KIP-435 are kemu's own. The KIP's page says that the content of the store does not change, but the
    KIP's design needs these keys.
    """
    ordered = sorted(partitions.items())
    content: dict[str, Any] = {
        "version": 3,
        **({"topic_id": topic_id} if topic_id else {}),
        "partitions": {str(number): each.replicas for number, each in ordered},
        "adding_replicas": {str(number): each.adding for number, each in ordered if each.adding},
        "removing_replicas": {str(number): each.removing for number, each in ordered if each.removing},
    }
    batched = [(str(number), each) for number, each in ordered if each.target_replicas]
    if batched:
        content["target_replicas"] = {number: each.target_replicas for number, each in batched}
        content["original_replicas"] = {number: each.original_replicas for number, each in batched}
        content["rolling_back"] = [int(number) for number, each in batched if each.rolls_back]
    return _dump(content)


def read_topic(data: bytes) -> dict[int, ReplicaAssignment]:
    """Partition -> assignment, ascending; raises BadNode."""
    given = _object(data)
    adding, removing = given.get("adding_replicas", {}), given.get("removing_replicas", {})
    target, original = given.get("target_replicas", {}), given.get("original_replicas", {})
    rolling_back = given.get("rolling_back", ())
    found = {
        int(number): ReplicaAssignment(
            tuple(replicas),
            tuple(adding.get(number, ())),
            tuple(removing.get(number, ())),
            tuple(target.get(number, ())),
            tuple(original.get(number, ())),
            int(number) in rolling_back,
        )
        for number, replicas in _item(given, "partitions").items()
    }
    return dict(sorted(found.items()))


def read_topic_id(data: bytes) -> str:
    """The topic's id; "" for a node without an id. Raises BadNode."""
    return str(_object(data).get("topic_id", ""))


def state_data(state: PartitionState) -> bytes:
    """The content of a partition's state node."""
    return _dump(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
        }
    )


def read_state(data: bytes) -> PartitionState:
    """A partition's state; raises BadNode."""
    given = _object(data)
    return PartitionState(
        _item(given, "leader"),
        _item(given, "leader_epoch"),
        tuple(_item(given, "isr")),
        _item(given, "controller_epoch"),
    )


def partitions_data(partitions: Iterable[TopicPartition]) -> bytes:
    """The content of a list of partitions: an ISR notification, or a preferred election."""
    rows = [{"topic": topic, "partition": number} for topic, number in partitions]
    return _dump({"version": 1, "partitions": rows})


def read_partitions(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a list; raises BadNode."""
    return tuple((row["topic"], row["partition"]) for row in _load(data, "partitions"))


def log_dir_event_data(broker: int) -> bytes:
    """The content of the event that a broker has lost a log directory.

    Source: ``LogDirEventNotificationSequenceZNode``.
    """
    return _dump({"version": 1, "broker": broker, "event": 1})


def read_log_dir_event(data: bytes) -> int:
    """The broker that has lost a log directory; raises BadNode."""
    return int(_load(data, "broker"))


def reassignments_data(targets: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """The content of the old tool's reassignment request: partition -> replicas."""
    rows = [{"topic": topic, "partition": number, "replicas": to} for (topic, number), to in targets.items()]
    return _dump({"version": 1, "partitions": rows})


def read_reassignments(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """Partition -> replicas; raises BadNode."""
    try:
        return {
            (str(row["topic"]), int(row["partition"])): tuple(int(broker) for broker in row["replicas"])
            for row in _load(data, "partitions")
        }
    except (KeyError, TypeError, ValueError) as error:
        raise BadNode(f"not a list of partitions with replicas: {data[:80]!r}: {error!r}") from None


def config_data(settings: Iterable[tuple[str, str]]) -> bytes:
    """The content of dynamic settings of a topic or a broker, by Kafka's keys."""
    return _dump({"version": 1, "config": dict(settings)})


def read_config(data: bytes) -> dict[str, str]:
    """Kafka key -> value; raises BadNode."""
    return dict(_load(data, "config"))


def config_change_data(path: str) -> bytes:
    """The content of the notification that the settings at this path changed; it has the path below ``/config``."""
    return _dump({"version": 2, "entity_path": path.removeprefix("/config/")})


def read_config_change(data: bytes) -> str:
    """The path of the changed settings; raises BadNode."""
    return f"/config/{_load(data, 'entity_path')}"


def _dump(content: dict[str, Any]) -> bytes:
    import json  # late: clusters without replication have no nodes

    return json.dumps(content, separators=(",", ":")).encode()


def _object(data: bytes) -> dict[str, Any]:
    import json

    try:
        given = json.loads(data)
    except ValueError as error:
        raise BadNode(f"not JSON: {data[:80]!r}: {error}") from None
    if not isinstance(given, dict):
        raise BadNode(f"not an object: {data[:80]!r}")
    return given


def _item(given: dict[str, Any], name: str) -> Any:
    if name not in given:
        raise BadNode(f"no {name!r} in {given}")
    return given[name]


def _load(data: bytes, name: str) -> Any:
    return _item(_object(data), name)
