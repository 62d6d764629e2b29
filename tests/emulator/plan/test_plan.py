"""Plans: the plain form both ways, words, and messages about what is wrong."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.emulator.plan.action import HostNames, keys_of
from kemu.emulator.plan.actions import (
    ACTIONS,
    AddMembers,
    CloseHost,
    Crash,
    CreateTopic,
    ElectPreferredLeaders,
    ErrorReply,
    ExpiredSession,
    FailedLogDir,
    FrozenSession,
    Heal,
    Isolate,
    LateWatches,
    LostStoreAnswer,
    MoveCoordinator,
    Split,
    StoreElection,
)
from kemu.emulator.plan.entries import At, Entry, Noted, Receives, Sends, When, entry_to_dict, plan_to_dicts
from kemu.emulator.plan.known import Known
from kemu.emulator.plan.words import describe_entry
from kemu.emulator.text.tables import ScenarioError
from kemu.protocol.errors import ErrorCode
from tests.emulator.plan.plain import plan_from_dicts
from tests.emulator.plan.test_faults import actions

KNOWN = Known(
    brokers=("b0", "b1"),
    members=("c1", "c2", "c3"),
    producers=("p1",),
    groups=("g",),
    topics=(("orders", 6),),
)
REPLICATED = attrs.evolve(
    KNOWN,
    replicated=True,
    producers=("p1", "p2"),
    subscribed=("orders",),
    topics=(("orders", 6), ("spare", 2)),
    log_dirs=(("b0", 3), ("b1", 1)),
)
"""The same where brokers replicate, and a topic that no group reads."""
HOSTS = st.sampled_from(["", "c1", "b1", "leader of g", "coordinator of g"])
US = st.integers(0, 10**12)
TRIGGERS = st.one_of(
    *(
        st.builds(
            cls,
            api=st.sampled_from(["SyncGroup", "JoinGroupReply"]),
            by=HOSTS,
            to=HOSTS,
            nth=st.integers(1, 9),
            generation=st.none() | st.integers(-1, 9),
        )
        for cls in (Sends, Receives)
    ),
    st.builds(
        Noted,
        note=st.just("GroupBecame"),
        nth=st.integers(1, 9),
        fields=st.sampled_from([(), (("new", "Stable"),), (("group", "g"), ("generation", 3))]),
    ),
)


def problems_of(*rows: dict[str, object], known: Known = KNOWN) -> list[str]:
    """What is wrong with a plan, as "key: text"."""
    with pytest.raises(ScenarioError) as caught:
        plan_from_dicts(rows, known)
    return str(caught.value).splitlines()


@given(
    st.lists(
        st.one_of(
            st.builds(At, at_us=US, action=st.just(Heal())), st.builds(When, TRIGGERS, st.just(Heal()), after_us=US)
        )
    )
)
def test_times_and_triggers_survive_the_plain_form(plan: list[Entry]) -> None:
    """The header of a trace holds the plan in this form; a run is repeated from it."""
    assert plan_from_dicts(plan_to_dicts(tuple(plan)), KNOWN) == tuple(plan)


@given(actions())
def test_an_action_that_reads_back_at_all_reads_back_equal(action: object) -> None:
    """Generated values may be no valid plan (an unknown group); then reading refuses, and never gives another value."""
    row = entry_to_dict(At(0, action))  # type: ignore[arg-type]
    for known in (KNOWN, REPLICATED):
        try:
            (entry,) = plan_from_dicts([row], known)
        except ScenarioError:
            continue
        assert entry == At(0, action)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ACTIONS)
def test_every_kind_can_be_written_and_read(kind: str) -> None:
    """No action is out of a scenario's reach."""
    samples: dict[str, object] = {
        "host": "b0", "for": "5s", "side": ["c1"], "ppm": 100, "records": 2, "add": "5ms", "per_mille": 10, "a": "c1",
        "b": "b0", "api": "SyncGroup", "error": "REBALANCE_IN_PROGRESS", "group": "g", "every": "5s", "down": "1s",
        "topic": "orders", "partitions": 8, "rate": "5/s", "settings": ["max.poll.records=5"],
        "to": "earliest", "key": "min.insync.replicas", "topics": ["orders"],
        "callback": "onPartitionsLost", "partition": 1, "offset": 3, "before": 9, "speed": "5MB/s",
        "profile": "kafka-3.9",
        "order": 1, "within": "1s", "by": "2s", "count": 2,
    }  # fmt: skip
    if kind in ("create-topic", "delete-topic"):
        samples["topic"] = "new" if kind == "create-topic" else "spare"
    if kind == "reassign-partitions":
        samples["to"] = ["0"]
    if kind in ("pause-partitions", "resume-partitions"):
        samples["partitions"] = ["orders-0"]
    if any(key.accepts == HostNames("member") for key in keys_of(ACTIONS[kind].cls)):
        samples["host"] = "c1"
    known = REPLICATED if ACTIONS[kind].replicated or kind == "alter-configs" else KNOWN
    row: dict[str, object] = {"at": "10s", "do": kind}
    if kind == "scale-down":
        row["to"] = "80%"
        known = attrs.evolve(known, streams=("g",))
    if kind == "keep-instance":
        known = attrs.evolve(known, streams=("g",), in_groups=(("c1", "g"),))
    for _ in samples:
        try:
            (entry,) = plan_from_dicts([row], known)
            break
        except ScenarioError as error:
            # Add what is said to be missing, as a user would.
            for problem in error.problems:
                assert "is missing" in problem.text, problem
                row[str(problem.path[-1])] = samples[str(problem.path[-1])]
    assert isinstance(entry.action, ACTIONS[kind].cls)
    assert plan_from_dicts(plan_to_dicts((entry,)), known) == (entry,)


