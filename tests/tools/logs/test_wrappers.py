"""Layouts of loggers, collectors and people around one message, alone and composed."""

import json

import pytest

from kemu.tools.logs.reading import LogReader
from kemu.tools.logs.wrappers.wrappers import opened
from tests.tools.logs.excerpts import NAMES, lines

MESSAGE = "[GroupCoordinator 1]: Stabilized group g generation 14 (__consumer_offsets-25) with 2 members"
KAFKA = f"[2024-05-06 07:08:09,123] INFO {MESSAGE} (kafka.coordinator.group.GroupCoordinator)"
AT = "2024-05-06T07:08:09.123"
CLIENT = "[Consumer clientId=c, groupId=g] Successfully joined group with generation 14"
SPRING = (
    f"2024-05-06 07:08:09.123  INFO 41 --- [app] [ntainer#0-0-C-1] o.a.k.c.c.internals.AbstractCoordinator  : {CLIENT}"
)

LINES = {
    "log4j": (KAFKA, AT),
    "without brackets": (KAFKA.replace("[2024", "2024", 1).replace("123]", "123", 1), AT),
    "docker compose": (f"kafka-1  | {KAFKA}", AT),
    "docker compose with a service": (f"broker          | {KAFKA}", AT),
    "docker's json": (json.dumps({"log": KAFKA + "\n", "stream": "stdout", "time": "2024-05-06T09:08:09.2Z"}), AT),
    "kubernetes": (f"2024-05-06T09:08:10.123456789Z stdout F {KAFKA}", AT),
    "kubectl --timestamps": (f"2024-05-06T09:08:10.123456789Z {KAFKA}", AT),
    "kubectl --prefix": (f"[pod/kafka-0/kafka] {KAFKA}", AT),
    "syslog": (f"May  6 07:08:09 host-1 kafka[123]: {KAFKA}", AT),
    "syslog of RFC 5424": (f"<14>1 2024-05-06T07:08:10.1Z host kafka 12 - - {KAFKA}", AT),
    "journal": (f"May 06 07:08:09 host-1 kafka-server-start.sh[123]: {KAFKA}", AT),
    "strimzi": (KAFKA.replace("[2024", "2024", 1).replace("123]", "123", 1) + " [executor-Rebalance]", AT),
    "grep": (f"server.log:17:{KAFKA}", AT),
    "grep -n": (f"17:{KAFKA}", AT),
    "cat -n": (f"    17\t{KAFKA}", AT),
    "a quotation": (f"> {KAFKA}", AT),
    "bold": (f"**{KAFKA}**", AT),
    "code": (f"`{KAFKA}`", AT),
    "a comment": (f"  // {KAFKA}", AT),
    "a comment of Java": (f"   * {KAFKA}", AT),
    "a comment of SQL": (f"-- {KAFKA}", AT),
    "ANSI": (f"\x1b[36m{KAFKA.replace('INFO', chr(27) + '[32mINFO' + chr(27) + '[0m', 1)}\x1b[0m", AT),
    "ANSI without escapes": (f"[32m{KAFKA}[0m", AT),
    "a box": (f"│ {KAFKA}      │", AT),
    "fields behind": (f"{KAFKA} - app=kafka, clusterId=c", AT),
    "zone": (KAFKA.replace("09,123", "09,123+0200"), AT + "+02:00"),
    "spring boot 3": (SPRING, AT),
    "spring boot with ISO time": (SPRING.replace("2024-05-06 07:08:09.123 ", "2024-05-06T07:08:09.123Z"), AT + "Z"),
    "logback": (f"07:08:09.123 [main] INFO  o.a.k.c.c.i.AbstractCoordinator - {CLIENT}", "07:08:09.123"),
    "log4j 1": (f"INFO  [2024-05-06 07:08:09,123] org.apache.kafka.AbstractCoordinator: {CLIENT}", AT),
    "quarkus": (f"2024-05-06 07:08:09,123 INFO  [org.apa.kaf.int.AbstractCoordinator] (vert.x-1) {CLIENT}", AT),
    "wildfly": (f"07:08:09,123 INFO  [org.apache.kafka.AbstractCoordinator] (pool-1) {CLIENT}", "07:08:09.123"),
    "flink": (f"2024-05-06 07:08:09,123 INFO  org.apache.kafka.AbstractCoordinator  [] - {CLIENT}", AT),
    "logstash": (json.dumps({"@timestamp": f"{AT}Z", "level": "INFO", "message": CLIENT}), f"{AT}Z"),
    "ecs": (json.dumps({"@timestamp": f"{AT}Z", "log.level": "INFO", "message": CLIENT, "ecs": "1.2"}), f"{AT}Z"),
    "log4j's json": (json.dumps({"timeMillis": 1714979289123, "level": "INFO", "message": CLIENT}), f"{AT}Z"),
    "elasticsearch": (json.dumps({"_source": {"@timestamp": f"{AT}Z", "message": CLIENT}}), f"{AT}Z"),
    "logfmt": (f'time={AT}Z level=info msg="{CLIENT}"', f"{AT}Z"),
    "kibana": (f"May 6, 2024 @ 07:08:09.123\t{CLIENT}", AT),
    "compose and spring": (f"app_1  | {SPRING}", AT),
    "kubernetes and json": (
        "2024-05-06T09:00:00.1Z stdout F " + json.dumps({"@timestamp": f"{AT}Z", "message": CLIENT}), f"{AT}Z",
    ),
    "promtail": (json.dumps({"line": KAFKA, "ts": "2024-05-06T09:08:09.2Z"}), AT),
    "datadog": (json.dumps({"attributes": {"service": "a"}, "content": KAFKA}), AT),
    "csv": ('"2024-05-06T09:08:09.200Z","app","' + KAFKA.replace('"', '""') + '"', AT),
    "csv around json": (
        '"app","' + json.dumps({"@timestamp": f"{AT}Z", "message": CLIENT}).replace('"', '""') + '"', f"{AT}Z",
    ),
    "stern and json": ("pay-7d9f8-abc app " + json.dumps({"@timestamp": f"{AT}Z", "message": CLIENT}), f"{AT}Z"),
    "cat -n of json": ("   12  " + json.dumps({"@timestamp": f"{AT}Z", "message": CLIENT}), f"{AT}Z"),
    "a python logger": (
        "2024-05-06 07:08:09,123 INFO kafka.coordinator Successfully joined group g with generation 14", AT,
    ),
    "spark": (f"24/05/06 07:08:09 INFO AbstractCoordinator: {CLIENT}", AT[:-4]),
    "celery": (f"[2024-05-06 07:08:09,123: INFO/ForkPoolWorker-1] {CLIENT}", AT),
    "faust": (f"[2024-05-06 07:08:09,123: INFO]: {CLIENT}", AT),
    "a month in letters first": (f"2024 May 06 07:08:09.123  | {CLIENT}", AT),
    "go's level and time": (f"--- INFO --- [2024-05-06T07:08:09.123Z] {CLIENT}", AT + "Z"),
    "time and level without a space": (f"May 06 07:08:09.123[INFO] {CLIENT}", AT[5:]),
    "ruby": (f"I, [2024-05-06T07:08:09.123456 #41]  INFO -- : {CLIENT}", AT),
    "json without its brace": (json.dumps({"timestamp": f"{AT}Z", "message": CLIENT})[1:], f"{AT}Z"),
    "json in an array": (json.dumps({"timestamp": f"{AT}Z", "message": CLIENT}) + "] ", f"{AT}Z"),
    "json with no-break spaces": (
        json.dumps({"timestamp": f"{AT}Z", "message": CLIENT}, separators=(",\xa0", ":\xa0")), f"{AT}Z",
    ),
    "json with narrow and zero-width spaces": (
        "\ufeff{\u202f" + json.dumps({"timestamp": f"{AT}Z", "message": CLIENT})[1:-1] + "\u200b}\xa0", f"{AT}Z",
    ),
    "no-break spaces": (KAFKA.replace(" ", "\xa0"), AT),
    "grep, compose and ANSI": (f"3:kafka | \x1b[0m{KAFKA}", AT),
}  # fmt: skip


