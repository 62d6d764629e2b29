"""KIP-333's decisions: every script of parallel_consumer.json, and any script against the promises."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kemu.protocol.catch_up import (
    CommitLogs,
    CommitPrimary,
    CommitSecondary,
    LogWrite,
    OffsetRange,
    OpenRange,
    Route,
    recover,
    route_commit,
)
from tests.case_files import load

VECTORS = load("parallel_consumer.json")["vectors"]


class Delivery(NamedTuple):
    """The result of the secondary's poll: ranges of offsets in order, its next position, and records lost to
    retention.
    """

    ranges: tuple[OffsetRange, ...]
    position: int
    lost: int


def deliver(
    tokens: Sequence[OffsetRange], position: int, most: int, log_start: int, log_end: int | None = None
) -> Delivery:
    """Work off ranges from the secondary's position, oldest first, across their ends.

    Args:
        tokens: all ranges of the partition.
        position: the secondary's own; 0 if it has delivered nothing.
        most: how many offsets at the most; a batch is cut at a range's end, what follows is the primary's.
        log_start: what lies below it was deleted by retention: passed over, and counted as lost.
        log_end: nothing is read beyond it (None: not known to be short).
    """
    found: list[OffsetRange] = []
    lost = 0
    for token in tokens:
        if token.end <= position or most <= 0:
            continue
        begin = max(position, token.start)
        start = min(max(begin, log_start), token.end)
        lost += start - begin
        end = min(start + most, token.end if log_end is None else max(start, min(token.end, log_end)))
        if end > start:
            found.append(OffsetRange(start, end))
            most -= end - start
        position = end
        if end < token.end:
            break
    return Delivery(tuple(found), position, lost)


class Paper:
    """One partition of a group with the mode on, without time or messages."""

    def __init__(self, log_end: int, p_commit: int | None) -> None:
        self.log_start, self.log_end = 0, log_end
        self.logs = CommitLogs(primary=p_commit)
        self.p_log = [] if p_commit is None else [p_commit]
        self.s_log: list[list[Any]] = []
        self.delivered: list[list[Any]] = []
        self.lost = self.rejected = self.threads = self.generation = 0
        self.primary: int | None = None
        self.secondary: int | None = None
        self.alive = self.paused = False

    def write(self, *writes: LogWrite) -> None:
        for each in writes:
            self.logs = self.logs.after(each)
            if isinstance(each, OpenRange):
                self.s_log.append(["token", *each.range])
            elif isinstance(each, CommitSecondary):
                self.s_log.append(["commit", each.offset])
            else:
                self.p_log.append(each.offset)

    # --- events --------------------------------------------------------------------------------------------------

    def start(self, fail_after: str = "", member: str = "A") -> None:
        self.generation += 1
        found = recover(self.logs, self.log_end)
        if found is None:
            self.primary = self.log_end
            return
        if fail_after == "read_end":
            return
        self.write(*found.writes[: 1 if fail_after == "token" else None])
        if fail_after == "token":
            return
        self.primary = found.position
        if self.logs.open_ranges:
            self._start_secondary()

    def _start_secondary(self) -> None:
        if not self.alive:
            self.alive = True
            self.threads += 1
            self.secondary = None
        if self.secondary is None:
            self.secondary = self.logs.open_ranges[0].start

    def append(self, to: int) -> None:
        self.log_end = to

    def trim(self, to: int) -> None:
        self.log_start = to

    def poll(self, who: str, n: int) -> int:
        if self.paused or self.primary is None:
            return 0
        if who == "primary":
            start, self.primary = self.primary, min(self.primary + n, self.log_end)
            if self.primary > start:
                self.delivered.append(["P", start, self.primary])
            return self.primary - start
        if not self.alive:
            return 0
        found = deliver(self.logs.tokens, self.secondary or 0, n, self.log_start)
        self.secondary, self.lost = found.position, self.lost + found.lost
        self.delivered += [["S", *each] for each in found.ranges]
        return sum(each.end - each.start for each in found.ranges)

    def commit(self, who: str, gen: int | None = None) -> bool:
        if (gen is not None and gen != self.generation) or self.primary is None:
            self.rejected += 1
            return False
        if who != "secondary" and (self.logs.primary is None or self.primary > self.logs.primary):
            self.write(CommitPrimary(self.primary))
        still = self.logs.open_ranges
        if who != "primary" and still and self.secondary is not None and self.secondary > still[0].start:
            self.write(CommitSecondary(self.secondary))
        return True

    def commit_sync(self, o: int) -> str:
        assert self.primary is not None
        route = route_commit(self.logs, o, self.primary, self.secondary or 0)
        if route is Route.PRIMARY:
            self.write(CommitPrimary(o))
        elif route is Route.SECONDARY:
            self.write(CommitSecondary(o))
        self.rejected += route is Route.REFUSED
        return route.value

    def crash(self, who: str) -> None:
        if who != "secondary":
            self.primary = None
        if who != "primary":
            self.alive, self.secondary = False, None

    def recover_secondary(self) -> None:
        self._start_secondary()

    def lose(self, clean: bool) -> None:
        if clean:
            self.commit("both")
        self.crash("both")

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def state(self) -> dict[str, Any]:
        return {
            "position": self.primary,
            "committed": self.logs.committed,
            "pending": [list(each) for each in self.logs.open_ranges],
            "child_alive": self.alive,
            "p_log": self.p_log,
            "s_log": self.s_log,
            "delivered": self.delivered,
            "lost": self.lost,
            "rejected": self.rejected,
            "threads_created": self.threads,
        }


@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["name"]) for vector in VECTORS])
def test_a_script_comes_out_state_by_state(vector: dict[str, Any]) -> None:
    """KIP-333's timelines (70/100/120, then 140/170/190) and the cases around them."""
    paper = Paper(**vector["init"])
    for number, event in enumerate(vector["script"]):
        result = getattr(paper, event["event"])(**event["args"])
        expected = dict(event["expect"])
        wanted = expected.pop("result", result)
        assert result == wanted, f"{number}: {event}"
        state = paper.state()
        assert {key: state[key] for key in expected} == expected, f"{number}: {event}"
    state = paper.state()
    assert {key: state[key] for key in vector["final"]} == vector["final"]


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 30)),
        st.tuples(st.just("poll"), st.tuples(st.sampled_from(["primary", "secondary"]), st.integers(1, 40))),
        st.tuples(st.just("commit"), st.sampled_from(["primary", "secondary", "both"])),
        st.tuples(st.just("crash"), st.sampled_from(["primary", "secondary", "both"])),
        st.tuples(st.just("start"), st.sampled_from(["", "", "read_end", "token"])),
        st.tuples(st.just("recover"), st.none()),
        st.tuples(st.just("commit_sync"), st.integers(0, 200)),
        st.tuples(st.just("lose"), st.booleans()),
    ),
    max_size=40,
)


