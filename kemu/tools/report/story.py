"""What happened in a run, in order, for people: an observer that keeps the turning points and drops the routine.

Lines that say the same of many hosts within ``TOGETHER_US`` become one line, so that a hundred members that start
within two seconds are one line and not a hundred. That line has the time of the first and names the time of the last. A
host that dies or stands still is told at its own time: only hosts of the same moment share such a line.
"""

from collections.abc import Callable
from typing import Any

from attrs import define

from kemu.emulator import facts
from kemu.emulator.facts import Seen
from kemu.protocol.notes import groups as notes
from kemu.tools.report import control_story, streams_story
from kemu.tools.report.control_story import PARTITIONS, ControlStory
from kemu.tools.report.streams_story import StreamsStory
from kemu.tools.report.transcript import partitions_text

TOGETHER_US = 3_000_000
"""How near in time equal lines must be to be told as one."""
TOLD_US = 1_000_000
"""How long a line must last for the time of its last host to be told."""
NAMED = 6
"""How many hosts a line names before it counts the rest."""
CAUSED = ("host", "effect")
"""Kinds of lines that a fault brings about at once."""
CALM = ("Stable", "Empty", "Dead")
CLOSED = "{} closed cleanly"

Emit = Callable[[str], None]


def clock_text(us: int) -> str:
    """A time of the world as minutes, seconds and milliseconds: "01:05.250"."""
    minutes, rest = divmod(us // 1_000, 60_000)
    return f"{minutes:02}:{rest // 1_000:02}.{rest % 1_000:03}"


def span_text(us: int) -> str:
    """How long something took, rounded for the eye: "850 ms", "12.3 s", "2 min 5 s"."""
    if us < 1_000_000:
        return f"{us / 1_000:.0f} ms"
    if us < 120_000_000:
        return f"{us / 1_000_000:.1f} s"
    return f"{us // 60_000_000} min {us % 60_000_000 // 1_000_000} s"


@define
class StoryLine:
    """One line of the story: a sentence, and of whom it is true."""

    at_us: int
    kind: str
    """group, fault, effect, host, member, control, partitions: for colour and order."""
    sentence: str
    """With "{}" where the hosts (or partitions) stand, if it is about any."""
    who: list[str]
    last_us: int = -1
    """When the last of them was added; -1: all at the same time."""

    def text(self) -> str:
        """The line without its time."""
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
    """Collects lines while a run goes on. With ``emit`` each is also handed out at once (for live runs)."""

    def __init__(self, emit: Emit | None = None) -> None:
        self.lines: list[StoryLine] = []
        self._emit = emit
        self._began: dict[str, tuple[int, str]] = {}
        """group -> when and why the rebalance that runs began."""
        self._down_us: dict[str, int] = {}
        """Host that is down -> since when."""
        self._members: dict[str, int] = {}
        """group -> members at the last completed join."""
        self._is_core = False
        """A core alone is healed."""
        self._control = ControlStory(self.add)
        self._tasks = StreamsStory(self.add)

    def wants(self, kind: type) -> bool:
        """Facts that are turning points."""
        return kind in _TELLERS or kind in control_story.TELLERS or kind in streams_story.TELLERS

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        tell = _TELLERS.get(type(seen.fact))
        if tell is not None:
            tell(self, seen, seen.fact)
        elif type(seen.fact) in control_story.TELLERS:
            control_story.TELLERS[type(seen.fact)](self._control, seen, seen.fact)
        elif type(seen.fact) in streams_story.TELLERS:
            streams_story.TELLERS[type(seen.fact)](self._tasks, seen, seen.fact)

    def add(self, at_us: int, kind: str, sentence: str, who: str = "", *, within_us: int = TOGETHER_US) -> None:
        """Add a line, or its host to an equal line that is at most ``within_us`` old."""
        for line in reversed(self.lines[-20:]):
            if who and line.sentence == sentence and at_us - line.at_us <= within_us and self._emit is None:
                if who not in line.who:
                    line.who.append(who)
                    line.last_us = at_us
                return
        line = StoryLine(at_us, kind, sentence, [who] if who else [])
        self.lines.append(line)
        if self._emit is not None:
            self._emit(f"{clock_text(at_us)}  {line.text()}")

    # --- groups ------------------------------------------------------------------------------------------------

    def group_became(self, seen: Seen, fact: notes.GroupBecame) -> None:
        """A rebalance is told when it begins and when it ends."""
        if fact.new == "PreparingRebalance":
            # A rebalance that begins again before it ended goes on: its cost is counted from the first beginning.
            again = " again" if fact.group in self._began else ""
            self._began.setdefault(fact.group, (seen.at_us, fact.why))
            self.add(seen.at_us, "group", f"{fact.group} rebalances{again}: {fact.why}")
        elif fact.new in CALM and fact.group in self._began:
            began_us, _ = self._began.pop(fact.group)
            took = span_text(seen.at_us - began_us)
            of = f", {_counted(self._members.get(fact.group, 0))}" if fact.new == "Stable" else ""
            self.add(seen.at_us, "group", f"{fact.group} is {fact.new}: generation {fact.generation}{of}, after {took}")
        elif fact.new in CALM:
            self.add(seen.at_us, "group", f"{fact.group} is {fact.new}: {fact.why}")

    def join_phase_completed(self, seen: Seen, fact: notes.JoinPhaseCompleted) -> None:
        """Remembered for the line that ends the rebalance."""
        self._members[fact.group] = len(fact.members)

    def group_loaded(self, seen: Seen, fact: notes.GroupLoaded) -> None:
        """A failover, seen from the new coordinator."""
        self._began.pop(fact.group, None)
        what = f"{fact.state}, generation {fact.generation}, {_counted(len(fact.members))}"
        self.add(seen.at_us, "group", f"{seen.actor} loaded {fact.group} from the log: {what}")

    def group_unloaded(self, seen: Seen, fact: notes.GroupUnloaded) -> None:
        """A failover, seen from the old coordinator."""
        self.add(seen.at_us, "group", f"{seen.actor} gave {fact.group} up")

    def member_failed(self, seen: Seen, fact: notes.MemberFailed) -> None:
        """A member that is of no use any more."""
        self.add(seen.at_us, "member", f"{{}} failed for good: {fact.error.name}, {fact.why}", seen.actor)

    def partitions_lost(self, seen: Seen, fact: notes.PartitionsLost) -> None:
        """A member learned that it was none any more."""
        if fact.lost:
            self.add(seen.at_us, "member", "{} lost all partitions (onPartitionsLost)", seen.actor)

    def listener_failed(self, seen: Seen, fact: notes.ListenerFailed) -> None:
        """A listener raised."""
        self.add(seen.at_us, "member", f"{fact.callback} of {{}} failed: {fact.why}", seen.actor)

    # --- the admin client --------------------------------------------------------------------------------------

    def admin_answered(self, seen: Seen, fact: notes.AdminAnswered) -> None:
        """What came of an admin client's request."""
        about = f" of {fact.group}" if fact.group else ""
        outcome = f"refused, {fact.error.name}" if fact.error else "done"
        self.add(seen.at_us, "effect", f"{fact.api}{about}: {outcome}{_beside(fact.text)}")

    def group_described(self, seen: Seen, fact: notes.GroupDescribed) -> None:
        """What a coordinator says of its group."""
        outcome = f"refused, {fact.error.name}" if fact.error else fact.state
        members = "" if fact.error else f" ({_counted(len(fact.members))}{_beside(', '.join(fact.members))})"
        self.add(seen.at_us, "effect", f"DescribeGroups of {fact.group}: {outcome}{members}")

    # --- the world ---------------------------------------------------------------------------------------------

    def member_reconfigured(self, seen: Seen, fact: facts.MemberReconfigured) -> None:
        """A step of a rolling upgrade."""
        said = [*([fact.profile] if fact.profile else []), *fact.settings]
        if fact.assignors:
            said.append(f"assignors {', '.join(fact.assignors)}")
        self.add(seen.at_us, "host", f"{{}} will start again with {'; '.join(said)}", fact.host)

    def broker_reconfigured(self, seen: Seen, fact: facts.BrokerReconfigured) -> None:
        """A step of an upgrade of brokers."""
        said = f"as {fact.profile}, inter.broker.protocol.version as {fact.protocol} has it"
        self.add(seen.at_us, "host", f"{{}} will start again {said}", fact.host)

    def host_started(self, seen: Seen, fact: facts.HostStarted) -> None:
        """Starts and restarts, and how long a host was down: that is drawn, and a start takes its time."""
        again = "started" if fact.life == 1 else "started again" if fact.kept_disk else "started again, its disk empty"
        down_us = self._down_us.pop(fact.host, None)
        after = "" if down_us is None else f", {span_text(seen.at_us - down_us)} after it went down"
        self.add(seen.at_us, "host", f"{{}} {again}{after}", fact.host)

    def host_down(self, seen: Seen, fact: facts.HostDown) -> None:
        """Deaths and clean ends."""
        self._down_us[fact.host] = seen.at_us
        how = {"power": "lost power", "process": "died (its process)", "closed": CLOSED.removeprefix("{} ")}
        within_us = TOGETHER_US if fact.how == "closed" else 0
        self.add(seen.at_us, "host", f"{{}} {how.get(fact.how, fact.how)}", fact.host, within_us=within_us)

    def host_closed(self, seen: Seen, fact: facts.HostClosed) -> None:
        """How long a clean end took: it goes with the line of that end, unless others ended then or it is told."""
        took = span_text(fact.took_us)
        ended = [line for line in self.lines[-20:] if line.sentence == CLOSED and line.who == [fact.host]]
        if ended and self._emit is None:
            ended[-1].sentence = f"{CLOSED}, {took} after it was asked to"
        else:
            self.add(seen.at_us, "host", f"{{}} took {took} to close", fact.host)

    def host_paused(self, seen: Seen, fact: facts.HostPaused) -> None:
        """A pause began."""
        self.add(seen.at_us, "host", "{} stands still", fact.host, within_us=0)

    def host_resumed(self, seen: Seen, fact: facts.HostResumed) -> None:
        """A pause is over."""
        self.add(seen.at_us, "host", "{} goes on", fact.host)

    def topic_grown(self, seen: Seen, fact: facts.TopicGrown) -> None:
        """A topic got partitions."""
        self.add(seen.at_us, "effect", f"{fact.topic} has {fact.partitions} partitions now")

    def fault_applied(self, seen: Seen, fact: facts.FaultApplied) -> None:
        """An entry of the plan."""
        self.add(seen.at_us, "fault", f"fault {fact.index}: {fact.text}")
        if self._emit is None:
            # It is reported after what it did; told, the cause comes first.
            line = self.lines.pop()
            place = len(self.lines)
            while place and self.lines[place - 1].at_us == seen.at_us and self.lines[place - 1].kind in CAUSED:
                place -= 1
            self.lines.insert(place, line)

    def fault_ended(self, seen: Seen, fact: facts.FaultEnded) -> None:
        """An entry of the plan is over."""
        self.add(seen.at_us, "fault", f"fault {fact.index} ({fact.kind}) is over")

    def disk_tail_lost(self, seen: Seen, fact: facts.DiskTailLost) -> None:
        """Records are gone."""
        self.add(seen.at_us, "effect", f"{fact.host} lost the last {fact.records} records of {fact.log}")

    def unflushed_lost(self, seen: Seen, fact: facts.UnflushedLost) -> None:
        """A power cut took what was not on the disk."""
        logs = ", ".join(log.removeprefix("replica/") for log, _, _ in fact.logs[:_SHOWN])
        more = f" and {len(fact.logs) - _SHOWN} more logs" if len(fact.logs) > _SHOWN else ""
        self.add(seen.at_us, "effect", f"{fact.host} lost what was not flushed of {logs}{more}")

    def core_healed(self, seen: Seen, fact: facts.CoreHealed) -> None:
        """Some stay away."""
        self._is_core = True
        self.add(seen.at_us, "fault", core_text(fact))

    def healed(self, seen: Seen, fact: facts.Healed) -> None:
        """The plan is over."""
        what = "the core" if self._is_core else "all"
        self.add(seen.at_us, "fault", f"the plan is over, {what} is healed: now the groups must get well")


_SHOWN = 3
"""How many logs a line names."""


def core_text(fact: facts.CoreHealed) -> str:
    """What of a cluster is healed, and whether it can get well."""
    away = f"{', '.join(fact.away)} stay away ({fact.how})" if fact.away else "nobody stays away"
    recalled = f"; needed and recalled: {', '.join(fact.recalled)}" if fact.recalled else ""
    more = len(fact.unrecoverable) - 1
    why = fact.unrecoverable[0] + (f", and {more} more" if more else "") if fact.unrecoverable else ""
    able = f"; it cannot get well, so that only safety is checked: {why}" if why else ""
    return f"the core is {', '.join(fact.core)}; {away}{recalled}{able}"


def _beside(text: str) -> str:
    return f": {text}" if text else ""


def _counted(members: int) -> str:
    return f"{members} member" + ("" if members == 1 else "s")


_TELLERS: dict[type, Callable[[Story, Seen, Any], None]] = {
    notes.GroupBecame: Story.group_became,
    notes.JoinPhaseCompleted: Story.join_phase_completed,
    notes.GroupLoaded: Story.group_loaded,
    notes.GroupUnloaded: Story.group_unloaded,
    notes.MemberFailed: Story.member_failed,
    notes.PartitionsLost: Story.partitions_lost,
    notes.ListenerFailed: Story.listener_failed,
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
"""Which fact is told by what. Any row is only ever called with its own type of fact."""
