"""``python -m lab.conformance.rolling``: a recorded rolling restart of the consumer protocol beside emulated runs.

A broker and clients of Kafka 4.0.0 ran a group of six members (``group.protocol=consumer``) and 24 partitions. Every
10 s one member closed, and started again 4 s later. ``read_recording`` reads the recording, ``emulate`` runs the same
plan, and ``delays_of`` splits both into the delays between the steps of each partition that moved.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any

import cattrs
import click
from attrs import field, frozen

from kemu.emulator.facts import HostDown, Seen
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import scenario_from_toml, with_values
from kemu.protocol.names import TopicPartition, consumer_host, host_of
from kemu.protocol.notes.consumer_groups import GroupEpochsChanged, MemberReconciled
from kemu.protocol.notes.groups import (
    MemberAdded,
    MemberBecame,
    MemberRemoved,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from lab.conformance.course import HeldPartitions
from lab.conformance.recordings import utc_ms

RECORDING = Path(__file__).parents[2] / "tests" / "data" / "consumer-groups" / "kafka-4.0.0-rolling.json"
SCENARIO = """
profile = "kafka-4.0"
duration = "95s"
topics.orders = { partitions = 24, rate = "0/s" }
groups.g.topics = ["orders"]
groups.g.members = 6
groups.g.start = "3485ms"
groups.g.start_spread = "90ms"
groups.g.config."group.protocol" = "consumer"
draws = { set = "calm", identity = "uuid" }
plan = [{ at = "20s", do = "rolling-restart", group = "g", every = "10s", down = "4s" }]
"""
"""The plan of the recording. The application does no work, as in the recording."""
FROM_MS, UNTIL_MS = 20_000, 95_000
"""The compared time: from the first close to the end of the recording."""
JOINED, LEFT = "joined", "left"
TOLD = "UNREVOKED_PARTITIONS"


@frozen
class EpochRaised:
    """The group's epoch rose, because a client joined or left."""

    at_ms: int
    epoch: int
    client: str
    did: str


@frozen
class EpochStep:
    """The coordinator changed a member's assignment (``CurrentAssignmentBuilder``)."""

    at_ms: int
    client: str
    epoch: int
    state: str
    assigned: tuple[int, ...]


@frozen
class Callback:
    """A member's partitions by its listener: "assigned", "revoked", "lost", or "closed"."""

    at_ms: int
    client: str
    what: str
    partitions: tuple[int, ...] = ()


@frozen
class RecordedHeartbeat:
    """A recorded heartbeat and its answer. ``topics`` tells whether the request names its topics; None: unchanged."""

    at_ms: float
    client: str
    member_id: str
    epoch: int
    rebalance_timeout_ms: int
    topics: bool
    owned: tuple[int, ...] | None
    answered_epoch: int
    assigned: tuple[int, ...] | None