@given(EVENTS)
def test_any_script_is_at_least_once_with_disjoint_ranges_and_rising_commits(events: list[tuple[str, Any]]) -> None:
    """J1-J6 and J8: tokens disjoint, commits rise, committed() never passes what was not delivered."""
    paper = Paper(0, 0)
    paper.start()
    committed = 0
    for name, what in events:
        match name:
            case "append":
                paper.append(paper.log_end + what)
            case "poll":
                paper.poll(*what)
            case "commit":
                paper.commit(what)
            case "crash":
                paper.crash(what)
            case "start" if paper.primary is None:
                paper.start(fail_after=what)
            case "recover" if paper.primary is not None and not paper.alive and paper.logs.open_ranges:
                paper.recover_secondary()
            case "commit_sync" if paper.primary is not None:
                paper.commit_sync(what)
            case "lose" if paper.primary is not None:
                paper.lose(what)
        now = paper.logs.committed
        assert now is not None
        assert now >= committed, "committed() never goes back"
        committed = now
        assert delivered_below(paper, committed), (committed, paper.delivered)
        if paper.primary is not None and paper.logs.last_end is not None:
            assert paper.primary >= paper.logs.last_end
    if paper.primary is None:
        paper.start()
    if paper.logs.open_ranges:
        paper.recover_secondary()
    paper.poll("primary", 10_000)
    paper.poll("secondary", 10_000)
    paper.commit("both")

    assert delivered_below(paper, paper.log_end), "at least once"
    assert paper.logs.committed == paper.log_end


def delivered_below(paper: Paper, offset: int) -> bool:
    return set(range(offset)) <= {each for _, start, end in paper.delivered for each in range(start, end)}


def test_what_retention_took_is_lost_and_said() -> None:
    """The start of a range below the log's start: jump, count, continue; a range without any records is closed."""
    tokens = [OffsetRange(10, 20), OffsetRange(30, 40)]

    assert deliver(tokens, 0, 100, log_start=15) == ((OffsetRange(15, 20), OffsetRange(30, 40)), 40, 5)
    assert deliver(tokens, 0, 100, log_start=35) == ((OffsetRange(35, 40),), 40, 15)
    assert deliver(tokens, 0, 3, log_start=0) == ((OffsetRange(10, 13),), 13, 0)


def test_an_unclean_election_clips_the_ranges() -> None:
    logs = CommitLogs(primary=40, tokens=(OffsetRange(10, 20), OffsetRange(30, 40)))

    assert logs.clipped(35).tokens == (OffsetRange(10, 20), OffsetRange(30, 35))
    assert logs.clipped(25).tokens == (OffsetRange(10, 20),)
