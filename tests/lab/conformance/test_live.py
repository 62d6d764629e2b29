"""Plans run live, without Java: what each timeline makes the processes do, and what is written down of it."""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from lab.conformance import live, plans
from lab.conformance.__main__ import main
from lab.conformance.live import LivePlan, why_not_live
from lab.conformance.maven import RealKafkaError


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        """Now."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """At once, and that much later."""
        self.now += seconds


class Stage:
    """Stands for Kafka and the members' processes: what they were told, and when (s)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        self.told: list[tuple[float, str, str]] = []
        self.settings: dict[str, str] = {}
        self.first_group_is_assigned = True
        stage = self

        class Broker:
            port = 9092

            def __init__(
                self, release: str, libs: Path, folder: Path, settings: Mapping[str, str], **_: object
            ) -> None:
                self._folder = folder
                stage.settings = dict(settings)

            def __enter__(self) -> "Broker":
                (self._folder / "logs").mkdir(parents=True)
                for name in ("server.log", "request.log"):
                    (self._folder / "logs" / name).write_text(name)
                return self

            def __exit__(self, *_: object) -> None:
                stage.note("broker", "ends")

            def stop(self) -> None:
                stage.note("broker", "stop")

            def start(self) -> None:
                stage.note("broker", "start")

        class Members:
            def __init__(self, _processes: object, _classes: Path, _servers: str, callbacks: Path) -> None:
                self._name = callbacks.stem
                self._callbacks = callbacks

            def tell(self, order: str) -> None:
                stage.note(self._name, order)
                if order.startswith("start before") and stage.first_group_is_assigned:
                    self._callbacks.write_text('{"ts":"","who":"before","event":"assigned"}\n')

            def send(self, number: signal.Signals) -> None:
                stage.note(self._name, number.name)

        class Processes:
            def __init__(self, _libs: Path, folder: Path) -> None:
                self._folder = folder

            def __enter__(self) -> "Processes":
                self._folder.mkdir()
                return self

            def __exit__(self, *_: object) -> None:
                stage.note("processes", "end")

        monkeypatch.setattr(live, "time", self.clock)

        class Cluster:
            bootstrap = "127.0.0.1:9092"

            def __init__(self, _libs: Path, folder: Path, count: int, _settings: object, *, tick_ms: int) -> None:
                self._folder = folder
                assert (count, tick_ms) == (3, 2000)

            def __enter__(self) -> "Cluster":
                self._folder.mkdir(parents=True)
                return self

            def __exit__(self, *_: object) -> None:
                stage.note("cluster", "ends")

            def kill(self, broker: int) -> None:
                stage.note("cluster", f"kill {broker}")

            def stop(self, broker: int) -> None:
                stage.note("cluster", f"stop {broker}")

            def start(self, broker: int) -> None:
                stage.note("cluster", f"start {broker}")

            def log(self, broker: int, name: str) -> Path:
                path = self._folder / f"{broker}-{name}"
                path.write_text(name)
                return path

        monkeypatch.setattr(live, "RealBroker", Broker)
        monkeypatch.setattr(live, "RealCluster", Cluster)
        monkeypatch.setattr(live, "JavaProcesses", Processes)
        monkeypatch.setattr(live, "_MembersProcess", Members)

    def note(self, who: str, what: str) -> None:
        """Something was told."""
        self.told.append((self.clock.now, who, what))

    def run(self, plan: str, folder: Path, facts: Path = plans.KEPT) -> list[tuple[int, str, str]]:
        """The commands of the plan from the first start on, at whole seconds. Commands about load are left out."""
        course = plans.planned_course(facts, plan)
        LivePlan("3.9.1", folder, folder, course, facts, folder).run(lambda _: None)
        began = next(at for at, _, what in self.told if what.startswith("start c"))
        told = [each for each in self.told if each[0] >= began and not each[2].startswith("load ")]
        return [(round(at - began), who, what) for at, who, what in told]


