"""Applications of the caller's own, in whole clusters under faults: their loop, not the configured one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import kemu

REDO_AFTER_US = 500_000
At = tuple[str, int]


class Redoing:
    """Every fifth part fails: it is paused, sought back to, and done half a second later; then all is committed."""

    def __init__(self, config: kemu.ConsumerConfig) -> None:
        self.config = config
        self.calls: kemu.Calls
        self.part: kemu.Returned | None = None
        self.left: list[kemu.Returned] = []
        self.parts = self.redone = self.commits = 0
        self.started_us = 0

    def started(self, calls: kemu.Calls) -> None:
        self.calls = calls
        calls.poll(timeout_us=REDO_AFTER_US)

    def polled(self, records: Sequence[kemu.Returned]) -> None:
        if not records and self.calls.paused():
            self.calls.resume(self.calls.paused())
        self.left = list(records)
        self.next()

    def next(self) -> None:
        if not self.left:
            self.commits += 1
            self.calls.commit_sync()
            return
        self.part = self.left.pop(0)
        self.parts += 1
        if self.parts % 5 == 0:
            self.redone += 1
            self.calls.pause((self.part.at,))
            self.calls.seek(self.part.at, self.part.first)
            self.next()
        else:
            self.started_us = self.calls.now_us
            self.calls.work(1_000)

    def worked(self) -> None:
        if self.part is not None:
            self.calls.processed(self.part, self.started_us)
            self.part = None
        self.next()

    def committed(self) -> None:
        self.calls.poll(timeout_us=REDO_AFTER_US)

    def poll_raised(self, why: str) -> None:
        self.calls.poll(timeout_us=REDO_AFTER_US)


class Made:
    """Makes them, and keeps all it made."""

    def __init__(self) -> None:
        self.lives: list[Redoing] = []

    def __call__(self, config: kemu.ConsumerConfig) -> kemu.Application:
        self.lives.append(Redoing(config))
        return self.lives[-1]


SCENARIO = kemu.Scenario(
    draws="calm",
    name="a loop of its own",
    duration_us="40s",
    topics={"orders": kemu.TopicSpec(partitions=6, records_per_s=60)},
    groups={
        "billing": kemu.GroupSpec(
            topics="orders", members=3, config={"session.timeout.ms": 10_000, "enable.auto.commit": False}
        )
    },
    plan=(
        kemu.At("10s", kemu.Disconnect(a="c1", b="b0")),
        kemu.At("15s", kemu.Crash(host="c1", for_us="5s")),
    ),
)


def test_an_application_of_ones_own_is_run_under_faults() -> None:
    """KafkaConsumer's calls, made by the caller's loop: each life of the member has an application of its own."""
    made = Made()

    outcome = kemu.run(SCENARIO, seed=4, applications={"c1": made})

    assert outcome.verdict == "holds", outcome.violations
    assert len(made.lives) == 2, "one per life: it crashed once"
    assert all(life.redone and life.commits for life in made.lives)
    assert made.lives[0].config.group_id == "billing"
    assert outcome.digest != kemu.run(SCENARIO, seed=4).digest, "the others poll as configured"
    assert outcome.digest == kemu.run(SCENARIO, seed=4, applications={"c1": Made()}).digest


def test_the_usual_loop_is_an_application_like_any_other() -> None:
    """``PollLoop`` given by hand changes nothing."""
    outcome = kemu.run(SCENARIO, seed=4, applications={"c1": kemu.PollLoop})

    assert outcome.digest == kemu.run(SCENARIO, seed=4).digest


def test_a_replay_needs_the_same_applications(tmp_path: Path) -> None:
    """Code is not in a trace: without it the replay is refused, not wrong."""
    path = tmp_path / "run.kemu"
    kemu.run(SCENARIO, seed=4, trace=path, applications={"c1": Made()})

    with pytest.raises(kemu.TraceError, match=r"recorded with applications of its caller's for these members: c1\."):
        kemu.replay(path)
    with pytest.raises(kemu.TraceError, match=r"kemu\.replay\(trace, applications=\.\.\.\)"):
        kemu.replay(path, applications={"c2": Made()})
    assert kemu.replay(path, applications={"c1": Made()}).difference is None


def test_a_replay_needs_the_same_listeners(tmp_path: Path) -> None:
    """Likewise."""

    class Slow:
        def on_revoked(self, partitions: tuple[tuple[str, int], ...]) -> kemu.Took:
            return kemu.Took(2_000_000)

        on_lost = on_assigned = on_revoked

    path = tmp_path / "run.kemu"
    kemu.run(SCENARIO, seed=4, trace=path, listeners={"c1": Slow()})

    with pytest.raises(kemu.TraceError, match="recorded with listeners of its caller's"):
        kemu.replay(path)
    assert kemu.replay(path, listeners={"c1": Slow()}).difference is None


def test_an_application_for_a_member_that_is_none_is_refused() -> None:
    """As for listeners."""
    with pytest.raises(kemu.ScenarioError, match=r'applications\.c9: "c9" is no member'):
        kemu.run(SCENARIO, applications={"c9": kemu.PollLoop})


class Asynchronous:
    """Commits asynchronously after each poll with records, and after each fifth asks the cluster how far all is."""

    def __init__(self, config: kemu.ConsumerConfig) -> None:
        self.calls: kemu.Calls
        self.asked: list[int] = []
        self.answered: list[tuple[int, bool]] = []
        self.claims: dict[int, dict[At, int]] = {}
        """What each commit said."""
        self.looks: list[dict[str, dict[At, int | None]]] = []
        self.due: dict[At, int] = {}
        """Of the last commit that went through."""

    def started(self, calls: kemu.Calls) -> None:
        self.calls = calls
        calls.poll()

    def polled(self, records: Sequence[kemu.Returned]) -> None:
        for part in records:
            self.calls.processed(part, self.calls.now_us)
        number = len(self.asked)
        self.asked.append(number)
        owned = self.calls.assignment()
        positions = {at: position for at in owned if (position := self.calls.position(at)) is not None}
        self.claims[number] = positions
        self.calls.commit_async(then=lambda committed: self.told(number, committed))
        if number % 5 == 4:
            self.look: dict[str, dict[At, int | None]] = {"due": {at: self.due.get(at) for at in owned}}
            self.calls.committed(owned, self.committed_offsets)
        else:
            self.calls.poll()

    def told(self, number: int, committed: bool) -> None:
        self.answered.append((number, committed))
        if committed:
            self.due = {**self.due, **self.claims[number]}

    def committed_offsets(self, answers: Mapping[At, int | None]) -> None:
        self.look["committed"] = dict(answers)
        self.calls.beginning_offsets(tuple(answers), self.beginning)

    def beginning(self, answers: Mapping[At, int | None]) -> None:
        self.look["beginning"] = dict(answers)
        self.calls.end_offsets(tuple(answers), self.end)

    def end(self, answers: Mapping[At, int | None]) -> None:
        self.look["end"] = dict(answers)
        self.looks.append(self.look)
        self.calls.poll()

    def worked(self) -> None:
        raise AssertionError("it does not work")

    def committed(self) -> None:
        raise AssertionError("it does not commit synchronously")

    def poll_raised(self, why: str) -> None:
        raise AssertionError(why)


@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize("parallel", [False, True])
def test_what_the_calls_of_an_application_answer_fits_together_while_brokers_fail(
    replicated: bool, parallel: bool
) -> None:
    """KafkaConsumer.commitAsync, committed, beginningOffsets, endOffsets, while their brokers move, refuse and break.

    Each callback is called once and in order; what went through is never behind what committed() answers; no offset
    is outside its log; deleted records move the beginning. In KIP-333's mode committed() is the page's.
    """
    lives: list[Asynchronous] = []

    def make(config: kemu.ConsumerConfig) -> kemu.Application:
        lives.append(Asynchronous(config))
        return lives[-1]

    question = "RangeFetch" if parallel else "OffsetFetch"
    config = {"enable.auto.commit": False, "session.timeout.ms": 10_000, "enable.parallel.rebalance": parallel}
    scenario = kemu.Scenario(
        draws="calm",
        name="asynchronous",
        duration_us="40s",
        brokers=kemu.BrokersSpec(
            count=3, replication=kemu.ReplicationSpec(factor=3, session_us="4s") if replicated else None
        ),
        producers={"emulated.batch.interval.ms": 200},
        topics={"orders": kemu.TopicSpec(partitions=2, records_per_s=20)},
        groups={"billing": kemu.GroupSpec(topics="orders", members=1, static=True, config=config)},
        plan=(
            kemu.At("8s", kemu.ErrorReply(api="OffsetCommit", sender="c1", error=kemu.ErrorCode.NOT_COORDINATOR)),
            kemu.At("10s", kemu.ErrorReply(api=question, sender="c1", error=kemu.ErrorCode.NOT_COORDINATOR)),
            kemu.At("13s", kemu.Crash(host="c1", for_us="3s")),
            kemu.At("22s", kemu.KillCoordinator(group="billing", for_us="5s")),
            kemu.At("32s", kemu.Disconnect(a="c1", b="b0")),
            kemu.At("33s", kemu.Disconnect(a="c1", b="b1")),
            *([kemu.At("34s", kemu.RecordsDeletion(topic="orders", before=100))] if replicated else []),
        ),
    )

    outcome = kemu.run(scenario, seed=3, applications={"c1": make})

    assert outcome.verdict == "holds", outcome.violations
    assert len(lives) == 2
    failed = 0
    begun: dict[At, int] = defaultdict(int)
    for life in lives:
        assert [number for number, _ in life.answered] == life.asked[: len(life.answered)]
        assert len(life.asked) - len(life.answered) < 30, "all but the last ones"
        failed += sum(not committed for _, committed in life.answered)
        assert sum(committed for _, committed in life.answered) > 10
        assert len(life.looks) > 3
        for look in life.looks:
            for at, end in look["end"].items():
                beginning, committed, due = look["beginning"][at], look["committed"][at], look["due"][at]
                assert beginning is not None and end is not None
                assert begun[at] <= beginning <= end
                begun[at] = beginning
                assert committed is None or committed <= end
                if due is not None and not parallel:
                    assert committed is not None and due <= committed
    assert failed > 0, "some were refused, or lost"
    assert set(begun.values()) == {100 if replicated else 0}
