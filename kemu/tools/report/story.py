"""The story of a run: an observer that makes a line from each important fact, and ignores routine facts.

Equal lines about several hosts within ``TOGETHER_US`` become one line, such as a hundred members that start within two
seconds. The line has the times of the first and of the last host. Only crashes or pauses at the same instant share a
line.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kemu.emulator import facts
from kemu.emulator.facts import Seen
from kemu.emulator.watching.waiting_at_end import StillWaiting
from kemu.protocol.errors import ErrorCode
from kemu.protocol.frozen import define
from kemu.protocol.names import host_of, partitions_text
from kemu.protocol.notes import groups as notes
from kemu.protocol.notes.consumer_groups import GroupConverted
from kemu.tools.report import control_story, streams_story
from kemu.tools.report.control_story import PARTITIONS, ControlStory
from kemu.tools.report.reasons import short_members, short_reason
from kemu.tools.report.streams_story import StreamsStory

TOGETHER_US = 3_000_000
"""Equal lines at most this far apart become one line."""
TOLD_US = 1_000_000
"""Span of a merged line from which the line has the time of its last host, in us."""
NAMED = 6
"""Maximum number of hosts that a line names; the line has only the number of further hosts."""
CAUSED = ("host", "effect")
"""Kinds of lines that a fault causes at the same instant."""
SETTLED = ("Stable", "Empty", "Dead")
BEGINS = ("PreparingRebalance", "Assigning")
"""The states in which a rebalance of the classic protocol, or of the consumer protocol, begins."""
"""States of a group that end a rebalance."""
CLOSED = "{} closed cleanly"

FENCING = (
    *(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID),
    *(ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH),
)
"""Errors of OffsetCommit and OffsetFetch for a member that is not, or no longer, the member that it says it is."""
END = "end"
"""Kind of a line about what still waits at the end."""

Emit = Callable[[str], None]


def clock_text(us: int) -> str:
    """A virtual time as minutes, seconds and milliseconds: "01:05.250"."""
    minutes, rest = divmod(us // 1_000, 60_000)
    return f"{minutes:02}:{rest // 1_000:02}.{rest % 1_000:03}"


def span_text(us: int) -> str:
    """A duration, rounded for reading: "850 ms", "12.3 s", "2 min 5 s"."""
    if us < 1_000_000:
        return f"{us / 1_000:.0f} ms"
    if us < 120_000_000:
        return f"{us / 1_000_000:.1f} s"
    return f"{us // 60_000_000} min {us % 60_000_000 // 1_000_000} s"


def still_text(each: StillWaiting, at_us: int) -> str:
    """One waiting entity, its time and its reason; the run ends at ``at_us``."""
    return f"{each.what} for {(at_us - each.since_us) / 1e6:.1f} s: {each.why}"


@define
class StoryLine:
    """One line of the story: a sentence, and the hosts or partitions that the sentence names."""

    at_us: int
    kind: str
    """group, fault, effect, host, member, control, partitions, end: for colour and order."""
    sentence: str
    """The sentence, with "{}" as a placeholder for the hosts or partitions."""
    who: list[str]
    last_us: int = -1
    """Time of the last host; -1: all hosts have the same time."""
    whole: str = ""
    """The sentence with Kafka's reasons in full; "" if ``sentence`` has the full reasons."""

    def text(self, verbose: bool = False) -> str:
        """The line without its time; ``verbose``: with Kafka's reasons in full."""
        if verbose and self.whole:
            return self.whole
        if not self.who:
            return self.sentence
        if self.kind == PARTITIONS:
            pairs = [name.rpartition("-") for name in self.who]
            return self.sentence.replace(
                "{}", partitions_text(sorted((topic, int(number)) for topic, _, number in pairs))
            )
        named = ", ".join(self.who[:NAMED]) + (f" and {len(self.who) - NAMED} more" if len(self.who) > NAMED else "")
        last = f", the last at {clock_text(self.last_us)}" if self.last_us - self.at_us >= TOLD_US else ""
        return self.sentence.replace("{}", named) + last


