"""Run the plan in a real cluster with Kafka's own tool, and read the results from the logs of ZooKeeper and the
brokers.

``kafka-reassign-partitions --throttle`` makes the copying of records slow enough for the next step.
Source of the log lines: ``kafka.request.logger`` at DEBUG (a JSON object per request since Kafka 2.6), ZooKeeper's
transaction log.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kemu.protocol.names import broker_host
from kemu.protocol.nodes import ReplicaAssignment, read_state, read_topic
from lab.conformance.maven import RealKafkaError
from lab.conformance.real_cluster import RealCluster
from lab.conformance.reassigning import plan
from lab.conformance.reassigning.plan import PlanStep
from lab.conformance.reassigning.sequences import (
    STORE,
    Base,
    Led,
    Sequences,
    assignment_line,
    leader_and_isr_line,
    state_line,
    stop_replica_line,
    update_metadata_line,
)
from lab.conformance.reassigning.zookeeper_log import read_writes

LAG_MS, SESSION_MS = 10_000, 6_000
THROTTLE_BYTES_PER_S = 500_000
RECORD_BYTES = 10_000
RECORDS = {plan.MOVED: 600, plan.CANCELLED: 1_000, plan.KILLED: 1_000}
"""Topic -> number of records before the plan begins; other topics have 100 records."""
SETTINGS = {
    "offsets.topic.replication.factor": str(plan.BROKERS),
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "replica.lag.time.max.ms": str(LAG_MS),
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "replication.quota.window.num": "2",
}
"""Settings of every broker. With few quota windows, a throttle is effective from the first seconds on."""
_TOOL = "kafka.admin.ReassignPartitionsCommand"
_LOAD = "org.apache.kafka.tools.ProducerPerformance"


class _Mark(NamedTuple):
    at_ms: int
    step: str


def record(libs: Path, folder: Path, protocol_version: str, say: Callable[[str], None]) -> Sequences:
    """Run the plan once in a real cluster (two minutes); return the sequences of its logs.

    Args:
        libs: Kafka's jars.
        folder: folder for the cluster's files.
        protocol_version: ``inter.broker.protocol.version``.
        say: called with a line of progress.

    Raises:
        RealKafkaError: the cluster failed.
    """
    settings = {**SETTINGS, "inter.broker.protocol.version": protocol_version}
    with RealCluster(libs, folder, plan.BROKERS, settings) as cluster:
        marks = _operate(cluster, say)
        return _read(cluster, marks)


def _operate(cluster: RealCluster, say: Callable[[str], None]) -> list[_Mark]:
    marks: list[_Mark] = []

    def begin(step: PlanStep) -> None:
        say(step.name)
        marks.append(_Mark(time.time_ns() // 1_000_000, step.name))

    boot = ("--bootstrap-server", cluster.bootstrap)
    for topic, rows in plan.TOPICS.items():
        cluster.tool(
            "kafka.admin.TopicCommand",
            *boot,
            "--create",
            "--topic",
            topic,
            "--replica-assignment",
            ",".join(":".join(map(str, row)) for row in rows),
        )
    for topic in plan.TOPICS:
        cluster.tool(_LOAD, *_producer(cluster, topic, RECORDS.get(topic, 100), RECORD_BYTES, -1))
    for topic in plan.TOPICS:
        cluster.background(_LOAD, *_producer(cluster, topic, 100_000, 100, 20))
    time.sleep(4)
    begin(plan.MOVE)
    _execute(cluster, plan.MOVE)
    time.sleep(8)
    begin(plan.MOVE_SLOWLY)
    slow = _execute(cluster, plan.MOVE_SLOWLY)
    time.sleep(2)
    begin(plan.CANCEL)
    said = cluster.tool(_TOOL, *boot, "--reassignment-json-file", slow, "--cancel")
    if "Successfully cancelled" not in said:
        raise RealKafkaError(f"the reassignment was over before it could be cancelled: {said}")
    time.sleep(3)
    begin(plan.MOVE_TO_BROKER_THAT_DIES)
    _execute(cluster, plan.MOVE_TO_BROKER_THAT_DIES)
    time.sleep(2)
    begin(plan.KILL)
    cluster.kill(plan.TARGET_THAT_DIES)
    time.sleep(SESSION_MS / 1_000 + 6)
    begin(plan.RETURN)
    cluster.start(plan.TARGET_THAT_DIES)
    time.sleep(25)
    return marks


def _producer(cluster: RealCluster, topic: str, count: int, size: int, rate: int) -> tuple[str, ...]:
    return (
        "--topic",
        topic,
        "--num-records",
        str(count),
        "--record-size",
        str(size),
        "--throughput",
        str(rate),
        "--producer-props",
        f"bootstrap.servers={cluster.bootstrap}",
        "acks=all",
    )


def _execute(cluster: RealCluster, step: PlanStep) -> str:
    rows = [{"topic": t, "partition": p, "replicas": list(to)} for t, p, to in step.targets]
    path = cluster.folder / f"{step.name}.json"
    path.write_text(json.dumps({"version": 1, "partitions": rows}), encoding="utf-8")
    throttle = ("--throttle", str(THROTTLE_BYTES_PER_S)) if step.is_slow else ()
    boot = ("--bootstrap-server", cluster.bootstrap)
    cluster.tool(_TOOL, *boot, "--reassignment-json-file", str(path), "--execute", *throttle)
    return str(path)


# --- what the logs say ---------------------------------------------------------------------------------------------


def _read(cluster: RealCluster, marks: list[_Mark]) -> Sequences:
    found = Sequences(step.name for step in plan.STEPS)
    bases: dict[str, Base] = {}
    versions: dict[str, int] = {}
    before: dict[str, ReplicaAssignment] = {}
    for path in cluster.transaction_logs:
        for write in read_writes(path.read_bytes()):
            parts = write.path.split("/")
            if parts[1:3] != ["brokers", "topics"] or len(parts) < 4 or parts[3] not in plan.TOPICS or not write.data:
                continue
            step = _step_at(marks, write.at_ms)
            if parts[-1] == "state":
                name, state = f"{parts[3]}-{parts[5]}", read_state(write.data)
                versions[name] = 0 if write.what == "created" else versions[name] + 1
                if not step:
                    bases[name] = Base(state.leader_epoch, versions[name])
                else:
                    found.add(step, name, STORE, state_line(state, bases[name].epoch))
            elif len(parts) == 4:
                for number, assignment in read_topic(write.data).items():
                    name = f"{parts[3]}-{number}"
                    if step and before.get(name) != assignment:
                        found.add(step, name, STORE, assignment_line(assignment))
                    before[name] = assignment
    for broker in range(cluster.count):
        for at_ms, name, line in read_requests(cluster.log(broker, "requests"), bases):
            step = _step_at(marks, at_ms)
            if step:
                found.add(step, name, broker_host(broker), line)
    return found


def _step_at(marks: list[_Mark], at_ms: int) -> str:
    return next((mark.step for mark in reversed(marks) if mark.at_ms <= at_ms), "")


def read_requests(path: Path, bases: Mapping[str, Base]) -> Iterator[tuple[int, str, str]]:
    """Yield (wall clock, partition, line) of each request of the controller to this broker."""
    wanted = ('"LEADER_AND_ISR"', '"STOP_REPLICA"', '"UPDATE_METADATA"')
    for row in path.read_text(encoding="utf-8").splitlines():
        if not any(api in row for api in wanted):
            continue
        when, _, rest = row.partition("] ")
        text = rest[rest.index("{") : rest.rindex("}") + 1]
        logged: dict[str, Any] = json.loads(text)
        at_ms = _clock_ms(when[1:])
        api, request = logged["requestHeader"]["requestApiKeyName"], logged["request"]
        for topic, each in _rows(request):
            name = f"{topic}-{each['partitionIndex']}"
            if name in bases:
                yield at_ms, name, _line(api, each, bases[name])


def _rows(request: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for topic in request.get("topicStates", ()):
        for each in topic["partitionStates"]:
            yield topic["topicName"], each
    for each in request.get("ungroupedPartitionStates", ()):
        yield each["topicName"], each


def _line(api: str, row: dict[str, Any], base: Base) -> str:
    if api == "STOP_REPLICA":
        return stop_replica_line(row["leaderEpoch"], base, delete=row["deletePartition"])
    version = row["partitionEpoch"] if "partitionEpoch" in row else row["zkVersion"]
    led = Led(row["leader"], row["leaderEpoch"], tuple(row["isr"]), version, tuple(row["replicas"]))
    if api == "UPDATE_METADATA":
        return update_metadata_line(led, base, row.get("offlineReplicas", ()))
    return leader_and_isr_line(
        led, base, row.get("addingReplicas", ()), row.get("removingReplicas", ()), is_new=row["isNew"]
    )


def _clock_ms(text: str) -> int:
    """The log's local time as ms since the epoch."""
    whole, _, millis = text.partition(",")
    return int(time.mktime(time.strptime(whole, "%Y-%m-%d %H:%M:%S"))) * 1_000 + int(millis)
