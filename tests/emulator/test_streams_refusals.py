"""Streams applications that a broker refuses: by protocol type, and by the size of what their members say."""

from collections.abc import Mapping
from typing import Any

import pytest

from kemu.emulator.engine.loop import run_plain
from kemu.emulator.runner import Run
from kemu.emulator.scenario.files import with_values
from kemu.emulator.scenario.reading import scenario_from_dict
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.trace.recorder import MemoryRecorder
from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.group import JoinGroup
from kemu.protocol.notes.groups import GroupBecame, GroupRecordWritten, MemberBecame, MemberFailed
from kemu.protocol.notes.streams import TaskBecame, TasksDecided
from tests.emulator.test_streams import of, streams


def noted(scenario: Scenario, until_us: int | None = None) -> tuple[list[Any], Run]:
    """Everything that was noted, in order; until then, if given, and not until all would be well again."""
    recorder = MemoryRecorder()
    one = Run(scenario, seed=1, profile="kip-429-v99", recorder=recorder)
    assert one.run_with(lambda world, end_us: run_plain(world, until_us or end_us)) == ""
    return [(seen.at_us, seen.actor, seen.fact) for seen in recorder.facts()], one


def bounced(**settings: Any) -> Mapping[str, Any]:
    """A rolling restart in which c2 comes back set otherwise."""
    given = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
    how = {"do": "rolling-upgrade", "group": "app", "every": "30s", "down": "3s", "hosts": ["c2"], "settings": given}
    return {"at": "15s", **how}


# --- stream.rebalancing.mode -----------------------------------------------------------------------------------------


def test_there_is_no_way_from_type_consumer_to_type_stream_while_the_group_has_members() -> None:
    """KIP-429 v99's upgrade by rolling restart, with its default mode: the coordinator refuses the first that tries.

    Source: ``GroupMetadata.supportsProtocols``.
    """
    scenario = streams(bounced(stream_rebalancing_mode="incremental"), seconds=40, stream_rebalancing_mode="upgrading")
    found, one = noted(scenario)
    failures = [(actor, fact.error) for _, actor, fact in found if type(fact) is MemberFailed]
    owned = {task for row in of(TasksDecided, found)[-1].given for task in row.assigned}

    assert failures == [("c2/t1", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)]
    assert not one.world.hosts["c2"].running, "its process ends, as KIP-671's default has it"
    assert owned == {"0_0", "0_1", "0_2", "0_3", "0_4"}, "those that stay have all tasks"


def test_the_page_s_own_way_is_to_stay_of_type_consumer() -> None:
    """``upgrading`` before and after: learners come with the metadata's version, not with the type."""
    mode = {"stream_rebalancing_mode": "upgrading"}
    found, _ = noted(streams(bounced(emulated_restore_us_per_record=50), seconds=40, **mode))

    assert not of(MemberFailed, found)
    assert of(TasksDecided, found)[-1].learners


@pytest.mark.parametrize(
    ("assignor", "mode", "protocol_type"),
    [
        ("learner", "incremental", "stream"),
        ("learner", "upgrading", "consumer"),
        ("sticky", "incremental", "consumer"),  # what shipped has one type only
        ("ha", "incremental", "consumer"),
    ],
)
def test_members_join_as_the_type_of_their_mode(assignor: str, mode: str, protocol_type: str) -> None:
    settings = {"emulated_task_assignor": assignor, "stream_rebalancing_mode": mode}
    one = Run(streams(members=1, seconds=10, **settings), seed=1, profile="kip-429-v99")
    types: set[str] = set()
    one.world.watch_sends = lambda packet, message: (
        types.add(message.protocol_type) if type(message) is JoinGroup else None
    )
    assert one.run_with(run_plain) == ""

    assert types == {protocol_type}


# --- message.max.bytes -----------------------------------------------------------------------------------------------


def crowded(most_bytes: int, handler: str, seconds: int = 45) -> Scenario:
    """Every member is told every other's partitions: eight more make the record grow by more than their number."""
    server = "{host}.app.example.org:8080"
    plan = {"at": "10s", "do": "add-members", "group": "app", "count": 8}
    made = streams(plan, members=2, seconds=seconds, application_server=server, emulated_uncaught_exception=handler)
    return with_values(made, [f"message.max.bytes={most_bytes}", "session.timeout.ms=10000", "rate=20/s"])


def test_the_margin_to_the_limit_is_told_and_is_that_of_the_record() -> None:
    """KIP-429 v99, "Metadata Space vs Allocation Efficiency"; the limit is that of a batch in __consumer_offsets."""
    found, one = noted(crowded(1_048_588, "shutdown-client"))
    sizes = [fact.size for fact in of(GroupRecordWritten, found)]
    (figures,) = one.judging.finish(one.world.now_us, "").figures.groups.values()

    assert max(sizes) > 5 * min(sizes), "five times as many members, each told of each: more than in proportion"
    assert figures.metadata_max_bytes == max(sizes)
    assert figures.margin_to_limit == 1_048_588 - max(sizes)
    assert figures.generations_too_large == 0
    written = [
        len(value)
        for host in one.world.hosts.values()
        for records in host.disk.logs.values()
        for key, value in records
        if key.startswith(b"\x00\x02") and value is not None
    ]
    assert max(written) < max(sizes) < max(written) + 120, "key and value, and a batch's own bytes"