@pytest.mark.parametrize("layout", LINES)
def test_a_message_is_read_in_any_layout(layout: str) -> None:
    """The group, the generation and the time of the innermost layout are read."""
    line, time = LINES[layout]
    (event,) = LogReader("x").events([line + "\n"])

    assert event.kind in ("rebalance-completes", "assignment-synced")
    assert (event.group, event.generation, event.time) == ("g", 14, time)


@pytest.mark.parametrize(
    ("clock", "time"), [("1:05:09 PM", "13:05:09"), ("12:05:09 AM", "00:05:09"), ("12:05:09 PM", "12:05:09")]
)
def test_records_of_java_util_logging_have_two_lines(clock: str, time: str) -> None:
    """The first line has the time and the method, the second one the level and the message."""
    head = f"May 6, 2024 {clock} org.apache.kafka.clients.consumer.internals.AbstractCoordinator onSuccess"
    first, second = LogReader("x").events([head, f"INFO: {CLIENT}", head, f"INFO: {CLIENT}"])

    assert (first.lines, first.group, first.generation, first.time) == ((1, 2), "g", 14, f"2024-05-06T{time}")
    assert (second.line, second.lines) == (3, (3, 4))


def test_fields_behind_a_message_are_read() -> None:
    """zap's console and custom loggers of KafkaJS write an object behind the message."""
    zap = '2024-05-06T07:08:09.123Z\tINFO\tkzap.go:114\tsynced\t{"group": "g", "assigned": {"t": [0, 1]}}'
    kafkajs = 'ERROR [Runner] The group is rebalancing, re-joining {"groupId":"g","memberId":"m","error":"x"}'
    first, second = LogReader("x").events([zap, json.dumps({"msg": kafkajs, "level": "error"})])

    assert (first.kind, first.group, first.partitions) == ("assignment-synced", "g", ("t-0", "t-1"))
    assert (second.kind, second.group, second.member) == ("rejoin-requested", "g", "m")