class Story:
    """An observer that collects lines during a run. ``emit``, if given, receives each line at once (for live runs)."""

    def __init__(self, emit: Emit | None = None) -> None:
        self.lines: list[StoryLine] = []
        self._emit = emit
        self._began: dict[str, tuple[int, str]] = {}
        """Group -> start and reason of the rebalance in progress."""
        self._down_us: dict[str, int] = {}
        """Host that is down -> time of its crash or stop."""
        self.restarts: list[tuple[str, int, int]] = []
        """Restarts of hosts: the host, the time of the crash or stop, and the time of the new start."""
        self.applied_us: dict[int, int] = {}
        """Index of a plan's entry -> time at which the entry was first applied."""
        self._members: dict[str, int] = {}
        """Group -> number of members at the last completed join."""
        self.fenced: Counter[tuple[str, str, ErrorCode]] = Counter()
        """(group, API, error) -> number of requests about offsets that a coordinator refused with an error of
        ``FENCING``."""
        self._is_core = False
        """Whether only a core of the cluster is repaired after the plan."""
        self._control = ControlStory(self.add)
        self._tasks = StreamsStory(self.add)

    @classmethod
    def told(cls, emit: Emit) -> "Story":
        """A story that keeps no lines, for runs without an end."""

        def tell(line: str) -> None:
            emit(line)
            made.lines.clear()

        made = cls(tell)
        return made

    def wants(self, kind: type) -> bool:
        """Whether facts of this kind have story lines."""
        return kind in _TELLERS or kind in control_story.TELLERS or kind in streams_story.TELLERS

    def see(self, seen: Seen) -> None:
        """Receive one fact."""
        tell = _TELLERS.get(type(seen.fact))
        if tell is not None:
            tell(self, seen, seen.fact)
        elif type(seen.fact) in control_story.TELLERS:
            control_story.TELLERS[type(seen.fact)](self._control, seen, seen.fact)
        elif type(seen.fact) in streams_story.TELLERS:
            streams_story.TELLERS[type(seen.fact)](self._tasks, seen, seen.fact)

    def add(
        self, at_us: int, kind: str, sentence: str, who: str = "", *, within_us: int = TOGETHER_US, whole: str = ""
    ) -> None:
        """Add a line, or add the host to an equal line that is at most ``within_us`` old."""
        for line in reversed(self.lines[-20:]):
            if who and line.sentence == sentence and at_us - line.at_us <= within_us and self._emit is None:
                if who not in line.who:
                    line.who.append(who)
                    line.last_us = at_us
                return
        line = StoryLine(at_us, kind, sentence, [who] if who else [], whole=whole)
        self.lines.append(line)
        if self._emit is not None:
            self._emit(f"{clock_text(at_us)}  {line.text()}")

    def still(self, waiting: Iterable[StillWaiting], at_us: int) -> None:
        """Tell what still waits at the end of the run, the longest wait first."""
        for each in sorted(waiting, key=lambda each: each.since_us):
            if at_us - each.since_us >= TOLD_US:
                self.add(at_us, END, f"at the end: {still_text(each, at_us)}")

    def fenced_text(self) -> Iterator[str]:
        """A line for each group whose members' requests about offsets were fenced."""
        for group in dict.fromkeys(name for name, _, _ in self.fenced):
            counts = [
                f"{count:,} {api} ({error.name})" for (name, api, error), count in self.fenced.items() if name == group
            ]
            yield f"  fenced requests of {group}: {', '.join(counts)}"

    # --- groups ------------------------------------------------------------------------------------------------

    def group_became(self, seen: Seen, fact: notes.GroupBecame) -> None:
        """Tell the begin and the end of a rebalance."""
        if fact.new in BEGINS:
            # If a rebalance restarts before its end, both are one rebalance, whose time begins with the first start.
            again = " again" if fact.group in self._began else ""
            self._began.setdefault(fact.group, (seen.at_us, fact.why))
            head = f"{fact.group} rebalances{again}: "
            self.add(seen.at_us, "group", head + short_reason(fact.why), whole=head + fact.why)
        elif fact.new in SETTLED and fact.group in self._began:
            began_us, _ = self._began.pop(fact.group)
            took = span_text(seen.at_us - began_us)
            of = f", {_counted(self._members.get(fact.group, 0))}" if fact.new == "Stable" else ""
            self.add(seen.at_us, "group", f"{fact.group} is {fact.new}: generation {fact.generation}{of}, after {took}")
        elif fact.new in SETTLED and fact.why != UNLOADED:
            self.add(seen.at_us, "group", f"{fact.group} is {fact.new}: {fact.why}")

    def group_converted(self, seen: Seen, fact: GroupConverted) -> None:
        """Tell that a group with members changed its protocol."""
        text = f"{fact.group} is converted to the {fact.protocol} protocol: generation {fact.generation}"
        self.add(seen.at_us, "member", text)  # more important than its rebalance

    def join_phase_completed(self, seen: Seen, fact: notes.JoinPhaseCompleted) -> None:
        """Store the number of members for the line about the end of the rebalance."""
        self._members[fact.group] = len(fact.members)

    def group_loaded(self, seen: Seen, fact: notes.GroupLoaded) -> None:
        """Tell that the new coordinator loaded a group after a failover."""
        self._began.pop(fact.group, None)
        what = f"{fact.state}, generation {fact.generation}, {_counted(len(fact.members))}"
        self.add(seen.at_us, "group", f"{seen.actor} loaded {fact.group} from the log: {what}")

    def group_unloaded(self, seen: Seen, fact: notes.GroupUnloaded) -> None:
        """Tell that the old coordinator unloaded a group."""
        self.add(seen.at_us, "group", f"{seen.actor} unloaded {fact.group}")

    def request_refused(self, seen: Seen, fact: notes.RequestRefused) -> None:
        """Count a commit, or a fetch of offsets, that was fenced."""
        if fact.error in FENCING and fact.api in ("OffsetCommit", "OffsetFetch"):
            self.fenced[fact.group, fact.api, fact.error] += 1

    def member_failed(self, seen: Seen, fact: notes.MemberFailed) -> None:
        """Tell that a member failed with an error that consumers do not retry."""
        self.add(seen.at_us, "member", f"{{}} failed permanently: {fact.error.name}, {fact.why}", seen.actor)

    def partitions_lost(self, seen: Seen, fact: notes.PartitionsLost) -> None:
        """Tell that a fenced member dropped its partitions."""
        if fact.lost:
            self.add(seen.at_us, "member", "{} lost all partitions (onPartitionsLost)", seen.actor)

    def listener_failed(self, seen: Seen, fact: notes.ListenerFailed) -> None:
        """Tell that a rebalance listener raised."""
        self.add(seen.at_us, "member", f"{fact.callback} of {{}} failed: {fact.why}", seen.actor)

    def script_departed(self, seen: Seen, fact: notes.ScriptDeparted) -> None:
        """Tell that a scripted client received another answer than in the recording."""
        of = f"{fact.request} of {clock_text(fact.recorded_us)}"
        said = f"recorded {fact.recorded}, now {fact.now}; the client {fact.then}"
        self.add(seen.at_us, "member", f"{{}} departs from its script: {of}, {said}", host_of(seen.actor))

    def script_ended(self, seen: Seen, fact: notes.ScriptEnded) -> None:
        """Tell that a scripted client has sent its whole script."""
        times = "" if not fact.departures else f" with {fact.departures} departures"
        self.add(seen.at_us, "member", f"{{}} sent its whole script{times}", seen.actor)

    # --- the admin client --------------------------------------------------------------------------------------

    def admin_answered(self, seen: Seen, fact: notes.AdminAnswered) -> None:
        """Tell the answer to an admin client's request."""
        about = f" of {fact.group}" if fact.group else ""
        outcome = f"refused, {fact.error.name}" if fact.error else "done"
        self.add(seen.at_us, "effect", f"{fact.api}{about}: {outcome}{_beside(fact.text)}")

    def group_described(self, seen: Seen, fact: notes.GroupDescribed) -> None:
        """Tell the answer to DescribeGroups or ConsumerGroupDescribe."""
        outcome = f"refused, {fact.error.name}" if fact.error else fact.state
        members = (
            "" if fact.error else f" ({_counted(len(fact.members))}{_beside(fact.text or ', '.join(fact.members))})"
        )
        said = f"{fact.api} of {fact.group}: {outcome}{members}"
        self.add(seen.at_us, "effect", short_members(said), whole=said)

    # --- the world ---------------------------------------------------------------------------------------------

    def member_reconfigured(self, seen: Seen, fact: facts.MemberReconfigured) -> None:
        """Tell that a rolling upgrade changed the settings of a member."""
        said = [*([fact.profile] if fact.profile else []), *fact.settings]
        if fact.assignors:
            said.append(f"assignors {', '.join(fact.assignors)}")
        self.add(seen.at_us, "host", f"{{}} will restart with {'; '.join(said)}", fact.host)

    def broker_reconfigured(self, seen: Seen, fact: facts.BrokerReconfigured) -> None:
        """Tell that a rolling upgrade changed the release or the settings of a broker."""
        said = f"as {fact.profile}, with the inter.broker.protocol.version of {fact.protocol}"
        self.add(seen.at_us, "host", f"{{}} will restart {said}", fact.host)

    def host_started(self, seen: Seen, fact: facts.HostStarted) -> None:
        """Tell a start of a host, or a restart with the time that the host was down."""
        said = "started" if fact.life == 1 else "restarted" if fact.kept_disk else "restarted with an empty disk"
        down_us = self._down_us.pop(fact.host, None)
        after = ""
        if down_us is not None:
            self.restarts.append((fact.host, down_us, seen.at_us))
            after = f", {span_text(seen.at_us - down_us)} after it went down"
        self.add(seen.at_us, "host", f"{{}} {said}{after}", fact.host)

    def host_down(self, seen: Seen, fact: facts.HostDown) -> None:
        """Tell a crash or a clean stop of a host."""
        self._down_us[fact.host] = seen.at_us
        how = {
            "power": "crashed (power lost)",
            "process": "crashed (process killed)",
            "closed": CLOSED.removeprefix("{} "),
        }
        within_us = TOGETHER_US if fact.how == "closed" else 0
        self.add(seen.at_us, "host", f"{{}} {how.get(fact.how, fact.how)}", fact.host, within_us=within_us)

    def host_closed(self, seen: Seen, fact: facts.HostClosed) -> None:
        """Tell the duration of a clean stop, in the line of the stop if the line names only this host."""
        took = span_text(fact.took_us)
        ended = [line for line in self.lines[-20:] if line.sentence == CLOSED and line.who == [fact.host]]
        if ended and self._emit is None:
            ended[-1].sentence = f"{CLOSED}, in {took}"
        else:
            self.add(seen.at_us, "host", f"{{}} took {took} to close", fact.host)

    def host_paused(self, seen: Seen, fact: facts.HostPaused) -> None:
        """Tell the begin of a pause."""
        self.add(seen.at_us, "host", "{} paused", fact.host, within_us=0)

    def host_resumed(self, seen: Seen, fact: facts.HostResumed) -> None:
        """Tell the end of a pause."""
        self.add(seen.at_us, "host", "{} resumed", fact.host)

    def topic_grown(self, seen: Seen, fact: facts.TopicGrown) -> None:
        """Tell that partitions were added to a topic."""
        self.add(seen.at_us, "effect", f"{fact.topic} grew to {fact.partitions} partitions")

    def fault_applied(self, seen: Seen, fact: facts.FaultApplied) -> None:
        """Tell an entry of the plan."""
        self.applied_us.setdefault(fact.index, seen.at_us)
        self.add(seen.at_us, "fault", f"fault {fact.index}: {fact.text}")
        if self._emit is None:
            # The world reports a fault after its effects; the story names the cause first.
            line = self.lines.pop()
            place = len(self.lines)
            while place and self.lines[place - 1].at_us == seen.at_us and self.lines[place - 1].kind in CAUSED:
                place -= 1
            self.lines.insert(place, line)

    def fault_ended(self, seen: Seen, fact: facts.FaultEnded) -> None:
        """Tell the end of a lasting fault."""
        self.add(seen.at_us, "fault", f"fault {fact.index} ({fact.kind}) ended")

    def disk_tail_lost(self, seen: Seen, fact: facts.DiskTailLost) -> None:
        """Tell that a disk lost records."""
        self.add(seen.at_us, "effect", f"{fact.host} lost the last {fact.records} records of {fact.log}")

    def unflushed_lost(self, seen: Seen, fact: facts.UnflushedLost) -> None:
        """Tell that a power loss took records that were not flushed."""
        logs = ", ".join(log.removeprefix("replica/") for log, _, _ in fact.logs[:_SHOWN])
        more = f" and {len(fact.logs) - _SHOWN} more logs" if len(fact.logs) > _SHOWN else ""
        self.add(seen.at_us, "effect", f"{fact.host} lost the unflushed records of {logs}{more}")

    def core_healed(self, seen: Seen, fact: facts.CoreHealed) -> None:
        """Tell that only a core of the cluster recovers."""
        self._is_core = True
        self.add(seen.at_us, "fault", core_text(fact))

    def healed(self, seen: Seen, fact: facts.Healed) -> None:
        """Tell the end of the plan."""
        what = "the core is repaired" if self._is_core else "all faults are repaired"
        self.add(seen.at_us, "fault", f"the plan ended and {what}: the groups must recover")


