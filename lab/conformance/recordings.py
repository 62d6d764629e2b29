"""Read the recorded plan of a real cluster as a ``Course``. One folder per plan:

| file | contents that are read |
|---|---|
| plan.md | the summary below the heading; table of t (s), UTC, action; row "end" ends the course |
| server.log, brokerN-server.log | GroupCoordinator's lines on the group: preparing, stabilized, assignment received; |
| | of the consumer protocol: bumped epochs, computed targets (DEBUG), members' new assignment states (DEBUG) |
| request.log, brokerN-request.log | kafka.request.logger: one JSON per answered request |
| callbacks.jsonl, callbacks-X.jsonl | rebalance callbacks of every process, with times |

Group ids and topics of a recording contain the plan's name and a number. A course names the group's first topic
"orders", and further topics "orders-b" and so on. A course is about the first group of a plan.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
from attrs import define, field, frozen

from kemu.protocol.errors import ErrorCode
from kemu.protocol.messages.member import decode_assignment
from kemu.protocol.names import consumer_host
from lab.conformance import timing
from lab.conformance.comparing import Comparison
from lab.conformance.course import HEARTBEAT, RECORDED, Course, ExchangesSeen, HeldPartitions, RebalanceSeen

TOPIC = "orders"
APIS: Mapping[str, str] = {
    "JOIN_GROUP": "JoinGroup",
    "SYNC_GROUP": "SyncGroup",
    "HEARTBEAT": "Heartbeat",
    "CONSUMER_GROUP_HEARTBEAT": HEARTBEAT,
    "LEAVE_GROUP": "LeaveGroup",
    "OFFSET_COMMIT": "OffsetCommit",
    "OFFSET_FETCH": "OffsetFetch",
    "FIND_COORDINATOR": "FindCoordinator",
    "METADATA": "Metadata",
    "LIST_OFFSETS": "ListOffsets",
}
"""Name of a counted request in kafka.request.logger -> name of the request in a course."""

_PLAN_ROW = re.compile(r"\| (-?[\d.]+) \| (\S+) \| (.*?) \|\s*$")
_LOGGED = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] \w+ (.*)")
_REQUEST = re.compile(r"Completed request:(\{.*\}) \(kafka\.request\.logger\)$")
_PREPARING = re.compile(r"Preparing to rebalance group (\S+) in state .*?\(reason: (.*)\)\.? \((?:kafka|org)\.")
_STABILIZED = re.compile(r"Stabilized group (\S+) generation (\d+)\b.* with (\d+) members")
_RECEIVED = re.compile(r"Assignment received from leader (\S+) for group (\S+) for generation (\d+)\.")
_BUMPED = re.compile(r"\[GroupId (\S+)\] Bumped group epoch to (\d+)")
_COMPUTED = re.compile(r"\[GroupId (\S+)\] Computed a new target assignment for epoch (\d+) .*?: \{(.*)\}\.")
_OF_TARGET = re.compile(r"([\w-]+)=MemberAssignment\(")
_RECONCILED = re.compile(
    r"\[GroupId (\S+)\] Member (\S+) new assignment state: epoch=(\d+), .*?state=(\w+), assignedPartitions=\[(.*?)\]"
)
_UUID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HANDLERS_END = re.compile(r"data-plane Kafka Request Handler on Broker \d+\], shutting down")
_RUN_LIVE = re.compile(r"Kafka \d[\d.]*, run live")
_OFFSETS_LOG = re.compile(r"\b(__consumer_offsets-\d+)\b")
_LOADED = re.compile(
    r"Finished loading .*(__consumer_offsets-\d+) .*?in (\d+) ?m\w+.* (\d+) ?m\w+ was spent in the scheduler"
)
_KILLED = re.compile(r"kill -9 of the process of (\w+)")
_PAUSED = re.compile(r"(\w+) stands still")
_RESUMED = re.compile(r"(\w+) goes on")


def release_in(course: Course | Comparison) -> str:
    """The release of Kafka that ran a course or a compared course, as its source says.

    Raises:
        RecordingError: the source names no release.
    """
    found = re.match(r"(?:Apache )?Kafka (\d+(?:\.\d+)+)", course.source)
    if found is None:
        raise RecordingError(f'{course.plan}: the source names no release: "{course.source:.60}"')
    return found[1]


class RecordingError(Exception):
    """A folder has no recording of a plan, or an unreadable recording; the message has file and reason."""


def recorded_plans(folder: Path) -> list[str]:
    """The plans recorded below a folder, sorted: the paths of folders with a plan.md, such as "PLAN" or "3.9.1/PLAN".

    Raises:
        RecordingError: the folder has no recorded plan.
    """
    plans = sorted(path.parent.relative_to(folder).as_posix() for path in folder.glob("*/**/plan.md"))
    if not plans:
        raise RecordingError(f"{folder}: no recordings there (wanted: folders with a plan.md in them)")
    return plans


def read_recording(folder: Path) -> Course:
    """The course of the plan that was recorded in this folder.

    Raises:
        RecordingError: a file of the recording is missing or damaged.
    """
    try:
        return _Reading(folder).course()
    except OSError as error:
        raise RecordingError(f"{error.filename}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError) as error:
        raise RecordingError(f"{folder}: {type(error).__name__}: {error}") from None


@frozen
class _Answer:
    """One answered request of a member; ``came_ms``: time of the request, ``at_ms``: time of the response."""

    came_ms: int
    at_ms: int
    client: str
    api: str
    request: Mapping[str, Any]
    response: Mapping[str, Any]

    @property
    def took_effect_ms(self) -> int:
        """The time at which the coordinator executed a JoinGroup: answered with an id at once, or parked."""
        return self.at_ms if self.response["errorCode"] else self.came_ms

    @property
    def joins(self) -> bool:
        """Whether the member asks to join."""
        return self.api == "JoinGroup" or (self.api == HEARTBEAT and self.request["memberEpoch"] == 0)


@define
class _Generation:
    members: tuple[str, ...] = ()
    owners: dict[str, dict[str, tuple[int, ...]]] = field(factory=dict)


class _Reading:
    """Reads the recording in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        text = (folder / "plan.md").read_text(encoding="utf-8")
        rows = [match.groups() for match in map(_PLAN_ROW.match, text.splitlines()) if match]
        started = next((row for row in rows if row[2].startswith("start ")), None)
        if started is None:
            raise RecordingError(f"{folder / 'plan.md'}: no row says when a member was started")
        self._zero_ms = utc_ms(started[1]) - round(float(started[0]) * 1000)
        self._summary = next(line for line in text.splitlines()[1:] if line.strip())
        self._timeline = tuple(
            (round(float(at) * 1000), what)
            for at, _, what in rows
            if not what.startswith(("T0", "describe"))  # a description of the group changes nothing
        )
        self._until_ms = next((at for at, what in self._timeline if what.split(":")[0] == "end"), 0)
        if not self._until_ms:
            raise RecordingError(f'{folder / "plan.md"}: no row "end"')
        starts = [match for _, what in self._timeline if (match := re.match(r"start (\w+)(?: group=(\S+))?", what))]
        self._clients = _hosts([match[1] for match in starts if match[2] == starts[0][2]])
        self._callbacks = sorted(self._read_callbacks(), key=lambda callback: callback[0])
        config = next(event["config"] for _, event in self._callbacks)
        found = re.search(r"group\.id=([^,}]+)", config)
        if found is None:
            raise RecordingError(f"{folder}: no callback names a group.id")
        self._group = found.group(1)
        self._topic = self._recorded_topic()
        self._began_again_ms = tuple(self._group_began_again())
        self._topic_of_id = dict(self._topic_ids())

    def course(self) -> Course:
        """The whole course."""
        everything = list(self._answers())
        answers = [answer for answer in everything if 0 <= answer.at_ms < self._until_ms]
        exchanges = ExchangesSeen()
        errors: dict[str, int] = {}
        requests: dict[str, int] = {}
        for answer in answers:
            requests[answer.api] = requests.get(answer.api, 0) + 1
            error = _error_name(_first_error(answer.response))
            if answer.api == HEARTBEAT:
                told = answer.response["assignment"]
                partitions = told and sum(len(topic["partitions"]) for topic in told["topicPartitions"])
                exchanges.heartbeat_answered(answer.client, error, answer.response["memberEpoch"], partitions)
            else:
                generation = 0 if error else max(answer.response.get("generationId", 0), 0)
                exchanges.answered(answer.client, answer.api, error, generation)
            if error:
                name = f"{answer.api} {error}"
                errors[name] = errors.get(name, 0) + 1
        return Course(
            plan=self._folder.name,
            until_ms=self._until_ms,
            rebalances=tuple(self._rebalances(answers)),
            downtime_ms=self._downtime(),
            errors=dict(sorted(errors.items())),
            requests=dict(sorted(requests.items())),
            source=self._summary if _RUN_LIVE.match(self._summary) else f"{RECORDED}: {self._summary}",
            timeline=self._timeline,
            took_effect=tuple(self._took_effect(everything)),
            windows_ms=tuple(self._windows(answers)),
            loads_ms=tuple(self._loads()),
            hand_overs_ms=tuple(_hand_overs(answers)),
            exchanges=exchanges.all(),
        )

    # --- when it took effect -----------------------------------------------------------------------------------

    def _took_effect(self, answers: list[_Answer]) -> list[tuple[int, str]]:
        """The timeline in the words of ``timing``, with the times of the effects on members or brokers."""
        closings = [(at, event["who"]) for at, event in self._callbacks if event["event"] == "closing"]
        joins = [(answer.took_effect_ms, answer.client) for answer in answers if answer.joins]
        grown = [
            at for at, entry in self._requests() if entry["requestHeader"]["requestApiKeyName"] == "CREATE_PARTITIONS"
        ]
        handlers = [at for at, text in self._logged("server.log") if _HANDLERS_END.search(text)]
        felts: list[tuple[int, str]] = []
        lone = len(list(self._folder.glob("*request.log"))) == 1
        for at_ms, row in self._timeline:
            done = timing.done_by(row)
            if done is None:
                continue
            what, whom = done
            if what in timing.OF_MEMBERS and whom not in self._clients:
                continue
            felt = at_ms
            if what is timing.Effect.JOINS:
                whom = self._clients[whom]
                felt = _next(at_ms, (at for at, client in joins if client == whom))
            elif what is timing.Effect.CLOSES:
                felt = _next(at_ms, (at for at, who in closings if who == whom))
            elif what is timing.Effect.GROWS:
                felt = _next(at_ms, grown)
            elif what is timing.Effect.BROKER_CLOSES and lone:
                felt = _next(at_ms, handlers)
            elif what is timing.Effect.BROKER_STARTS and lone:
                felt = _next(at_ms, (answer.at_ms for answer in answers))
            felts.append((felt, f"{what} {whom}"))
        return sorted(felts, key=lambda each: each[0])

    def _loads(self) -> Iterator[tuple[int, int]]:
        """(waiting time, loading time) of the group's log, for each new coordinator."""
        lines = list(self._logged("server.log"))
        places = (match.group(1) for _, text in lines if self._group in text and (match := _OFFSETS_LOG.search(text)))
        place = next(places, None)
        for at_ms, text in lines:
            if (match := _LOADED.search(text)) and match.group(1) == place and 0 < at_ms < self._until_ms:
                waited_ms = int(match.group(3))
                yield waited_ms, int(match.group(2)) - waited_ms

    def _windows(self, answers: list[_Answer]) -> Iterator[int]:
        """For each start of the only broker: time from the first response to a member until the first response with the
        topic.
        """
        for at_ms, row in self._timeline:
            if row == "the broker has started":
                first = _next(at_ms, (answer.at_ms for answer in answers))
                known = (each.at_ms for each in answers if each.api == "Metadata" and not _first_error(each.response))
                yield _next(first, known) - first

    # --- callbacks ---------------------------------------------------------------------------------------------

    def _read_callbacks(self) -> Iterator[tuple[int, dict[str, Any]]]:
        paths = sorted(self._folder.glob("callbacks*.jsonl"))
        if not paths:
            raise RecordingError(f"{self._folder}: no callbacks.jsonl")
        for path in paths:
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                try:
                    event = json.loads(line)
                except ValueError as error:
                    raise RecordingError(f"{path}:{number}: is not JSON: {error}") from None
                if event["who"] not in self._clients:
                    continue
                yield utc_ms(event["ts"]) - self._zero_ms, {**event, "who": self._clients[event["who"]]}

    def _recorded_topic(self) -> str:
        """Name of the group's first topic: the shortest name, because further topics append "-b" or "-c"."""
        names: set[str] = {
            partition.rpartition("-")[0] for _, event in self._callbacks for partition in event.get("partitions", ())
        }
        return min(names, key=len)

    def _named(self, topic: str) -> str:
        return TOPIC + topic.removeprefix(self._topic)

    def _downtime(self) -> dict[str, tuple[tuple[int, int], ...]]:
        held = HeldPartitions()
        events: list[tuple[int, str, str, list[str]]] = []
        for at_ms, event in self._callbacks:
            partitions = [
                f"{self._named(topic)}-{number}"
                for topic, _, number in (partition.rpartition("-") for partition in event.get("partitions", ()))
            ]
            events.append((at_ms, event["event"], event["who"], partitions))
        for at_ms, what in self._timeline:
            for kind, pattern in (("killed", _KILLED), ("still", _PAUSED), ("on", _RESUMED)):
                match = pattern.match(what)
                if match:
                    events.append((at_ms, kind, match.group(1), []))
        for at_ms, kind, member, partitions in sorted(events, key=lambda event: event[0]):
            if at_ms >= self._until_ms:
                break
            match kind:
                case "assigned":
                    held.assigned(at_ms, member, partitions)
                case "revoked" | "lost":
                    held.revoked(at_ms, member, partitions)
                case "closed" | "died" | "killed":
                    held.ended(at_ms, member)
                case "still":
                    held.paused(at_ms, member)
                case "on":
                    held.resumed(at_ms, member)
        return held.spans_ms(self._until_ms)

    # --- requests ----------------------------------------------------------------------------------------------

    def _requests(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(time of the response, entry of the log) of all requests, including those of brokers and operators."""
        for at_ms, text in self._logged("request.log"):
            match = _REQUEST.match(text)
            if match:
                yield at_ms, json.loads(match.group(1))

    def _answers(self) -> Iterator[_Answer]:
        for at_ms, entry in self._requests():
            header = entry["requestHeader"]
            api = APIS.get(header["requestApiKeyName"])
            if api is not None and header["clientId"] in self._clients:
                client = self._clients[header["clientId"]]
                came_ms = at_ms - round(entry["totalTimeMs"])
                yield _Answer(came_ms, at_ms, client, api, entry["request"], entry["response"])

    def _logged(self, name: str) -> Iterator[tuple[int, str]]:
        """(time, text) of the lines of this log of all brokers, in the order of time."""
        paths = sorted(self._folder.glob(f"*{name}"))
        if not paths:
            raise RecordingError(f"{self._folder}: no {name}")
        lines = []
        for path in paths:
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                match = _LOGGED.match(line)
                if match:
                    at = datetime.strptime(match.group(1), "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
                    lines.append((round(at.timestamp() * 1000) - self._zero_ms, match.group(2)))
        return iter(sorted(lines, key=lambda line: line[0]))

    # --- generations -------------------------------------------------------------------------------------------

    def _rebalances(self, answers: list[_Answer]) -> Iterator[RebalanceSeen]:
        """The rebalances in order. A rebalance that a broker's failure interrupts restarts at the next coordinator."""
        generations = self._generations(answers)
        began: tuple[int, str] | None = None
        found: list[RebalanceSeen] = []
        leaders: dict[int, tuple[int, str]] = {}
        waits: dict[str, None] = {}
        """Members that have not reached the last epoch of the consumer protocol."""
        former: dict[str, None] = {}
        """Members of former epochs. A new member without others gets its target with the same request, in no time here:
        the computing time of a broker is not emulated."""
        for at_ms, text in self._logged("server.log"):
            if self._group not in text:
                continue
            if (match := _BUMPED.search(text)) and match[1] == self._group:
                began = at_ms, ""
            elif (match := _COMPUTED.search(text)) and match[1] == self._group:
                if targeted := _OF_TARGET.findall(match[3]):
                    since, _ = began or (None, "")
                    clients = tuple(sorted(self._client_of[member] for member in targeted))
                    alone = len(targeted) == 1 and targeted[0] not in former
                    times = (at_ms, at_ms) if alone else (since, None)
                    found.append(RebalanceSeen(int(match[2]), clients, "", "", times[0], at_ms, times[1], {}))
                    former |= dict.fromkeys(targeted)
                    waits, began = {} if alone else dict.fromkeys(targeted), None
            elif (match := _RECONCILED.search(text)) and match[1] == self._group:
                self._reconciled(at_ms, match, found, waits)
            elif (match := _PREPARING.search(text)) and match.group(1) == self._group:
                began = (at_ms, self._reason(match.group(2)))
            elif (match := _STABILIZED.search(text)) and match.group(1) == self._group and int(match.group(3)):
                number = int(match.group(2))
                known = generations.get((self._life(at_ms), number), _Generation())
                assert not known.members or len(known.members) == int(match.group(3)), f"generation {number}"
                since, reason = began or (None, "")
                owners = dict(sorted(known.owners.items()))
                found.append(RebalanceSeen(number, known.members, "", reason, since, at_ms, None, owners))
                began = None
            elif (match := _RECEIVED.search(text)) and match.group(2) == self._group:
                number = int(match.group(3))
                place = max((at for at, seen in enumerate(found) if seen.generation == number), default=-1)
                leaders.setdefault(place, (at_ms, self._client_of[match.group(1)]))
        for place, seen in enumerate(found):
            stable_ms, leader = leaders.get(place, (seen.stable_ms, ""))
            if seen.joined_ms < self._until_ms:
                yield attrs.evolve(seen, leader=leader, stable_ms=stable_ms)

    def _reconciled(self, at_ms: int, line: re.Match[str], found: list[RebalanceSeen], waits: dict[str, None]) -> None:
        """Note a member's new assignment in the last target with the member's epoch, and whether the group is stable.

        A group is stable when all members have the epoch of the target and no partition to give up or to wait for
        (``ConsumerGroup.maybeUpdateGroupState``).
        """
        member, epoch, state = line[2], int(line[3]), line[4]
        place = max((at for at, seen in enumerate(found) if seen.generation == epoch), default=-1)
        if place < 0:
            return
        owned: dict[str, list[int]] = {}
        for topic, _, number in (each.rpartition("-") for each in line[5].split(", ") if each):
            number, _, _ = number.partition("@")  # since 4.3 the epoch of the assignment follows
            owned.setdefault(self._named(self._topic_of_id[topic]), []).append(int(number))
        by_topic = {topic: tuple(sorted(owned[topic])) for topic in sorted(owned)}
        seen = found[place]
        owners = dict(sorted({**seen.owners, self._client_of[member]: by_topic}.items()))
        stable_ms = seen.stable_ms
        if place == len(found) - 1 and state == "STABLE" and member in waits:
            del waits[member]
            stable_ms = stable_ms if waits else at_ms
        found[place] = attrs.evolve(seen, owners=owners, stable_ms=stable_ms)

    def _reason(self, logged: str) -> str:
        """A reason with the scenario's name of the group, and without ids of members."""
        return without_uuids(logged).replace(self._group, self._group.removesuffix(f"-{self._folder.name}-1"))

    def _topic_ids(self) -> Iterator[tuple[str, str]]:
        """(id, name) of the topics in the responses to Metadata."""
        for _, entry in self._requests():
            if entry["requestHeader"]["requestApiKeyName"] == "METADATA":
                for topic in entry["response"]["topics"]:
                    if "topicId" in topic and topic["name"]:
                        yield topic["topicId"], topic["name"]

    def _life(self, at_ms: int) -> int:
        """The number of deletions of the group until this time. A deleted group begins with generation 1 again."""
        return sum(began_ms <= at_ms for began_ms in self._began_again_ms)

    def _group_began_again(self) -> Iterator[int]:
        last = 0
        for at_ms, text in self._logged("server.log"):
            if (match := _STABILIZED.search(text)) and match.group(1) == self._group:
                if 0 < int(match.group(2)) <= last:
                    yield at_ms
                last = int(match.group(2))

    def _generations(self, answers: list[_Answer]) -> dict[tuple[int, int], _Generation]:
        """(life of the group, generation) -> members in the first response to the leader, and each member's last
        assignment.
        """
        self._client_of = {
            answer.response["memberId"]: answer.client
            for answer in answers
            if answer.api in ("JoinGroup", HEARTBEAT) and answer.response.get("memberId")
        }
        generations: dict[tuple[int, int], _Generation] = {}
        for answer in answers:
            if answer.response.get("errorCode"):
                continue
            if answer.api == "JoinGroup":
                key = self._life(answer.at_ms), answer.response["generationId"]
                generation = generations.setdefault(key, _Generation())
                if not generation.members and answer.response["members"]:
                    generation.members = tuple(
                        sorted(self._client_of[member["memberId"]] for member in answer.response["members"])
                    )
            elif answer.api == "SyncGroup":
                key = self._life(answer.at_ms), answer.request["generationId"]
                generation = generations.setdefault(key, _Generation())
                owned: dict[str, list[int]] = {}
                for topic, number in decode_assignment(base64.b64decode(answer.response["assignment"])).partitions:
                    owned.setdefault(self._named(topic), []).append(number)
                generation.owners[answer.client] = {topic: tuple(sorted(owned[topic])) for topic in sorted(owned)}
        return generations


def without_uuids(reason: str) -> str:
    """A reason with the client id in place of each member id."""
    return _UUID.sub("", reason)


def _hand_overs(answers: Iterable[_Answer]) -> Iterator[int]:
    """``Course.hand_overs_ms``: times of SyncGroups of members that already had an assignment. A member id identifies
    one life of a member.
    """
    first_ms: dict[int, int] = {}
    joined: dict[str, int] = {}
    assigned: dict[str, None] = {}
    for answer in answers:
        if answer.api == "JoinGroup" and answer.response.get("leader"):
            generation = answer.response["generationId"]
            joined[answer.response["memberId"]] = generation
            first_ms.setdefault(generation, answer.at_ms)
        elif answer.api == "SyncGroup":
            member = answer.request["memberId"]
            generation = joined.pop(member, None)
            if member in assigned and generation == answer.request["generationId"]:
                yield max(answer.came_ms - first_ms[generation], 0)
            if not answer.response["errorCode"]:
                assigned[member] = None


def _hosts(clients: Sequence[str]) -> dict[str, str]:
    """Client id -> host of a scenario. c1, c2, ... keep their names; other clients get the following numbers."""
    names = dict.fromkeys(clients)
    numbered = [name for name in names if re.fullmatch(r"c\d+", name)]
    others = [name for name in names if name not in numbered]
    return {name: name for name in numbered} | {
        name: consumer_host(len(numbered) + place) for place, name in enumerate(others, 1)
    }


def _next(at_ms: int, moments: Iterable[int]) -> int:
    """The first of ``moments`` at or after ``at_ms``; ``at_ms`` without such a moment."""
    return next((moment for moment in moments if moment >= at_ms), at_ms)


def _error_name(number: int) -> str:
    """Name of an error code; "" for 0; the number of an unknown error."""
    try:
        return ErrorCode(number).name if number else ""
    except ValueError:
        return str(number)


def utc_ms(text: str) -> int:
    """Milliseconds of "2026-11-21T23:31:14.095650022Z"."""
    whole, _, rest = text.rstrip("Z").partition(".")
    at = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    return round(at.timestamp()) * 1000 + int(float(f"0.{rest or 0}") * 1000)


def _first_error(value: Any) -> int:
    """The first error code in a response other than 0."""
    if isinstance(value, dict):
        own = value.get("errorCode", 0)
        return own or next(filter(None, map(_first_error, value.values())), 0)
    if isinstance(value, list):
        return next(filter(None, map(_first_error, value)), 0)
    return 0