@frozen
class Rolling:
    """The group in one run; times in ms since the first member's start."""

    epochs: tuple[EpochRaised, ...]
    targets: tuple[tuple[int, int], ...]
    """(time, epoch) of each computed target."""
    steps: tuple[EpochStep, ...]
    callbacks: tuple[Callback, ...]
    heartbeats: tuple[RecordedHeartbeat, ...] = ()
    target_of: Mapping[str, Mapping[str, tuple[int, ...]]] = field(factory=dict)
    """Epoch -> member id -> partitions of the target; only of the recording."""

    def downtime_ms(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """Partition -> spans without an owner, from the first close to the end."""
        held = HeldPartitions()
        for each in self.callbacks:
            names = [f"orders-{number}" for number in each.partitions]
            if each.what == "assigned":
                held.assigned(each.at_ms, each.client, names)
            elif each.what == "closed":
                held.ended(each.at_ms, each.client)
            else:
                held.revoked(each.at_ms, each.client, names)
        spans = held.spans_ms(UNTIL_MS)
        return {at: tuple(each for each in mine if each[0] >= FROM_MS) for at, mine in spans.items()}

    def downtime_sum_ms(self) -> int:
        """Time without an owner, summed over the partitions."""
        return sum(until - since for spans in self.downtime_ms().values() for since, until in spans)


# --- the delays of moved partitions ----------------------------------------------------------------------------------


@frozen
class Delays:
    """Delays in ms, each with a row per close, start or moved partition. The partition is down in all but ``told``."""

    computed: tuple[int, ...]
    """Close -> computed target."""
    inherited: tuple[int, ...]
    """Computed target -> an heir of the closed member gets a partition."""
    told: tuple[int, ...]
    """Join -> the owner is told to give up a partition."""
    acknowledged: tuple[int, ...]
    """Told -> the owner acknowledged the revocation."""
    handed: tuple[int, ...]
    """Acknowledged -> a new owner gets the partition: the joined member, or an heir if that member's plan changed."""


def delays_of(rolling: Rolling) -> Delays:
    """The delays between the steps of each partition that moved because of a close or a start."""
    found: dict[str, list[int]] = {name: [] for name in ("computed", "inherited", "told", "acknowledged", "handed")}
    for each in rolling.epochs:
        if each.at_ms < FROM_MS or each.at_ms >= UNTIL_MS:
            continue
        after = [step for step in rolling.steps if step.at_ms >= each.at_ms]
        if each.did == LEFT:
            computed_ms = next(at_ms for at_ms, epoch in rolling.targets if epoch >= each.epoch)
            found["computed"].append(computed_ms - each.at_ms)
            for number in _last(rolling.steps, each.client, each.at_ms).assigned:
                got_ms = next(step.at_ms for step in after if number in step.assigned)
                found["inherited"].append(got_ms - computed_ms)
        else:
            for number, owner, told_ms in _told(rolling, each):
                done = next(step for step in after if step.client == owner and step.at_ms > told_ms)
                got = [step.at_ms for step in after if step.at_ms > done.at_ms and number in step.assigned]
                if not got:
                    continue  # the run ended first
                found["told"].append(told_ms - each.at_ms)
                found["acknowledged"].append(done.at_ms - told_ms)
                found["handed"].append(got[0] - done.at_ms)
    return Delays(**{name: tuple(values) for name, values in found.items()})


def _last(steps: Iterable[EpochStep], client: str, until_ms: int) -> EpochStep:
    return [step for step in steps if step.client == client and step.at_ms <= until_ms][-1]


def _told(rolling: Rolling, join: EpochRaised) -> Iterator[tuple[int, str, int]]:
    """(partition, owner, time) of each partition that an owner must give up because of this join."""
    later = [each.at_ms for each in rolling.epochs if each.at_ms > join.at_ms]
    until_ms = min([*later, UNTIL_MS])
    for step in rolling.steps:
        if join.at_ms <= step.at_ms < until_ms and step.state == TOLD:
            before = _last([each for each in rolling.steps if each is not step], step.client, step.at_ms)
            for number in before.assigned:
                if number not in step.assigned:
                    yield number, step.client, step.at_ms


# --- an emulated run -------------------------------------------------------------------------------------------------


class _Watcher:
    """Reads the facts of a run."""

    def __init__(self) -> None:
        self.epochs: list[EpochRaised] = []
        self.targets: list[tuple[int, int]] = []
        self.steps: list[EpochStep] = []
        self.callbacks: list[Callback] = []
        self._client_of: dict[str, str] = {}
        self._cause = ("", "")
        self._last = (0, 0)

    def see(self, seen: Seen) -> None:
        """Note a fact."""
        at_ms, host = seen.at_us // 1000, host_of(seen.actor)
        match seen.fact:
            case MemberAdded(member_id=member_id, client_id=client):
                self._client_of[member_id], self._cause = client, (client, JOINED)
            case MemberRemoved(client_id=client):
                self._cause = client, LEFT
            case GroupEpochsChanged(epoch=epoch, target_epoch=target_epoch):
                if epoch > self._last[0]:
                    self.epochs.append(EpochRaised(at_ms, epoch, *self._cause))
                if target_epoch > self._last[1]:
                    self.targets.append((at_ms, target_epoch))
                self._last = epoch, target_epoch
            case MemberReconciled() as fact:
                client = self._client_of[fact.member_id]
                self.steps.append(EpochStep(at_ms, client, fact.epoch, fact.state, _numbers(fact.assigned)))
            case PartitionsAssigned(added=partitions):
                self.callbacks.append(Callback(at_ms, host, "assigned", _numbers(partitions)))
            case PartitionsRevoked(revoked=partitions) | PartitionsLost(lost=partitions):
                self.callbacks.append(Callback(at_ms, host, "revoked", _numbers(partitions)))
            case MemberBecame(new="CLOSED"):
                self.callbacks.append(Callback(at_ms, host, "closed"))
            case HostDown(host=down):
                self.callbacks.append(Callback(at_ms, down, "closed"))


def _numbers(partitions: Iterable[TopicPartition]) -> tuple[int, ...]:
    return tuple(sorted(number for _, number in partitions))


def emulate(seed: int, settings: Sequence[str] = ()) -> Rolling:
    """The plan of the recording in an emulated run. ``settings``: changes as those of ``kemu run --set``."""
    scenario = with_values(scenario_from_toml(SCENARIO, source="rolling.toml", name="rolling"), settings)
    watcher = _Watcher()
    result = run(scenario, seed=seed, loop="bare", observers=(watcher,))
    assert result.verdict == "holds", result.reason
    rows = (watcher.epochs, watcher.targets, watcher.steps, watcher.callbacks)
    return Rolling(*(tuple(row) for row in rows))  # type: ignore[arg-type]


# --- the recording ---------------------------------------------------------------------------------------------------

_LINE = re.compile(r"\[([^]]+)] \w+ \[GroupCoordinator .*?] \[GroupId g-new] (.*)")
_LOGGED = re.compile(r"\[([^]]+)] DEBUG Completed request:(\{.*}) \(kafka\.request\.logger\)")
_BUMPED = re.compile(r"Bumped group epoch to (\d+)\.")
_COMPUTED = re.compile(r"Computed a new target assignment for epoch (\d+) .*?: \{(.*)\}")
_OF_MEMBER = re.compile(r"([\w-]{22})=MemberAssignment\(partitions=\{(?:[\w-]{22}=\[([\d, ]*)])?")
_STATE = re.compile(r"Member (\S+) new assignment state: epoch=(\d+), .*?state=(\w+), assignedPartitions=\[(.*?)]")
_DID = ((re.compile(r"Member (\S+) joins the consumer group"), JOINED), (re.compile(r"Member (\S+) left"), LEFT))


def read_recording(folder: Path) -> Rolling:
    """Read the folder of the recording ``kip848-rolling``: logs of the broker, and callbacks of the members."""
    plan = (folder / "plan.md").read_text(encoding="utf-8")
    start = re.search(r"\| 0\.000 \| (\S+) \| T0", plan)
    assert start is not None, folder
    zero_ms = utc_ms(start[1])
    heartbeats = sorted(_heartbeats(folder, zero_ms), key=lambda each: each.at_ms)
    client_of = {each.member_id: _host(each.client) for each in heartbeats}
    epochs, targets, steps, cause = [], [], [], ("", "")
    target_of: dict[str, dict[str, tuple[int, ...]]] = {}
    for line in _lines(folder / "server.log.gz"):
        if (found := _LINE.match(line)) is None:
            continue
        at_ms, text = _ms(found[1]) - zero_ms, found[2]
        for pattern, did in _DID:
            if match := pattern.match(text):
                cause = client_of[match[1]], did
        if match := _BUMPED.match(text):
            epochs.append(EpochRaised(at_ms, int(match[1]), *cause))
        elif match := _COMPUTED.match(text):
            targets.append((at_ms, int(match[1])))
            target_of[match[1]] = {each: _listed(numbers) for each, numbers in _OF_MEMBER.findall(match[2])}
        elif match := _STATE.match(text):
            assigned = tuple(sorted(int(each.rpartition("-")[2]) for each in match[4].split(", ") if each))
            steps.append(EpochStep(at_ms, client_of[match[1]], int(match[2]), match[3], assigned))
    callbacks = tuple(_callbacks(folder, zero_ms))
    return Rolling(tuple(epochs), tuple(targets), tuple(steps), callbacks, tuple(heartbeats), target_of)


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from lines


def _heartbeats(folder: Path, zero_ms: int) -> Iterator[RecordedHeartbeat]:
    for line in _lines(folder / "request.log.gz"):
        if "CONSUMER_GROUP_HEARTBEAT" not in line or (found := _LOGGED.match(line)) is None:
            continue
        entry = json.loads(found[2])
        request, response = entry["request"], entry["response"]
        assert not response["errorCode"], line
        yield RecordedHeartbeat(
            at_ms=round(_ms(found[1]) - zero_ms - entry["totalTimeMs"] + entry["requestQueueTimeMs"], 3),
            client=entry["requestHeader"]["clientId"],
            member_id=request["memberId"],
            epoch=request["memberEpoch"],
            rebalance_timeout_ms=request["rebalanceTimeoutMs"],
            topics=request["subscribedTopicNames"] is not None,
            owned=_of_topics(request["topicPartitions"]),
            answered_epoch=response["memberEpoch"],
            assigned=_of_topics((response["assignment"] or {}).get("topicPartitions")),
        )


def _of_topics(rows: Sequence[Mapping[str, Any]] | None) -> tuple[int, ...] | None:
    return None if rows is None else tuple(sorted(number for row in rows for number in row["partitions"]))


def _callbacks(folder: Path, zero_ms: int) -> Iterator[Callback]:
    for line in (folder / "callbacks.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["who"].startswith("k") and event["event"] in ("assigned", "revoked", "lost", "closed"):
            numbers = tuple(sorted(int(each.rpartition("-")[2]) for each in event.get("partitions", ())))
            yield Callback(utc_ms(event["ts"]) - zero_ms, _host(event["who"]), event["event"], numbers)


def _host(client: str) -> str:
    """The host in the emulated run: c1 for k1."""
    return consumer_host(int(client.removeprefix("k")))


def _listed(numbers: str) -> tuple[int, ...]:
    return tuple(sorted(int(each) for each in numbers.split(", ") if each))


def _ms(text: str) -> int:
    at = datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return round(at.timestamp() * 1000)


_CONVERTER = cattrs.Converter(unstruct_collection_overrides={tuple: list})


def save(rolling: Rolling, path: Path) -> None:
    """Write a recording as JSON, with a line per row."""
    data = _CONVERTER.unstructure(rolling)
    parts = []
    for name, rows in data.items():
        items = rows.items() if isinstance(rows, dict) else None
        inner = [f"{json.dumps(key)}: {json.dumps(row)}" for key, row in items] if items else map(json.dumps, rows)
        parts.append(f'"{name}": {"{" if items else "["}\n' + ",\n".join(inner) + f"\n{'}' if items else ']'}")
    path.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def load(path: Path = RECORDING) -> Rolling:
    """Read a recording that ``save`` wrote."""
    return _CONVERTER.structure(json.loads(path.read_text(encoding="utf-8")), Rolling)


# --- the table -------------------------------------------------------------------------------------------------------

ROWS = {
    "computed": "close -> target computed",
    "inherited": "target -> heir gets it",
    "told": "join -> owner told (not down)",
    "acknowledged": "told -> acknowledged",
    "handed": "acknowledged -> joiner gets it",
}


def table(recorded: Rolling, emulated: Sequence[Rolling]) -> Iterator[str]:
    """The lines of the comparison: number and mean of each delay, and the time without an owner."""
    yield f"{'seconds':32} {'recorded':>16}   {'emulated (means of runs, least to most)':40}"
    mine, others = delays_of(recorded), [delays_of(each) for each in emulated]
    for name, said in ROWS.items():
        values, means = getattr(mine, name), sorted(mean(getattr(each, name)) for each in others)
        counts = sorted({len(getattr(each, name)) for each in others})
        yield (
            f"{said:32} {mean(values) / 1e3:6.2f} (n = {len(values):2})   "
            f"{mean(means) / 1e3:5.2f} ({means[0] / 1e3:.2f} to {means[-1] / 1e3:.2f}), n = {counts}"
        )
    sums = sorted(each.downtime_sum_ms() for each in emulated)
    yield (
        f"{'partition-seconds without owner':32} {recorded.downtime_sum_ms() / 1e3:6.1f}            "
        f"{mean(sums) / 1e3:5.1f} ({sums[0] / 1e3:.1f} to {sums[-1] / 1e3:.1f})"
    )


@click.command()
@click.option("--seeds", type=int, default=10, show_default=True, help="Number of emulated runs.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a key of the scenario; repeatable.")
@click.option(
    "--read", "folder", type=click.Path(path_type=Path), help="Read the recording from this folder, and keep it."
)
def main(seeds: int, settings: tuple[str, ...], folder: Path | None) -> None:
    """Print the recorded rolling restart beside emulated runs."""
    if folder is not None:
        save(read_recording(folder), RECORDING)
    click.echo("\n".join(table(load(), [emulate(seed, settings) for seed in range(1, seeds + 1)])))


if __name__ == "__main__":
    main()