_SHOWN = 3
"""Maximum number of logs that a line names."""
UNLOADED = "unloaded"
"""``GroupBecame.why`` of a group whose coordinator moved; the line of ``GroupUnloaded`` tells the move."""


def core_text(fact: facts.CoreHealed) -> str:
    """A sentence that names the hosts of the core, and says whether the core can recover."""
    away = f"{', '.join(fact.away)} excluded ({fact.how})" if fact.away else "no host excluded"
    recalled = f"; restarted because the core needs them: {', '.join(fact.recalled)}" if fact.recalled else ""
    more = len(fact.unrecoverable) - 1
    why = fact.unrecoverable[0] + (f", and {more} more" if more else "") if fact.unrecoverable else ""
    able = f"; the core cannot recover, so only safety is checked: {why}" if why else ""
    return f"repaired core: {', '.join(fact.core)}; {away}{recalled}{able}"


def _beside(text: str) -> str:
    return f": {text}" if text else ""


def _counted(members: int) -> str:
    return f"{members} member" + ("" if members == 1 else "s")


_TELLERS: dict[type, Callable[[Story, Seen, Any], None]] = {
    notes.GroupBecame: Story.group_became,
    GroupConverted: Story.group_converted,
    notes.JoinPhaseCompleted: Story.join_phase_completed,
    notes.GroupLoaded: Story.group_loaded,
    notes.GroupUnloaded: Story.group_unloaded,
    notes.RequestRefused: Story.request_refused,
    notes.MemberFailed: Story.member_failed,
    notes.PartitionsLost: Story.partitions_lost,
    notes.ListenerFailed: Story.listener_failed,
    notes.ScriptDeparted: Story.script_departed,
    notes.ScriptEnded: Story.script_ended,
    notes.AdminAnswered: Story.admin_answered,
    notes.GroupDescribed: Story.group_described,
    facts.MemberReconfigured: Story.member_reconfigured,
    facts.BrokerReconfigured: Story.broker_reconfigured,
    facts.HostStarted: Story.host_started,
    facts.HostDown: Story.host_down,
    facts.HostClosed: Story.host_closed,
    facts.HostPaused: Story.host_paused,
    facts.HostResumed: Story.host_resumed,
    facts.TopicGrown: Story.topic_grown,
    facts.FaultApplied: Story.fault_applied,
    facts.FaultEnded: Story.fault_ended,
    facts.DiskTailLost: Story.disk_tail_lost,
    facts.UnflushedLost: Story.unflushed_lost,
    facts.CoreHealed: Story.core_healed,
    facts.Healed: Story.healed,
}
"""Type of fact -> the method that adds a line about the fact. Each method accepts only its type of fact."""
