"""Run a reproduced scenario, and compare the run with the log: generations, answers, errors and callbacks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import evolve

from kemu.emulator.runner import run
from kemu.emulator.trace.traces import read_trace
from kemu.protocol.frozen import frozen
from kemu.tools.diagnosis.reproduce import FOLLOWS, unmasked
from kemu.tools.diagnosis.reproduction import Reproduction
from kemu.tools.incident.from_trace import events_of_trace
from kemu.tools.incident.incident import SECOND, Incident, apart_us
from kemu.tools.incident.timeline import StatedGeneration
from kemu.tools.incident.words import FENCED, OLD_GENERATION, REBALANCING, UNKNOWN_MEMBER, error_of
from kemu.tools.logs.events import Event


@frozen
class RowDifference:
    """A fact of one generation in which the scenario's run differs from the log."""

    generation: int
    field: str
    log: object
    run: object
    why: str = ""
    """The reason why a scenario cannot repeat the fact; "" without a known reason."""

    @property
    def text(self) -> str:
        """The difference in one line."""
        why = f" ({self.why})" if self.why else ""
        return f"generation {self.generation}: {self.field} {self.run} instead of {self.log}{why}"


TOOK = "seconds from begin to completion"
OWNERS = "owners"
GENERATION = "the generation"
SIZES = "partitions of each member"
COMPARED = ("cause", "member", "members", "empty", OWNERS, SIZES, TOOK)


def compare(
    found: Reproduction, log: Sequence[StatedGeneration], made_run: Incident, run_group: str
) -> tuple[int, list[RowDifference]]:
    """The number of facts of the log's generations that a run repeats, and the differences.

    Only facts that the log states are compared. A member is its host. Generations are aligned by cause and member, so
    a generation that is missing in the run counts once.
    """
    names = dict(found.names)
    made_names = {
        event.member: event.client
        for event in made_run.events
        if event.member and event.client and event.broker is None
    }
    joined = made_run.of("member-joins", group=run_group)
    hosts = {
        event.member: event.client for event in joined if event.member
    } | made_names  # a replaced id keeps a client
    wanted = [
        _facts(row, lambda member: names.get(unmasked(member)))
        for row in sorted((row for row in log if row.group == found.group), key=lambda row: row.generation)
        if row.generation >= found.first_generation
    ]
    offset = found.first_generation - 1
    rows = sorted((row for row in made_run.generations if row.group == run_group), key=lambda row: row.generation)
    first = wanted[0]["generation"] if wanted else 0
    made = [_facts(row, hosts.get) for row in rows if row.generation + offset >= first]
    equal, differences = 0, []
    for i1, i2, j1, j2 in _aligned(wanted, made):
        for at in range(max(i2 - i1, j2 - j1)):
            want = wanted[i1 + at] if i1 + at < i2 else None
            got = made[j1 + at] if j1 + at < j2 else None
            if want is None and got is not None:
                if i1 < len(wanted):  # after its last line, the log determines nothing
                    differences.append(RowDifference(got["generation"] + offset, "a generation", "none", _name(got)))
            elif want is not None and got is None:
                why = _why(found, GENERATION, want, {})
                differences.append(RowDifference(want["generation"], GENERATION, _name(want), "missing", why))
            elif want is not None and got is not None:
                fields = [field for field in COMPARED if field in want]
                apart = [field for field in fields if not _is_equal(field, want[field], got.get(field))]
                equal += 1 + len(fields) - len(apart)
                for each in apart:
                    said, made_it = want[each], got.get(each)
                    if each == OWNERS:
                        said, made_it = _owners_text(want[each], made_it), _owners_text(made_it, want[each])
                    why = _why(found, each, want, got)
                    differences.append(RowDifference(want["generation"], each, said, made_it, why))
    return equal, differences