def test_the_plain_form_reads_like_a_sentence() -> None:
    """Defaults are left out; durations and errors are written as people write them."""
    plan = (
        At(30_000_000, Crash(host="b0", for_us=20_000_000)),
        When(Sends(api="SyncGroup", by="leader of g"), Crash(host="leader of g"), after_us=5_000),
        When(Receives(api="JoinGroupReply", by="c1", to="b0", generation=2), Isolate(host="c1")),
        When(
            Noted(note="RequestRefused", nth=2, fields=(("error", "ILLEGAL_GENERATION"),)),
            ErrorReply(api="Heartbeat", error=ErrorCode.UNKNOWN_MEMBER_ID),
        ),
    )

    rows = plan_to_dicts(plan)

    assert rows == [
        {"at": "30s", "do": "crash", "host": "b0", "for": "20s"},
        {"when": {"sends": "SyncGroup", "by": "leader of g"}, "after": "5ms", "do": "crash", "host": "leader of g"},
        {
            "when": {"receives": "JoinGroupReply", "by": "c1", "from": "b0", "generation": 2},
            "do": "isolate",
            "host": "c1",
        },
        {
            "when": {"noted": "RequestRefused", "error": "ILLEGAL_GENERATION", "nth": 2},
            "do": "error-reply",
            "api": "Heartbeat",
            "error": "UNKNOWN_MEMBER_ID",
        },
    ]
    assert plan_from_dicts(rows, KNOWN) == plan


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (At(90_000_000, Heal()), "at 1m30s: heal"),
        (
            When(Sends(api="JoinGroup", by="c2", generation=5), Crash(host="coordinator of g"), after_us=1_000),
            "when c2 sends JoinGroup of generation 5, 1ms later: crash coordinator of g (power)",
        ),
        (
            When(Receives(api="SyncGroup", to="c1", nth=3), Heal()),
            "when anyone receives SyncGroup from c1 (time 3): heal",
        ),
        (When(Noted(note="Healed"), Heal()), "when Healed(): heal"),
    ],
)
def test_an_entry_is_told_in_words(entry: Entry, words: str) -> None:
    """What reports print for each line of a plan."""
    assert describe_entry(entry) == words