def test_parts_of_a_layout_are_told() -> None:
    """Level, logger, thread and process of a line of Spring Boot."""
    line = opened(SPRING)
    assert (line.level, line.process, line.thread) == ("INFO", 41, "ntainer#0-0-C-1")
    assert line.logger == "o.a.k.c.c.internals.AbstractCoordinator"
    assert line.text == CLIENT
    assert line.wrappers == ("time", "spring")


def test_the_usual_layout_is_read_as_by_the_wrappers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short way for a broker's default layout gives the result of the wrappers."""
    usual = [line.rstrip("\n") for name in NAMES for line in lines(name)]
    short = [opened(line) for line in usual]
    assert sum(line.wrappers[-3:] == ("logger-last", "time", "level") for line in short) > 50
    monkeypatch.setattr("kemu.tools.logs.wrappers.wrappers._usual", lambda text, names, zone: None)
    assert [opened(line) for line in usual] == short


@pytest.mark.parametrize(
    ("line", "logger", "time"),
    [
        ("INFO:kafka.coordinator:Successfully joined group g with generation 7", "kafka.coordinator", None),
        (
            "2024-05-05 09:09:12,523 kafka.coordinator INFO Successfully joined group g with generation 7",
            "kafka.coordinator",
            "2024-05-05T09:09:12.523",
        ),
        ('time="2021-03-02T11:22:33Z" level=info msg="joined group g\\n"', None, "2021-03-02T11:22:33Z"),
    ],
)
def test_loggers_of_python_and_lines_of_logrus(line: str, logger: str | None, time: str | None) -> None:
    """Python's ``logging.basicConfig`` and other orders; logrus keeps the time, and its message has no line feed."""
    found = opened(line)
    assert (found.logger, found.time and found.time.text) == (logger, time)
    assert found.text in ("Successfully joined group g with generation 7", "joined group g")