def test_every_kept_plan_is_run_live_and_that_of_three_brokers_where_there_is_zookeeper() -> None:
    """One that is not says why."""
    courses = [plans.read_course(plans.KEPT, name) for name in plans.plans_in(plans.KEPT)]
    unknown = attrs.evolve(courses[0], timeline=((0, "start c1"), (5, "the machine room burns")))

    assert {why_not_live(course, "3.9.1") for course in courses} == {None}
    assert why_not_live(unknown, "3.9.1") == '"the machine room burns" is not done live'
    since_kraft = {course.plan: why for course in courses if (why := why_not_live(course, "4.0.0"))}
    assert (
        since_kraft["n-three-brokers"] == "it is about brokers that watch ZooKeeper, which Kafka has not had since 4.0"
    )
    assert since_kraft["g-broker-restart"].startswith(
        "it is about a lone broker that comes back with ZooKeeper; since 4.0"
    )
    assert len(since_kraft) == 2


def test_brokers_are_killed_closed_and_started_one_by_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Broker 0 coordinates, then broker 1; members have what the scenario gives them, as its timeline says nothing."""
    stage = Stage(monkeypatch)
    done = stage.run("n-three-brokers", tmp_path)

    settings = "session.timeout.ms=30000 partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor"
    assert done[0] == (0, "callbacks", f"start c1 orders-n-three-brokers-1 group.id=g-n-three-brokers-1 {settings}")
    assert [each for each in done if each[1] == "cluster"] == [
        (20, "cluster", "kill 0"),
        (50, "cluster", "start 0"),
        (90, "cluster", "stop 1"),
        (108, "cluster", "start 1"),
        (158, "cluster", "ends"),
    ]
    topics = [what for _, _, what in stage.told if "topic " in what]
    assert topics == ["offsets-topic 5 0,1,2", "topic orders-n-three-brokers-1 6 3"]
    logs = [f"broker{number}-{name}.log" for number in range(3) for name in ("request", "server")]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*logs, "callbacks.jsonl", "plan.md"]
    rows = [row.split("| ")[3].rstrip(" |") for row in (tmp_path / "plan.md").read_text().splitlines()[6:]]
    course = plans.read_course(plans.KEPT, "n-three-brokers")
    assert rows == ["T0: first member is started", *(what for _, what in course.timeline)]


def test_a_member_that_is_killed_has_a_process_of_its_own_in_each_life(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The others share one; topics, group and settings are the plan's."""
    done = Stage(monkeypatch).run("d-sticky-kill", tmp_path)

    settings = "partition.assignment.strategy=org.apache.kafka.clients.consumer.StickyAssignor session.timeout.ms=10000"
    start = f"orders-d-sticky-kill-1 group.id=g-d-sticky-kill-1 {settings}"
    assert done[:6] == [
        (0, "callbacks", f"start c1 {start}"),
        (1, "callbacks-c2-1", f"start c2 {start}"),
        (1, "callbacks", f"start c3 {start}"),
        (20, "callbacks-c2-1", "SIGKILL"),
        (45, "callbacks-c2-2", f"start c2 {start}"),
        (65, "callbacks", "end"),
    ]


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("q-paused-in-rebalance", [(15, "callbacks-c2-1", "SIGSTOP"), (35, "callbacks-c2-1", "SIGCONT")]),
        ("f-topic-grows", [(20, "callbacks", "grow orders-f-topic-grows-1 12")]),
        ("c-coop-scale", [(40, "callbacks", "close c4")]),
        ("g-broker-restart", [(20, "broker", "stop"), (22, "broker", "start"), (68, "broker", "stop")]),
    ],
)
def test_what_a_timeline_says_is_done_when_it_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plan: str, expected: list[Any]
) -> None:
    """Pauses, growth, closes, restarts of the broker."""
    done = Stage(monkeypatch).run(plan, tmp_path)

    assert [each for each in done if each in expected] == expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (
            "3-poll-exceeded-under-load",
            [(19, "callbacks", "stall c2 25000")],
        ),
        (
            "2-static-other-subscription",
            [(23, "callbacks", "subscribe c3 orders-2-static-other-subscription-1")],
        ),
        (
            "9-deletes-in-flight",
            [
                (14, "callbacks", "delete-group g-9-deletes-in-flight-1"),
                (16, "callbacks", "delete-offsets g-9-deletes-in-flight-1 orders-9-deletes-in-flight-1 12"),
            ],
        ),
        ("12-rolling-brokers", [(19, "cluster", "stop 0"), (31, "cluster", "start 0"), (59, "cluster", "stop 1")]),
    ],
)
def test_what_a_new_plan_says_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plan: str, expected: list[Any]
) -> None:
    """Stalls, subscriptions, deletions, and brokers one after the other."""
    done = Stage(monkeypatch).run(plan, tmp_path, plans.NEW)

    assert [each for each in done if each in expected] == expected