def test_members_that_the_plan_adds_may_be_named_by_it() -> None:
    """c4 is there once add-members was done."""
    rows = [{"at": "1s", "do": "add-members", "group": "g"}, {"at": "9s", "do": "close-host", "host": "c4"}]

    assert plan_from_dicts(rows, KNOWN) == (
        At(1_000_000, AddMembers(group="g")),
        At(9_000_000, CloseHost(host="c4")),
    )
    assert "is no host" in problems_of(rows[1])[0]


def test_topics_that_the_plan_creates_may_be_named_by_it_with_their_producers() -> None:
    """p3 appends to the third topic; its partitions have leaders."""
    rows = [
        {"at": "1s", "do": "create-topic", "topic": "new", "partitions": 2, "rate": "5/s"},
        {"at": "2s", "do": "grow-topic", "topic": "new", "partitions": 3},
        {"at": "3s", "do": "set-rate", "topic": "new", "rate": "9/s"},
        {"at": "4s", "do": "pause", "host": "p3", "for": "1s"},
        {"at": "5s", "do": "crash", "host": "partition leader of new-1"},
        {"at": "6s", "do": "elect-preferred-leaders", "topics": ["new", "__consumer_offsets"]},
        {"at": "7s", "do": "delete-topic", "topic": "new"},
        {"at": "8s", "do": "create-topic", "topic": "new"},
    ]

    plan = plan_from_dicts(rows, REPLICATED)

    assert plan[0] == At(1_000_000, CreateTopic(topic="new", partitions=2, records_per_s=5))
    assert plan[5] == At(6_000_000, ElectPreferredLeaders(topics=("new", "__consumer_offsets")))
    assert plan_from_dicts(plan_to_dicts(plan), REPLICATED) == plan
    assert len(problems_of(*rows[1:6], known=REPLICATED)) == 5


