"""Log directories: placement of logs, restarts, and the failure of a directory. KIP-112."""

from hypothesis import given
from hypothesis import strategies as st

from kemu.actors.broker.log_dirs import PLACES, LogDirs
from kemu.actors.broker.replica import Role
from kemu.actors.broker.replica_manager import TopicSettings
from kemu.actors.broker.replicated import ReplicatedBroker
from kemu.actors.machine import Event, Loaded, Note, Received, Record, Send, Told, WriteOnly
from kemu.emulator.chance import Seeded
from kemu.protocol.commands import FailLogDir, Start
from kemu.protocol.config import BrokerConfig, ReplicaConfig
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.control import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrReply,
    StopReplica,
    StopReplicaPartition,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataBroker,
)
from kemu.protocol.messages.local import BrokerSession
from kemu.protocol.notes.replication import BecameLeader, LogDirFailed

names = st.sampled_from([f"t-{number}" for number in range(8)])


def placed(dirs: LogDirs, *log_names: str) -> list[int]:
    for name in log_names:
        dirs.place(name)
    return [dirs.of(name) for name in log_names]


# --- where logs go -------------------------------------------------------------------------------------------------


def test_a_log_goes_where_the_fewest_are():
    """LogManager.nextLogDirs; of several the first."""
    dirs = LogDirs(3)

    assert placed(dirs, "t-0", "t-1", "t-2", "t-3") == [0, 1, 2, 0]
    dirs.remove("t-1")
    assert placed(dirs, "t-4", "t-5") == [1, 1]


def test_a_log_does_not_go_to_a_directory_that_failed():
    """LogManager.handleLogDirFailure: the directory is not live any more, however few logs it has."""
    dirs = LogDirs(2)
    placed(dirs, "t-0")
    dirs.fail(1)

    assert placed(dirs, "t-1", "t-2") == [0, 0]


def test_one_directory_writes_nothing_down():
    """With one directory there is nothing to record."""
    dirs = LogDirs(1)

    assert (dirs.place("t-0"), dirs.remove("t-0")) == (None, None)


def test_a_log_that_may_lie_on_a_failed_directory_is_not_made_again():
    """LogManager.getOrCreateLog: KafkaStorageException while a directory is offline, unless the replica is new."""
    dirs = LogDirs(2)
    dirs.found(((b"t-0", b"0"), (b"t-1", b"1"), (b"t-2", b"1"), (b"t-2", b"")))
    assert not dirs.may_be_in_failed_dir("t-9")

    dirs.fail(1)

    lie = [dirs.may_be_in_failed_dir(name) for name in ("t-0", "t-1", "t-2", "t-9")]
    assert lie == [False, True, True, True], "t-2 was deleted: nobody knows of it any more"
    assert placed(dirs, "t-1") == [0], "as a new one"


@given(st.integers(1, 4), st.lists(st.tuples(st.sampled_from(["place", "remove", "restart"]), names), max_size=40))
def test_logs_stay_where_they_are_and_are_spread(count, steps):
    """Any order of new logs, deletions and restarts: a log's directory never changes; a new one evens out."""
    dirs, written, model = LogDirs(count), [], {}
    for what, name in steps:
        if what == "place" and name not in model:
            counts = [list(model.values()).count(number) for number in range(count)]
            row = dirs.place(name)
            model[name] = dirs.of(name)
            assert counts[model[name]] == min(counts)
        elif what == "remove" and name in model:
            row = dirs.remove(name)
            del model[name]
        elif what == "restart":
            row, dirs = None, LogDirs(count)
            dirs.found(written)
            for each in model:
                dirs.place(each)
        else:
            continue
        written += [row] if row is not None else []
        if count > 1 or what != "restart":
            assert {each: dirs.of(each) for each in model} == model


# --- a broker ------------------------------------------------------------------------------------------------------