def test_a_record_over_the_limit_fails_everybody_who_waits_again_and_again() -> None:
    """KAFKA-7149: SyncGroup is answered UNKNOWN_SERVER_ERROR; the rebalance that is prepared then fails, too."""
    found, one = noted(crowded(4_000, "replace-thread"), until_us=60_000_000)
    refused = [fact for fact in of(GroupRecordWritten, found) if fact.error is not ErrorCode.NONE]
    again = [fact for fact in of(GroupBecame, found) if "when storing group assignment" in fact.why]
    failed = {fact.error for fact in of(MemberFailed, found)}
    stable = [at_us for at_us, _, fact in found if type(fact) is GroupBecame and fact.new == "Stable"]
    (figures,) = one.judging.finish(one.world.now_us, "").figures.groups.values()

    assert len(refused) == len(again) == figures.generations_too_large >= 3
    assert {fact.error for fact in refused} == {ErrorCode.MESSAGE_TOO_LARGE}
    assert failed == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert max(stable) < 10_000_000, "with eight instances more it is never Stable again"
    assert figures.margin_to_limit == 4_000 - max(fact.size for fact in refused) < 0


def test_with_the_default_handler_all_instances_that_were_told_close() -> None:
    """KIP-671: SHUTDOWN_CLIENT; those that are left, fewer, get below the limit in the end."""
    found, one = noted(crowded(4_000, "shutdown-client", seconds=60))
    running = [name for name, host in one.world.hosts.items() if name.startswith("c") and host.running]
    last = of(GroupRecordWritten, found)[-1]

    assert 0 < len(running) < 10
    assert last.error is ErrorCode.NONE and last.size <= 4_000


# --- threads that die ------------------------------------------------------------------------------------------------


def test_a_thread_that_is_replaced_joins_as_a_new_member_and_takes_its_tasks_from_the_disk() -> None:
    """KIP-671, REPLACE_THREAD: the new one has the old one's name; the old member's session has to end first."""
    error = {"at": "20s", "do": "error-reply", "api": "Heartbeat", "error": "FENCED_INSTANCE_ID"}
    found, one = noted(streams(error, members=1, seconds=50, emulated_uncaught_exception="replace-thread"))
    (failed_us,) = [at_us for at_us, _, fact in found if type(fact) is MemberFailed]
    after = [(at_us, fact) for at_us, _, fact in found if at_us >= failed_us]
    states = [fact.new for _, fact in after if type(fact) is MemberBecame]
    running = {fact.task for _, fact in after if type(fact) is TaskBecame and fact.state == "RUNNING"}

    assert "FAILED" in states and states[-1] == "STABLE"
    assert running == {"0_0", "0_1", "0_2", "0_3", "0_4"}
    assert one.judging.panel.running_members("app") == ["c1/t1"]


def test_before_that_the_others_of_the_instance_go_on() -> None:
    """Before Kafka 2.8 only the thread dies."""
    error = {"at": "20s", "do": "error-reply", "api": "Heartbeat", "error": "FENCED_INSTANCE_ID"}
    settings = {"emulated_uncaught_exception": "thread-dies", "num_stream_threads": 2}
    found, one = noted(streams(error, members=1, seconds=50, **settings))
    (dead,) = [actor for _, actor, fact in found if type(fact) is MemberFailed]
    (alive,) = one.judging.panel.running_members("app")

    assert one.world.hosts["c1"].running
    assert {dead, alive} == {"c1/t1", "c1/t2"}
    assert len(one.judging.panel.holdings[alive].owned) == 5


# --- settings of one instance ----------------------------------------------------------------------------------------


def test_an_instance_may_be_set_otherwise_than_its_group() -> None:
    """A larger host: three of four tasks are its own."""
    scenario = with_values(
        streams(members=2, seconds=15), ["partitions=4", "groups.app.overrides.c2.streams.emulated.weight=3"]
    )
    found, _ = noted(scenario)

    assert scenario_from_dict(scenario.to_dict()) == scenario
    assert [len(row.assigned) for row in of(TasksDecided, found)[-1].given] == [1, 3]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("groups.app.overrides.c2.streams.num.stream.threads=0", "must be 1 to 1000, not 0"),
        ("groups.app.overrides.c2.streams.num.threads=2", "num.threads: is no key of StreamsConfig"),
        ("stream.rebalancing.mode=increment", 'did you mean "incremental"'),
        ("emulated.uncaught.exception=replace", 'did you mean "replace-thread"'),
    ],
)
def test_settings_that_no_instance_could_run_with_are_named(setting: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        with_values(streams(), [setting])


def test_consumers_have_no_settings_of_streams() -> None:
    data = streams().to_dict()
    del data["groups"]["app"]["streams"]
    upgrade = [{"at": "9s", "do": "rolling-upgrade", "group": "app", "every": "9s", "down": "1s",
                "settings": ["num.stream.threads=2"]}]  # fmt: skip
    with pytest.raises(ScenarioError, match=r"num\.stream\.threads=2: app is no group of Streams instances"):
        scenario_from_dict({**data, "plan": upgrade})
    data["groups"]["app"]["overrides"] = {"c2": {"streams": {"num.stream.threads": 2}}}
    with pytest.raises(ScenarioError, match=r"needs \[groups.NAME.streams\]"):
        scenario_from_dict(data)