def test_faults_of_the_store_are_written_like_all_others() -> None:
    """Their fields, their defaults."""
    rows = [
        {"at": "1s", "do": "lose-store-answer", "host": "b0"},
        {"at": "2s", "do": "lose-store-answer", "host": "controller", "part": "controller", "nth": 3, "applied": False},
        {"at": "3s", "do": "freeze-session", "host": "controller", "for": "15s"},
        {"at": "4s", "do": "delay-watches", "host": "b1"},
        {"at": "5s", "do": "expire-session", "host": "partition leader of orders-0", "linger": "5s"},
        {"at": "6s", "do": "elect-store-leader"},
        {"at": "7s", "do": "elect-store-leader", "for": "3s"},
        {"at": "8s", "do": "crash", "host": "zk", "for": "40s"},
        {"at": "9s", "do": "fail-log-dir", "host": "b1"},
        {"at": "10s", "do": "fail-log-dir", "host": "b0", "log_dir": 2, "for": "30s"},
    ]

    plan = plan_from_dicts(rows, REPLICATED)

    assert [entry.action for entry in plan] == [
        LostStoreAnswer(host="b0"),
        LostStoreAnswer(host="controller", part="controller", nth=3, applied=False),
        FrozenSession(host="controller", for_us=15_000_000),
        LateWatches(host="b1"),
        ExpiredSession(host="partition leader of orders-0", linger_us=5_000_000),
        StoreElection(),
        StoreElection(for_us=3_000_000),
        Crash(host="zk", for_us=40_000_000),
        FailedLogDir(host="b1"),
        FailedLogDir(host="b0", log_dir=2, for_us=30_000_000),
    ]
    assert plan_to_dicts(plan) == rows


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"do": "move-coordinator", "group": "g"},
            'plan[0].do: "move-coordinator" does not go with [brokers.replication]; write "elect-preferred-leaders", '
            '"kill-coordinator", or "close-host" with host = "coordinator of GROUP"',
        ),
        ({"do": "freeze-session", "host": "c1"}, 'plan[0].host: "c1" is no broker; '),
        ({"do": "freeze-session", "host": "leader of g"}, 'plan[0].host: must be a broker; "leader of g" is a member'),
        ({"do": "freeze-session", "host": ""}, "plan[0].host: must name a host"),
        (
            {"do": "lose-store-answer", "host": "b0", "part": "coordinator"},
            'plan[0].part: "coordinator" is no value of "part"; ',
        ),
        (
            {"do": "lose-store-answer", "host": "b0", "nth": 0},
            "plan[0].nth: must be at least 1 and at most 10000000, not 0",
        ),
        (
            {"do": "restart", "host": "zk", "keep_disk": False},
            'plan[0].keep_disk: the disks of "zk" hold the cluster: it starts again with them only',
        ),
        (
            {"do": "fail-log-dir", "host": "b1", "log_dir": 1},
            "plan[0].log_dir: b1 has 1, counted from 0: see log_dirs of [brokers]",
        ),
        (
            {"do": "fail-log-dir", "host": "controller", "log_dir": 3},
            "plan[0].log_dir: a broker has 3, counted from 0: see log_dirs of [brokers]",
        ),
        ({"do": "fail-log-dir", "host": "b1", "log_dir": -1}, "plan[0].log_dir: "),
        ({"do": "fail-log-dir", "host": "c1"}, "plan[0].host: "),
        ({"do": "close-host", "host": "zk"}, 'plan[0].host: "zk" is not closed while brokers use it; "crash" takes it'),
        ({"do": "create-topic", "topic": "spare"}, 'plan[0].topic: "spare" is there already; "delete-topic" must come'),
        ({"do": "create-topic", "topic": "__consumer_offsets"}, "plan[0].topic: is there from the start"),
        ({"do": "create-topic", "topic": "a b"}, "plan[0].topic: must be 1 to 249 letters, digits, dots, underscores"),
        (
            {"do": "create-topic", "topic": "new", "replication_factor": 3},
            "plan[0].replication_factor: must not be more than there are brokers (2)",
        ),
        (
            {"do": "create-topic", "topic": "new", "partitions": 0},
            "plan[0].partitions: must be at least 1 and at most 10000000, not 0",
        ),
        (
            {"do": "delete-topic", "topic": "orders"},
            'plan[0].topic: "orders" has groups that subscribe to it; delete one that no group reads',
        ),
        ({"do": "delete-topic", "topic": "spar"}, 'plan[0].topic: "spar" is no topic; did you mean "spare"?'),
        (
            {"do": "elect-preferred-leaders", "topics": ["spar"]},
            'plan[0].topics: "spar" is no topic; did you mean "spare"?',
        ),
    ],
)
def test_what_replication_allows_is_checked_too(row: dict[str, object], message: str) -> None:
    """One clear message for one mistake, as everywhere."""
    (problem,) = problems_of({"at": "1s", **row}, known=REPLICATED)

    assert problem.startswith(message)


@pytest.mark.parametrize("kind", [kind for kind, row in ACTIONS.items() if row.replicated])
def test_what_needs_replication_is_refused_without_it(kind: str) -> None:
    """The message says what to add."""
    row: dict[str, object] = {"at": "1s", "do": kind}
    samples = {
        "before": 1,
        "topic": "new" if kind == "create-topic" else "orders",
        "host": "b0",
        "key": "min.insync.replicas",
    }
    row |= {key.key: samples[key.key] for key in keys_of(ACTIONS[kind].cls) if key.required}

    assert problems_of(row) == [f'plan[0].do: "{kind}" needs brokers that replicate: add [brokers.replication]']


def test_a_topic_is_created_twice_only_if_it_is_deleted_between() -> None:
    """Each creation is told of."""
    twice = [{"at": f"{second}s", "do": "create-topic", "topic": "new"} for second in (1, 2)]

    assert problems_of(*twice, known=REPLICATED) == [
        f'plan[{index}].topic: "new" is there already; "delete-topic" must come first' for index in (0, 1)
    ]