def _owners_text(owners: Any, others: Any) -> str:
    """The partitions of the members that have other partitions in ``others``."""
    rows = [(host, names) for host, names in sorted((owners or {}).items()) if (others or {}).get(host) != names]
    return "; ".join(f"{host}: {' '.join(names) or 'none'}" for host, names in rows) or "none"


def _why(found: Reproduction, field: str, want: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    default = 5_000 if found.has_epochs else 3_000
    stated = (int(part.value) for part in found.parts if part.what.endswith("heartbeat.interval.ms"))
    beat = next(stated, default) / 1000
    rule = f"less than a heartbeat interval, {beat:g} s: members learn of a rebalance by a heartbeat"
    if field == TOOK and got.get(TOOK) is not None and abs(want[TOOK] - got[TOOK]) <= beat:
        return rule
    if found.has_epochs and field in ("members", SIZES, TOOK) and got and got.get(field) is None:
        return f"the next epoch came first: members learn of an epoch by a heartbeat, every {beat:g} s"
    if field == GENERATION and want.get(TOOK, beat) < beat:
        return f"its join phase took {want[TOOK]} s, {rule}"
    if field == "member" and want.get("cause") == got.get("cause"):
        return "several members act at once: chance decides which one is first"
    return ""


def _name(facts: Mapping[str, Any]) -> str:
    return f"one for {facts.get('cause') or 'a cause that is not stated'}"


def _is_equal(field: str, want: Any, got: Any) -> bool:
    """Whether two facts are equal; durations within 20 % or 100 ms; owners, if the log states them."""
    if field == OWNERS and got is not None:
        return all(got.get(host) == partitions for host, partitions in want.items())
    if field != TOOK or got is None:
        return bool(want == got)
    return bool(abs(want - got) <= max(0.1, 0.2 * want))


def _facts(row: StatedGeneration, host_of: Callable[[str], str | None]) -> dict[str, Any]:
    facts: dict[str, Any] = {"generation": row.generation}
    if row.cause is not None:
        facts["cause"] = "rejoin" if row.cause in FOLLOWS else row.cause
    if row.member is not None and row.cause not in FOLLOWS and (host := host_of(row.member)) is not None:
        facts["member"] = host
    if row.members is not None:
        facts["members"] = row.members
    if row.empty is not None:
        facts["empty"] = True
    owners = {host_of(member): tuple(sorted(names)) for member, names in (row.assigned or {}).items()}
    if owners and None not in owners:
        facts[OWNERS] = owners
    if row.is_epoch:
        if row.takes_us is not None:  # all members have their partitions; the ids of members decide which they are
            sizes = [len(event.partitions or ()) for event in row.reconciled_events.values()]
            facts |= {SIZES: sorted(sizes), TOOK: round(row.takes_us / SECOND, 3)}
        return facts
    begun = [event for event in row.events if event.kind == "rebalance-begins"]
    done = [event for event in row.events if event.kind == "rebalance-completes"]
    if begun and done and (us := apart_us(begun[0], done[0])) is not None:
        facts[TOOK] = round(us / SECOND, 3)
    return facts


def _aligned(wanted: Sequence[Mapping[str, Any]], made: Sequence[Mapping[str, Any]]) -> list[tuple[int, int, int, int]]:
    """Blocks of generations of the log and of the run that belong together: (from, to) in the log and in the run."""
    log, run = ([f"{row.get('cause')} {row.get('members')}" for row in rows] for rows in (wanted, made))
    if len(log) == len(run) or "None None" in log:
        return [(0, len(log), 0, len(run))]
    return [block for _, *block in SequenceMatcher(None, log, run, autojunk=False).get_opcodes()]  # type: ignore[misc]


_ANSWERS = {
    "join-answered": "JoinGroup",
    "assignment-synced": "SyncGroup",
    "partitions-assigned": "assigned",
    "partitions-revoked": "revoked",
    "partitions-lost": "lost",
}
_REFUSED = (
    *("heartbeat-refused", "rejoin-requested", "rebalance-seen", "join-failed", "sync-failed"),
    *("generation-reset", "commit-failed"),
)
_ERRORS = (REBALANCING, UNKNOWN_MEMBER, OLD_GENERATION, FENCED)


def answers_in_order(
    events: Iterable[Event], group: str, host_of: Callable[[str], str | None]
) -> dict[str, list[tuple[str, int]]]:
    """Host -> answers, errors and callbacks of the member's log in order, each with the member's last generation.

    An error that a member states in several lines counts once. MEMBER_ID_REQUIRED is left out: the answer is a part of
    a dynamic member's first JoinGroup.
    """
    found: dict[str, list[tuple[str, int]]] = {}
    hosts: dict[tuple[object, ...], str] = {}
    waiting: dict[tuple[object, ...], list[Event]] = {}
    last: dict[str, int] = {}
    for event in events:
        if event.of_broker or event.broker is not None or event.group != group or event.client is None:
            continue
        key = (event.file, event.process, event.client)
        name = host_of(event.member) if event.member else None
        if name is not None:
            hosts[key] = name
        waiting.setdefault(key, []).append(event)
        if key not in hosts:
            continue
        host = hosts[key]
        for each in waiting.pop(key):
            last[host] = each.generation if each.generation is not None else last.get(host, 0)
            error = error_of(each) if each.kind in _REFUSED else ""
            token = _ANSWERS.get(each.kind) or (error if error in _ERRORS else "")
            row = found.setdefault(host, [])
            if token and not (token in _ERRORS and row and row[-1][0] == token):
                row.append((token, last[host]))
    return found


def compare_answers(
    found: Reproduction, incident: Incident, made_run: Incident, run_group: str
) -> tuple[int, list[RowDifference]]:
    """The number of answers, errors and callbacks of members that a run repeats in order, and the differences."""
    made_names = {event.member: event.client for event in made_run.events if event.member and event.client}
    wanted = answers_in_order(incident.events, found.group, lambda member: dict(found.names).get(unmasked(member)))
    made = answers_in_order(made_run.events, run_group, made_names.get)
    equal, differences = 0, []
    for host, want in sorted(wanted.items()):
        if not any(token in _ANSWERS.values() for token, _ in want):
            continue
        if found.has_epochs:  # a member of the consumer protocol has heartbeats only
            want = [row for row in want if row[0] not in ("JoinGroup", "SyncGroup")]
        tokens = [token for token, _ in want]
        got = [
            token for token, _ in made.get(host, []) if not found.has_epochs or token not in ("JoinGroup", "SyncGroup")
        ]
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, tokens, got, autojunk=False).get_opcodes():
            if tag == "equal":
                equal += i2 - i1
            elif i1 < len(tokens):  # after its last line, the log determines nothing
                text, said = ", ".join(got[j1:j2]) or "nothing", ", ".join(tokens[i1:i2]) or "nothing"
                differences.append(RowDifference(want[i1][1], f"answers of {host}:", said, text))
    return equal, differences


def run_reproduction(found: Reproduction, incident: Incident, seed: int = 1) -> tuple[int, list[RowDifference]]:
    """Run the scenario, and compare its generations and the members' answers with those of the log."""
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "run.kemu"
        run(found.scenario, seed=seed, loop="bare", trace=trace)
        made = Incident(events_of_trace(read_trace(trace)))
    group = next(iter(found.scenario.groups))
    equal, rows = compare(found, incident.generations, made, group)
    more, answers = compare_answers(found, incident, made, group)
    first = min((each.generation for each in rows if each.field != TOOK), default=None)
    return equal + more, [*rows, *(_following(each, first) for each in answers)]


def _following(each: RowDifference, first: int | None) -> RowDifference:
    """A difference of answers, with its reason if generations before it differ."""
    if first is None or each.generation < first - 1:
        return each
    return evolve(each, why=f"follows from the difference of generation {first}")