class OneBroker:
    """b0 with two log directories; the test acts as its controller; all its writes are kept."""

    def __init__(self) -> None:
        self.disk: dict[str, list[Record]] = {}
        self.sent: list[Send] = []
        self.notes: list[object] = []
        self.requests = 0
        self.start()

    def start(self, *failed: int) -> None:
        topics = {"t": TopicSettings(record_bytes=100)}
        self.broker = ReplicatedBroker(
            "b0", 0, BrokerConfig(), ReplicaConfig(), topics=topics, chance=Seeded(1).stream("b0"), log_dirs=2
        )
        for log, records in sorted(self.disk.items()):
            self.step(Loaded(log, tuple(records)))
        self.step(Told(Start()))
        for log_dir in failed:
            self.step(Told(FailLogDir(log_dir=log_dir)))
        self.ask(BrokerSession(session_id=1, broker_epoch=5), 0)
        self.ask(
            UpdateMetadata(
                controller_id=1,
                controller_epoch=1,
                broker_epoch=5,
                partition_states=(),
                live_brokers=(UpdateMetadataBroker(id=0, host="b0"),),
            ),
            7,
        )

    def step(self, event: Event) -> None:
        for effect in self.broker.step(1_000, event):
            match effect:
                case Send():
                    self.sent.append(effect)
                case Note(fact=fact):
                    self.notes.append(fact)
                case WriteOnly(log=log, records=records):
                    self.disk.setdefault(log, []).extend(records)

    def ask(self, request: object, version: int) -> object:
        """Send a request of the controller; returns the answer."""
        self.requests += 1
        self.step(Received("b1/controller", 1, self.requests, version, request))
        return self.sent[-1].message

    def lead(self, *numbers: int, is_new: bool = False, epoch: int = 0) -> dict[int, ErrorCode]:
        """Tell the broker to lead these partitions; returns the answer."""
        rows = tuple(
            LeaderAndIsrPartition(
                topic_name="t",
                partition_index=number,
                controller_epoch=1,
                leader=0,
                leader_epoch=epoch,
                isr=(0,),
                zk_version=0,
                replicas=(0,),
                is_new=is_new,
            )
            for number in numbers
        )
        reply = self.ask(
            LeaderAndIsr(controller_id=1, controller_epoch=1, broker_epoch=5, partition_states=rows, live_leaders=()), 5
        )
        assert isinstance(reply, LeaderAndIsrReply)
        return {row.partition_index: row.error_code for row in reply.partition_errors}

    def roles(self) -> dict[int, Role]:
        return {at[1]: replica.role for at, replica in self.broker.manager.replicas.items()}


NONE, STORAGE, OLD = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.STALE_CONTROLLER_EPOCH


def test_what_lies_on_a_failed_directory_is_offline_and_the_rest_serves_on():
    """ReplicaManager.handleLogDirFailure; LeaderAndIsr and StopReplica are refused for offline replicas."""
    broker = OneBroker()
    broker.lead(0, 1, 2, 3, is_new=True)

    broker.step(Told(FailLogDir(log_dir=1)))

    assert broker.notes[-1] == LogDirFailed(log_dir=1, partitions=(("t", 1), ("t", 3)))
    assert broker.roles() == {0: Role.LEADER, 1: Role.OFFLINE, 2: Role.LEADER, 3: Role.OFFLINE}
    assert broker.lead(0, 1, 2, 3) == {0: OLD, 1: STORAGE, 2: OLD, 3: STORAGE}
    assert broker.lead(1, epoch=9) == {1: STORAGE}
    row = StopReplicaPartition(topic_name="t", partition_index=1, leader_epoch=9, delete_partition=True)
    reply = broker.ask(StopReplica(controller_id=1, controller_epoch=1, broker_epoch=5, partition_states=(row,)), 3)
    assert isinstance(reply, StopReplicaReply)
    assert [each.error_code for each in reply.partition_errors] == [STORAGE]
    assert sorted(broker.broker.manager.led) == [("t", 0), ("t", 2)]


def test_a_new_replica_goes_to_a_live_directory():
    """Partition.createLogIfNotExists with isNew."""
    broker = OneBroker()
    broker.step(Told(FailLogDir(log_dir=0)))

    assert broker.lead(0, 1, is_new=True) == {0: NONE, 1: NONE}
    assert broker.lead(2) == {2: STORAGE}, "it may lie on the one that failed"
    assert [broker.broker.manager.dirs.of(f"t-{number}") for number in (0, 1)] == [1, 1]


def test_a_broker_that_starts_again_finds_what_lies_on_its_live_directories():
    """Includes an empty log; with all directories repaired all logs are available again."""
    broker = OneBroker()
    broker.lead(0, 1, 2, is_new=True)
    assert [name for name, _ in broker.disk[PLACES]] == [b"t-0", b"t-1", b"t-2"]

    broker.start(0)
    assert broker.lead(0, 1, 2, epoch=1) == {0: STORAGE, 1: NONE, 2: STORAGE}
    broker.notes.clear()
    broker.start()
    assert broker.lead(0, 1, 2, epoch=2) == {0: NONE, 1: NONE, 2: NONE}

    assert [note.partition for note in broker.notes if isinstance(note, BecameLeader)] == [0, 1, 2]
    assert [broker.broker.manager.dirs.of(f"t-{number}") for number in (0, 1, 2)] == [0, 1, 0]