def test_notes_of_the_control_plane_trigger_too() -> None:
    """And its messages."""
    rows = [
        {"when": {"noted": "BecameController", "broker_id": 1}, "do": "heal"},
        {"when": {"sends": "LeaderAndIsr", "by": "controller"}, "do": "heal"},
        {"when": {"receives": "StoreOps", "by": "zk", "from": "b0"}, "do": "heal"},
    ]

    assert plan_to_dicts(plan_from_dicts(rows, REPLICATED)) == rows


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"do": "heal"}, 'plan[0]: needs either "at" (a time) or "when" (a trigger)'),
        ({"at": "1s", "do": "crsh", "host": "b0"}, 'plan[0].do: "crsh" is no action; did you mean "crash"?'),
        ({"at": "1s", "do": "crash"}, "plan[0].host: is missing; a string is required"),
        ({"at": "1s", "do": "crash", "host": "b0", "fro": "1s"}, 'plan[0].fro: is no key here; did you mean "for"?'),
        ({"at": "1s", "do": "crash", "host": "leader of h"}, 'plan[0].host: "h" is no group; known: g'),
        ({"at": "1s", "do": "crash", "host": ""}, "plan[0].host: must name a host"),
        (
            {"at": "1s", "do": "lose-disk-tail", "host": "leader of g", "records": 1},
            'plan[0].host: must be a broker; "leader of g" is a member',
        ),
        (
            {"at": "1s", "do": "crash", "host": "b0", "mode": "powr"},
            'plan[0].mode: "powr" is no value of "mode"; did you mean "power"?',
        ),
        ({"at": 5, "do": "heal"}, 'plan[0].at: must be a duration such as "250ms" or "20s", not a number (5)'),
        ({"at": "1s", "after": "1s", "do": "heal"}, 'plan[0].after: goes with "when" only'),
        (
            {"when": {"sends": "SyncGrup"}, "do": "heal"},
            'plan[0].when.sends: "SyncGrup" is no message; did you mean "SyncGroup"?',
        ),
        (
            {"when": {"noted": "GroupBecame", "nw": "Stable"}, "do": "heal"},
            'plan[0].when.nw: is no field of GroupBecame; did you mean "new"?',
        ),
        ({"when": {}, "do": "heal"}, 'plan[0].when: needs one of "sends", "receives" (an API) or "noted" (a note)'),
        (
            {"at": "1s", "do": "grow-topic", "topic": "orders", "partitions": 6},
            "plan[0].partitions: must be more than orders has (6)",
        ),
        (
            {"at": "1s", "do": "split", "side": ["c1", "c2"], "other": ["c2"]},
            "plan[0].other: has hosts of the other side too: c2",
        ),
        ({"at": "1s", "do": "split", "side": []}, "plan[0].side: must name at least one host"),
        ({"at": "1s", "do": "disconnect", "a": "c1", "b": "c1"}, "plan[0].b: must be another host"),
        ({"at": "1s", "do": "pause", "host": "c1", "for": "0s"}, "plan[0].for: must be longer than nothing"),
        (
            {"at": "1s", "do": "lossy", "per_mille": 2000},
            "plan[0].per_mille: must be at least 0 and at most 1000, not 2000",
        ),
    ],
)
def test_a_mistake_is_named_with_its_key_and_what_would_do(row: dict[str, object], message: str) -> None:
    """One clear message for one mistake."""
    assert problems_of(row) == [message]


def test_all_mistakes_of_a_plan_are_told_at_once() -> None:
    """Nobody wants to run it once per mistake."""
    assert len(problems_of({"at": "x", "do": "heal"}, {"at": "1s", "do": "crash", "host": "b7", "mode": "off"})) == 3


def test_values_are_what_the_world_applies() -> None:
    """Times are microseconds inside."""
    (entry,) = plan_from_dicts([{"at": "1.5s", "do": "split", "side": "c1, c2", "for": "250ms"}], KNOWN)

    assert entry == At(1_500_000, Split(side=("c1", "c2"), for_us=250_000))
    assert plan_from_dicts([{"at": "0s", "do": "move-coordinator", "group": "g", "to": "b1"}], KNOWN) == (
        At(0, MoveCoordinator(group="g", to="b1")),
    )