def test_each_group_and_topic_of_a_plan_has_its_name_and_its_load(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Members name their group and their topics; settings of brokers are the scenario's."""
    stage = Stage(monkeypatch)
    done = stage.run("11-two-groups", tmp_path, plans.NEW)

    topic = "orders-11-two-groups-1"
    assert [what for _, _, what in stage.told if what.startswith("load ")] == [f"load {topic} 12"]
    groups = {what.split()[1]: what.split()[3] for _, _, what in done if what.startswith("start ")}
    assert groups == {f"c{n}": f"group.id={'g' if n < 4 else 'h'}-11-two-groups-1" for n in range(1, 7)}
    assert "group.max.size" not in stage.settings
    stage.run("8-group-max-size", tmp_path / "8", plans.NEW)
    assert stage.settings["group.max.size"] == "3"


def test_what_was_done_is_written_down_as_in_the_recordings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """plan.md with times, and the broker's logs; all processes are at their end then."""
    stage = Stage(monkeypatch)
    stage.run("p-coop-several-topics", tmp_path)

    rows = (tmp_path / "plan.md").read_text().splitlines()
    assert rows[0] == "# p-coop-several-topics"
    assert rows[-1].endswith("| end: everybody closes |")
    assert [(tmp_path / name).read_text() for name in ("server.log", "request.log")] == ["server.log", "request.log"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "callbacks.jsonl",
        "plan.md",
        "request.log",
        "server.log",
    ]
    assert [what for _, who, what in stage.told if who in ("broker", "processes")] == ["end", "ends"]
    topics = [what for _, _, what in stage.told if what.startswith("topic ")]
    assert [topic.split()[2:] for topic in topics] == [["5", "1"], ["9", "1"], ["6", "1"]]


def test_bad_input_gets_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 2, nothing started."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KEMU_RECORDINGS", raising=False)
    libs = tmp_path / "libs"
    libs.mkdir()
    (libs / "kafka-clients-3.4.1.jar").touch()
    for arguments, says in (
        (["--maven", "3.4.1", "--kafka", str(tmp_path)], "give one of them"),
        (["--record", str(tmp_path)], "--maven VERSION or --kafka DIR"),
        (["--maven", "three"], '"three" is no release'),
        (["--maven", "3.4.1", "--plans", "a"], "needs java"),
        (["--kafka", str(tmp_path), "--plans", "a"], "needs javac"),
        (["--kafka", str(tmp_path), "--plans", "zzz"], '"zzz" begins no plan'),
        (["--maven", "4.0.0", "--plans", "n"], "plan n-three-brokers cannot be run live"),
    ):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 2, (arguments, done.output)
        assert says in done.output.replace("\n", " "), (arguments, done.output)


def test_the_program_of_the_members_is_in_the_package() -> None:
    """It is compiled when it is needed."""
    assert "class PlanMembers" in live.SOURCE.read_text()


def test_a_cluster_whose_first_group_gets_no_assignment_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So the run is repeated, and no plan begins before ``__consumer_offsets`` exists."""
    stage = Stage(monkeypatch)
    stage.first_group_is_assigned = False

    with pytest.raises(RealKafkaError, match="got no assignment in 180 s"):
        stage.run("a-range-rolling", tmp_path)
