"""The world: virtual time, hosts, and the effects of machines.

The agenda's next entry results in at most one turn: one event for one actor. A loop takes the turns in sequence. In a
turn the machine steps, the step is recorded, its effects are performed, and observers see its notes. No other code runs
in between, so the trace is a function of the scenario and the seed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from kemu.actors.machine import (
    EARLY_THREAD,
    Append,
    Appended,
    Event,
    Flush,
    Hangup,
    LinkDown,
    Loaded,
    Note,
    Received,
    Record,
    Send,
    StartTimer,
    StopTimer,
    TimerFired,
    TimerKey,
    Told,
    WriteOnly,
)
from kemu.emulator import facts
from kemu.emulator.chance import Choices, Entry
from kemu.emulator.engine.agenda import Agenda
from kemu.emulator.engine.disk_speed import DiskSpeed
from kemu.emulator.engine.hosts import (
    Actor,
    Condition,
    Disk,
    DiskWrite,
    Host,
    LimitedWrite,
    MachineFactory,
    PageCache,
    Timer,
    Turn,
)
from kemu.emulator.engine.network import Link, Network, Packet, Verdict
from kemu.emulator.engine.raised import LIVELOCK, clock_text, event_words, loop_words, raised_text, user_code_of
from kemu.emulator.engine.step_watch import EndlessStep, place_of
from kemu.emulator.facts import Seen
from kemu.emulator.trace.recorder import Recorder
from kemu.emulator.trace.rows import (
    APPEND,
    FLUSH,
    HANGUP,
    NOTE,
    RECEIVED,
    SEND,
    START_TIMER,
    STOP_TIMER,
    WRITE_ONLY,
    event_row,
)
from kemu.emulator.trace.traces import PacketRow
from kemu.protocol.commands import Start
from kemu.protocol.draws import Distribution
from kemu.protocol.errors import ErrorCode
from kemu.protocol.names import THROUGH, host_of, part_on, path_and_peer
from kemu.protocol.wire.values import ROW_OF


class Observer(Protocol):
    """An observer of facts: checkers, metrics, triggers, live output.

    An observer with a method ``wants(type) -> bool`` sees facts of these types only. A method ``handlers_of(type)``
    returns the handlers of a type (``facts.handlers_of``).
    """

    def see(self, seen: facts.Seen) -> None:
        """Show one fact to the observer."""
        ...


SPAN_US = 100_000
"""Span of virtual time over which steps are counted to detect a livelock."""
STEPS_OF_A_SPAN = 50_000
STEPS_OF_AN_ACTOR = 500
"""Steps in one span beyond which a livelock is suspected: ``STEPS_OF_AN_ACTOR`` per running actor, at least
``STEPS_OF_A_SPAN`` in all. No preset takes 3,000 steps in a span, even if all hosts start at once.
"""
STEPS_LOOKED_AT = 400
"""Number of further steps after the limit, in which the repeating events are searched."""

_Alike: TypeAlias = tuple[type, str, list[Any]]
"""Notes of a step in a row, of one type and one part: the type, the part, and the facts."""
_NO_NOTES: tuple[type | None, str, list[Any]] = None, "", []
_new = tuple.__new__
_PAUSED, _NO_ERROR = Condition.PAUSED, ErrorCode.NONE  # an enum member is slow to look up on CPython 3.11

# The row of such an effect is the effect's number, followed by its fields.
_START_TIMER_ROW, _STOP_TIMER_ROW, _HANGUP_ROW = (START_TIMER,), (STOP_TIMER,), (HANGUP,)
_APPEND_ROW, _WRITE_ONLY_ROW, _FLUSH_ROW = (APPEND,), (WRITE_ONLY,), (FLUSH,)


class MachineBroke(Exception):
    """A machine, or the user's code in a machine, raised an exception. The failed step is the last step of the trace.

    ``__cause__`` is the original exception. The first line of the text names the owner of the code.
    """


class Livelock(MachineBroke):
    """Virtual time makes no progress: a span has too many steps, or a step does not end."""


class World:
    """The hosts of a run in virtual time. ``Cluster`` adds the hosts, and ``Injector`` applies faults."""

    def __init__(
        self,
        choices: Choices,
        recorder: Recorder,
        *,
        latency_us: tuple[int, int],
        links_us: Mapping[tuple[str, str], tuple[int, int]] | None = None,
        append_us: int = 500,
        observers: Sequence[Observer] = (),
        drawn: Distribution | None = None,
        retransmit: Callable[[], int] | None = None,
        wake_us: Callable[[], int] | None = None,
    ) -> None:
        self.choices = choices
        self._wake_us = wake_us
        """Returns the time from the end of a pause until a host runs; None: threads wake at once, in a fixed order."""
        self._thread_order = choices.stream("threads").bits
        self.recorder = recorder
        self.now_us = 0
        self.steps = 0
        self.agenda = Agenda(choices)
        self._when_timer_due = self._timer_due  # one bound method for all entries of the agenda
        self.hosts: dict[str, Host] = {}
        self.network = Network(
            self.agenda, choices, self.hosts, latency_us, links_us or {}, self._record_packet, drawn, retransmit
        )
        self._observers = tuple(observers)
        self._wire_is_watched = facts.watches_the_wire(self._observers)
        self._watching: dict[type, tuple[facts.Handler, ...]] = {}
        """Type of a fact -> handlers; filled on first use."""
        self._taking_all: dict[type, facts.TakeAll] = {}
        """Type of a note -> the function that shows all notes of this type in a step; filled on first use."""
        self._watching_sent: dict[type, tuple[facts.Handler, ...]] = {}
        """Type of a message -> handlers of sent messages of this type; filled on first use."""
        self._watching_received: dict[type, tuple[facts.Handler, ...]] = {}
        self.append_us = append_us
        self._appended: dict[tuple[int, int], tuple[int, list[DiskWrite]]] = {}
        """(Time of their end, token) -> the last of the drawn ties, and the appends of the present step; the one with
        the last tie comes last."""
        self.weigh_write: Callable[[str, tuple[Record, ...]], int] = _bytes_of
        """Function that returns the size of a write in bytes; called only for disks of limited speed."""
        self.page_cache = PageCache()
        self.end_offset_of: Callable[[str, Sequence[Record]], int] = _no_offsets
        """Function that returns the end offset of a log with these records; -1 for a log without offsets of its own."""
        self.logs_found: Callable[[Host], facts.DiskFound | None] = _no_logs
        """Function that returns the partition logs on the disk of a starting broker."""
        self.append_of: Callable[[str, str], int] | None = None
        """(host, log) -> time of an append in us; None if all appends take ``append_us``."""
        self.written: Callable[[Host, str, tuple[Record, ...]], None] | None = None
        """Function called after a write to a log; it may compact the log."""
        self._span_ends_us = SPAN_US
        self._steps_before_span = 0
        """Number of steps before the present span of ``SPAN_US``."""
        self._most_steps = STEPS_OF_A_SPAN
        """Total number of steps at which the present span is checked for a livelock."""
        self._looked_at: list[str] = []
        """Descriptions of the span's events after the limit of steps."""
        self.stopped = ""
        """Reason of the end of the run; "" while it continues."""
        self.watch_sends: Callable[[Packet, Any], None] | None = None
        self.started: Callable[[Host], None] = _ignore
        """Function called when a host starts; the cluster informs the host."""
        self.went_down: Callable[[Host], None] = _ignore
        self.actor_came: Callable[[Actor], None] = _ignore
        """Function called at the start of an actor's life; the Trio loop starts a task."""
        self.actor_went: Callable[[Actor], None] = _ignore

    # --- time --------------------------------------------------------------------------------------------------

    def next_turn(self, until_us: int) -> Turn | None:
        """Take entries from the agenda until one results in a turn; None if no entry is due by ``until_us``."""
        heap, pop = self.agenda.heap, self.agenda.pop
        while heap and not self.stopped:
            if heap[0][0] > until_us:
                break
            entry = pop(heap)
            due_us = entry[0]
            if due_us != self.now_us:
                self.now_us = self.network.now_us = due_us
                if due_us >= self._span_ends_us:
                    self._span_ends_us, self._steps_before_span = due_us + SPAN_US, self.steps
                    self._most_steps = self.steps + STEPS_OF_A_SPAN
            turn: Turn | None = entry[3](entry)
            if turn is not None:
                if self.steps > self._most_steps:
                    self._stands_still(turn)
                return turn
        if not self.stopped and self.now_us < until_us:
            self.now_us = self.network.now_us = until_us
        return None

    def _stands_still(self, turn: Turn) -> None:
        """Raise once the repeating events of a span with too many steps are known.

        Raises:
            Livelock: the text names the repeating events and their actors.
        """
        actors = sum(len(host.actors) for host in self.hosts.values())
        self._most_steps = self._steps_before_span + STEPS_OF_A_SPAN + STEPS_OF_AN_ACTOR * actors
        if self.steps <= self._most_steps:
            return
        actor, event = turn
        looked_at = self._looked_at if self.steps > self._most_steps + 1 else []
        looked_at.append(f"{actor.name}: {event_words(event)}")
        self._looked_at = looked_at
        if len(looked_at) < STEPS_LOOKED_AT:
            return
        steps = self.steps - self._steps_before_span
        text = f"{LIVELOCK}{loop_words(looked_at)}, {steps:,} steps at {clock_text(self.now_us)}"
        row = (RECEIVED, self.network.arrived.id) if type(event) is Received else event_row(event)
        local_us = actor.host.local_us(self.now_us)
        self.recorder.broken((self.steps + 1, self.now_us, actor.name, actor.life, local_us, row, text))
        raise Livelock(text)

    def next_due_us(self) -> int | None:
        """Return the due time of the agenda's next entry; None without entries."""
        return self.agenda.heap[0][0] if self.agenda.heap else None

    def at(self, due_us: int, action: Callable[[], object]) -> None:
        """Call ``action`` at a time, before the events of machines at that time."""
        self.agenda.push_in_order(max(due_us, self.now_us), _call, action)

    # --- turns -------------------------------------------------------------------------------------------------

    def take_turn(self, actor: Actor, event: Event) -> None:
        """Step the machine, record the step, perform its effects, and inform observers."""
        host = actor.host
        now_us = self.now_us
        local_us = now_us if host.steady else host.local_us(now_us)
        self.steps = seq = self.steps + 1
        event_made = (RECEIVED, self.network.arrived.id) if type(event) is Received else event_row(event)
        try:
            effects: Sequence[Any] = actor.machine.step(local_us, event)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self._broken(actor, event, (seq, now_us, local_us, event_made), error) from error
        rows: list[tuple[Any, ...]] = []
        noted: list[_Alike | Send | Hangup] = []
        alike_kind, alike_part, alike = _NO_NOTES
        sent: list[PacketRow] = []
        wire_is_watched = self._wire_is_watched
        for effect in effects:
            kind = type(effect)
            if kind is Note:
                fact, part = effect
                note = type(fact)
                row = ROW_OF[note](fact)
                rows.append((NOTE, row, part) if part else (NOTE, row))
                if note is alike_kind and part == alike_part:
                    alike.append(fact)
                else:
                    alike_kind, alike_part, alike = note, part, [fact]
                    noted.append((note, part, alike))
            elif kind is Send:
                packet, record = self.network.send(actor, effect)
                rows.append((SEND, record[0], *effect[:3], packet.data))
                sent.append(record)
                if self.watch_sends is not None:
                    self.watch_sends(packet, effect[4])
                if wire_is_watched:
                    watchers = self._watching_sent.get(type(effect[4]))
                    if watchers is None:
                        watchers = self._watchers_sent(type(effect[4]))
                    if watchers:
                        noted.append(effect)
                        alike_kind = None
            elif kind is StartTimer:
                rows.append(_START_TIMER_ROW + effect)
                self._start_timer(actor, effect[0], effect[1])
            elif kind is StopTimer:
                rows.append(_STOP_TIMER_ROW + effect)
                if (timer := actor.timers.get(effect[0])) is not None:
                    timer.due_us = -1
            elif kind is WriteOnly:
                rows.append(_WRITE_ONLY_ROW + effect)
                self._write_only(actor, effect)
            elif kind is Append:
                rows.append(_APPEND_ROW + effect)
                self._append(actor, effect)
            elif kind is Flush:
                rows.append(_FLUSH_ROW + effect)
                self._flush(actor, effect[0])
            else:
                assert kind is Hangup, effect
                rows.append(_HANGUP_ROW + effect)
                self.network.hang_up(actor, effect[0])
                if wire_is_watched and self._watchers_of(Hangup):
                    noted.append(effect)
                    alike_kind = None
        if self._appended:
            self._schedule_appends()
        self.recorder.step((seq, now_us, actor.name, actor.life, local_us, event_made, rows))
        for record in sent:
            self.recorder.packet(record)
        if wire_is_watched:
            if type(event) is Received:
                self._tell_of_arrival(actor, event, seq)
            elif type(event) is LinkDown:
                self._tell_of_link(actor, event, seq)
        if noted:
            self._tell(actor, noted, seq)
        if actor.machine.finished and host.running:
            self.take_down(host, Condition.CLOSED)

    def _broken(
        self, actor: Actor, event: Event, step: tuple[int, int, int, tuple[Any, ...]], error: BaseException
    ) -> MachineBroke:
        """Record a step (number, time, host's time, event) that raised, and return the exception for it."""
        seq, now_us, local_us, event_made = step
        text, whose = f"{type(error).__name__}: {error}", user_code_of(error)
        if isinstance(error, EndlessStep):
            where = f"{whose} ({place_of(error)})" if whose else place_of(error)
            text = f"{LIVELOCK}{actor.name}: {event_words(event)}, a step without end in {where}"
        self.recorder.broken((seq, now_us, actor.name, actor.life, local_us, event_made, text))
        if isinstance(error, EndlessStep):
            return Livelock(f"{text} at {clock_text(now_us)}")
        if whose:
            return MachineBroke(raised_text(f"the {whose} of {actor.host.name}", error, now_us))
        return MachineBroke(f"{actor.name} at {now_us} us, step {seq}: {text}")

    def watch(self, observers: Sequence[Observer]) -> None:
        """Set the observers. Each fact is shown to the observers in this order."""
        self._observers = tuple(observers)
        self._wire_is_watched = facts.watches_the_wire(self._observers)
        self._watching, self._watching_sent, self._watching_received = {}, {}, {}
        self._taking_all = {}

    def watch_anew(self) -> None:
        """Ask the observers again for the kinds of facts that they want."""
        self.watch(self._observers)

    def _watchers_of(self, kind: type) -> tuple[facts.Handler, ...]:
        found = self._watching[kind] = facts.handlers_of(self._observers, kind)
        return found

    def _taker_of(self, kind: type) -> facts.TakeAll:
        watchers = self._watchers_of(kind)
        shows = self._show_each if watchers else _show_nobody
        found = self._taking_all[kind] = facts.take_all_of(watchers) or shows
        return found

    def _watchers_sent(self, message: type) -> tuple[facts.Handler, ...]:
        found = self._watching_sent[message] = facts.handlers_of(self._observers, facts.sent(message))
        return found

    def _tell(self, actor: Actor, said: Sequence[Any], seq: int) -> None:
        """Show observers the notes (``_Alike``) and the watched messages of a step."""
        name, life = actor.name, actor.life
        for effect in said:
            if type(effect) is tuple:
                kind, part, alike = effect
                take_all = self._taking_all.get(kind) or self._taker_of(kind)
                take_all(seq, self.now_us, part_on(name, part) if part else name, life, alike)
            elif type(effect) is Send and THROUGH not in effect[0]:
                seen = _new(Seen, (seq, self.now_us, name, life, effect))
                for take in self._watching_sent[type(effect[4])]:
                    take(seen, effect)
            else:
                self._tell_of_link(actor, effect, seq)

    def _show_each(self, seq: int, at_us: int, actor: str, life: int, alike: Sequence[Any]) -> None:
        """Show observers notes of one type, one after the other."""
        kind = type(alike[0])
        for fact in alike:
            seen = _new(Seen, (seq, at_us, actor, life, fact))
            for take in self._watching.get(kind) or self._watchers_of(kind):
                take(seen, fact)

    def _tell_of_arrival(self, actor: Actor, event: Received, seq: int) -> None:
        message = type(event[4])
        watchers = self._watching_received.get(message)
        if watchers is None:
            watchers = facts.handlers_of(self._observers, facts.received(message))
            self._watching_received[message] = watchers
        if not watchers:
            return
        seen = _new(Seen, (seq, self.now_us, self.network.arrived.receiver, actor.life, event))
        for take in watchers:
            take(seen, event)

    def _tell_of_link(self, actor: Actor, said: Note | Send | Hangup | LinkDown, seq: int) -> None:
        """Show observers a sent message, or the end of a connection, of an actor or a part of the actor."""
        watchers = self._watching_sent[type(said[4])] if isinstance(said, Send) else self._watchers_of(type(said))
        by, told = facts.of_part(actor.name, said) if THROUGH in said[0] else (actor.name, said)
        seen = facts.Seen(seq, self.now_us, by, actor.life, told)
        for take in watchers:
            take(seen, told)

    def report(self, fact: Any) -> None:
        """Record a fact of the world, and show it to observers."""
        self.recorder.fact(self.steps, self.now_us, fact)
        seen = facts.Seen(self.steps, self.now_us, "", 0, fact)
        for take in self._watching.get(type(fact)) or self._watchers_of(type(fact)):
            take(seen, fact)

    def _record_packet(self, packet: Packet, verdict: Verdict, due_us: int) -> None:
        link = packet.link
        sender, to = (link.server, link.client) if packet.reply else (link.client, link.server)
        self.recorder.packet(
            (packet.id, self.now_us, sender, to, packet.connection, packet.api, len(packet.data), verdict, due_us)
        )

    # --- timers ------------------------------------------------------------------------------------------------

    def _start_timer(self, actor: Actor, key: TimerKey, after_us: int) -> None:
        host = actor.host
        due_us = self.now_us + (host.world_span_us(after_us) if host.ppm else after_us)
        timer = actor.timers.get(key)
        if timer is None:
            timer = actor.timers[key] = Timer(actor, key, due_us)
        else:
            timer.due_us = due_us
            if timer.queued_us <= due_us:
                return
            timer.queued_us = due_us
        timer.queued_seq = self.agenda.push(due_us, self._when_timer_due, timer)

    def _timer_due(self, entry: Entry) -> Turn | None:
        timer: Timer = entry[4]
        if timer.queued_seq != entry[2]:
            return None
        actor = timer.actor
        host = actor.host
        if host.actors.get(actor.name) is not actor:
            return None
        if timer.due_us < 0:
            del actor.timers[timer.key]
            return None
        if timer.due_us > self.now_us:
            timer.queued_us = timer.due_us
            timer.queued_seq = self.agenda.push(timer.due_us, self._when_timer_due, timer)
            return None
        if host.condition is _PAUSED:
            host.held.append(entry)
            return None
        del actor.timers[timer.key]
        return actor, _new(TimerFired, (timer.key,))

    # --- disks -------------------------------------------------------------------------------------------------

    def _write_only(self, actor: Actor, effect: WriteOnly) -> None:
        disk = actor.host.disk
        log, records, token = effect[:]
        if disk.pending and disk.is_flushing(log):
            self._append(actor, effect)
            return
        base = disk.write_only(actor, log, records, self.now_us)
        if self.written is not None:
            self.written(actor.host, log, records)
        event = _new(Appended, (token, _NO_ERROR, base))
        speed = actor.host.disk_speed
        if speed is not None and speed.bytes_per_s:
            speed.take(self.weigh_write(log, records), LimitedWrite(None, 0, (actor, event)), self.now_us)
        else:
            self.agenda.push(self.now_us, self._event_due, (actor, event))

    def _append(self, actor: Actor, effect: Append | WriteOnly) -> None:
        host = actor.host
        log, records, token = effect
        write = host.disk.issue(actor, log, records, token)
        appends = actor.appends
        appends[token] = appends[token] + 1 if token in appends else 1
        due_us = self.now_us + (self.append_us if self.append_of is None else self.append_of(host.name, log))
        speed = host.disk_speed
        if speed is not None and speed.bytes_per_s:
            speed.take(self.weigh_write(log, records), LimitedWrite(write, due_us, None), self.now_us)
            return
        key = self._durable_at(write, due_us), token
        tie = self.agenda.ties(32)
        last = self._appended.get(key)
        if last is None:
            self._appended[key] = tie, [write]
        elif tie > last[0]:
            last[1].append(write)
            self._appended[key] = tie, last[1]
        else:
            last[1].insert(-1, write)

    def _schedule_appends(self) -> None:
        """Schedule the ends of a step's appends: one entry for all of one token that end at one time."""
        for (due_us, _), (tie, writes) in self._appended.items():
            self.agenda.push_tied(due_us, tie, self._append_done, writes)
        self._appended = {}

    def _durable_at(self, write: DiskWrite, least_us: int) -> int:
        """The time of the end of an append: not before ``least_us``, and not before earlier appends to the same log."""
        dues_us, log = write.actor.host.disk.due_us, write.log
        last_us = dues_us.get(log, 0)
        dues_us[log] = due_us = least_us if least_us > last_us else last_us + 1
        return due_us

    def limit_disk(self, host: Host, bytes_per_s: int) -> None:
        """Set the speed of a host's disk in bytes per second; 0 removes the limit."""
        if host.disk_speed is None:
            host.disk_speed = DiskSpeed(self.agenda, self._taken)
        host.disk_speed.limit(bytes_per_s, self.now_us)

    def _taken(self, limited: LimitedWrite) -> None:
        """Answer a write that a disk of limited speed has finished, or make the write durable."""
        if limited.append is not None:
            due_us = self._durable_at(limited.append, max(limited.due_us, self.now_us))
            self.agenda.push(due_us, self._append_done, [limited.append])
        else:
            self.agenda.push(self.now_us, self._event_due, limited.answer)

    def _append_done(self, entry: Entry) -> Turn | None:
        """Finish writes of one token, which end at the same time."""
        writes: list[DiskWrite] = entry[4]
        actor, token = writes[0].actor, writes[0].token
        disk, base, written = actor.host.disk, -1, self.written
        left, pending, finish = actor.appends.get(token, 0), disk.pending, disk.finish
        for write in writes:
            if pending.get(write.number) is write:
                base = finish(write)
                left -= 1
                if written is not None:
                    written(actor.host, write.log, write.records)
        if base < 0:
            return None
        if left:
            actor.appends[token] = left
            return None
        del actor.appends[token]
        return self._deliver(actor, _new(Appended, (token, _NO_ERROR, base)))

    def _flush(self, actor: Actor, log: str) -> None:
        disk = actor.host.disk
        write = disk.flush(actor, log)
        self.agenda.push(self.now_us + self.append_us, self._flush_done, write)

    def _flush_done(self, entry: Entry) -> None:
        write: DiskWrite = entry[4]
        disk = write.actor.host.disk
        if disk.pending.get(write.number) is write:
            disk.finish(write)

    def lose_tail(self, host: Host, log: str, records: int) -> int:
        """Remove the last records of a log of a host that is down; return the number of removed records."""
        lost = host.disk.lose_tail(log, records)
        if lost:
            end = self.end_offset_of(log, host.disk.logs[log])
            self.report(facts.DiskTailLost(host=host.name, log=log, records=lost, end_offset=end))
        return lost

    def fail_writes(self, host: Host, log: str, error: ErrorCode) -> None:
        """Fail the unfinished writes of a log, and inform their actors."""
        for write in host.disk.fail(log):
            assert write.actor.appends.pop(write.token) == 1, "other appends of this token do not fail"
            self.agenda.push_in_order(self.now_us, self._event_due, (write.actor, Appended(write.token, error, -1)))

    # --- events from outside -----------------------------------------------------------------------------------

    def tell(self, actor_name: str, command: object) -> bool:
        """Send an actor a command as an event; return False if the actor does not run."""
        host = self.hosts.get(host_of(actor_name))
        actor = host.actors.get(actor_name) if host is not None else None
        if actor is None:
            return False
        self._most_steps += 1  # commands are no sign of a livelock: a large topic has one for each partition
        self._steps_before_span += 1
        self.agenda.push_in_order(self.now_us, self._event_due, (actor, Told(command)))
        return True

    def _event_due(self, entry: Entry) -> Turn | None:
        actor, event = entry[4]
        return self._deliver(actor, event)

    def _deliver(self, actor: Actor, event: Event) -> Turn | None:
        host = actor.host
        if host.actors.get(actor.name) is not actor:
            return None
        if host.condition is _PAUSED:
            host.held.append((self.now_us, 0, 0, self._event_due, (actor, event)))
            return None
        return actor, event

    # --- hosts -------------------------------------------------------------------------------------------------

    def add_host(self, name: str, factories: dict[str, MachineFactory]) -> Host:
        """Add a host that does not run yet."""
        assert name not in self.hosts, f"host {name} exists"
        host = self.hosts[name] = Host(name, factories)
        host.disk.cache = self.page_cache
        return host

    def start(self, host: Host, *, keep_disk: bool = True) -> None:
        """Start a host's next life."""
        assert not host.running, f"{host.name} runs already"
        if not keep_disk:
            host.disk = Disk(self.page_cache)
            if host.disk_speed is not None:
                host.disk_speed.forget()
        host.life += 1
        host.condition = Condition.UP
        host.running = True
        self.report(facts.HostStarted(host=host.name, life=host.life, kept_disk=keep_disk))
        found = self.logs_found(host)
        if found is not None:
            self.report(found)
        for name, factory in host.factories.items():
            machine = factory(host.life)
            machine.now_us = host.local_us(self.now_us)
            actor = host.actors[name] = Actor(name, host, machine)
            self.actor_came(actor)
        for name, actor in host.actors.items():
            for log in host.disk.logs_of(name, main=name == host.name):
                if not log.startswith("__"):
                    records = tuple(host.disk.logs[log])
                    self.agenda.push_in_order(self.now_us, self._event_due, (actor, Loaded(log, records)))
            self.tell(name, Start())
        self.network.host_up(host)
        self.started(host)

    def take_down(self, host: Host, how: Condition) -> None:
        """End a host's life: by a power cut (SILENT), by the death of its process (CRASHED), or by a clean end
        (CLOSED).
        """
        assert host.running, f"{host.name} is down already"
        lost: dict[str, int] = {}
        if how is Condition.SILENT:
            lost = host.disk.power_cut(self.choices.stream(f"disk/{host.name}/life {host.life}"), self.now_us)
            if host.disk_speed is not None:
                host.disk_speed.forget()
        else:
            host.disk.process_died()
        host.condition = how
        host.running = False
        actors = list(host.actors.values())
        host.actors = {}
        host.held = []
        self.network.host_down(host, silent=how is Condition.SILENT)
        for actor in actors:
            self.actor_went(actor)
        self.report(facts.HostDown(host=host.name, life=host.life, how=how.value))
        if lost:
            logs = tuple((log, count, self.end_offset_of(log, host.disk.logs[log])) for log, count in lost.items())
            self.report(facts.UnflushedLost(host=host.name, logs=logs))
        self.went_down(host)

    def pause(self, host: Host) -> None:
        """Pause a host."""
        host.pauses += 1
        if host.condition is Condition.UP:
            host.condition = Condition.PAUSED
            self.report(facts.HostPaused(host=host.name))

    def resume(self, host: Host) -> None:
        """Resume a host: waiting events come first, in their original order.

        Where the wake-up of threads is drawn, the host runs after a drawn time, and its threads continue in a drawn
        order.
        """
        if host.condition is not Condition.PAUSED:
            return
        if self._wake_us is None:
            self._run_again(host, host.pauses)
        else:
            self.at(self.now_us + self._wake_us(), partial(self._run_again, host, host.pauses))

    def _run_again(self, host: Host, pauses: int) -> None:
        if host.condition is Condition.PAUSED and host.pauses == pauses:
            host.condition = Condition.UP
            self.report(facts.HostResumed(host=host.name))
            held, host.held = host.held, []
            for entry in held if self._wake_us is None else self._by_thread(held):
                seq = self.agenda.push_in_order(self.now_us, entry[3], entry[4])
                if type(entry[4]) is Timer and entry[4].queued_seq == entry[2]:
                    entry[4].queued_seq = seq
                    entry[4].queued_us = self.now_us

    def _woken_by(self, entry: Entry) -> tuple[Actor, str]:
        """The actor of a waiting event, and the first word of a timer's key, or the peer of a connection."""
        about = entry[4]
        if isinstance(about, Timer):
            return about.actor, about.key[0]
        if isinstance(about, Packet):
            link, of_client = about.link, about.reply
        elif isinstance(about[0], Link):
            link, of_client = about[0], self.network.is_news_of_client(entry)
        else:
            actor, event = about
            return actor, event.peer if isinstance(event, LinkDown) else ""
        host = link.client_host if of_client else link.server_host
        assert host is not None
        return (host.actors[link.actor], link.label) if of_client else (host.actors[link.server], link.client)

    def _by_thread(self, held: Sequence[Entry]) -> list[Entry]:
        """Order the events that waited: thread after thread, in a drawn order after the early threads. A thread that is
        one of several reads from its connections first.
        """
        threads: dict[tuple[str, str], list[Entry]] = {}
        for entry in held:
            actor, what = self._woken_by(entry)
            thread = actor.machine.thread_of(what)
            threads.setdefault((actor.name, thread), []).append(entry)
        drawn = {thread: (path_and_peer(thread[1])[1] != EARLY_THREAD, self._thread_order(32)) for thread in threads}
        return [
            entry
            for thread in sorted(threads, key=drawn.__getitem__)
            for entry in sorted(threads[thread], key=lambda entry: bool(thread[1]) and type(entry[4]) is Timer)
        ]


def _call(entry: Entry) -> None:
    entry[4]()


def _bytes_of(log: str, records: tuple[Record, ...]) -> int:
    return sum(len(key) + len(value or b"") for key, value in records)


def _no_offsets(log: str, records: Sequence[Record]) -> int:
    return -1


def _no_logs(host: Host) -> facts.DiskFound | None:
    return None


def _show_nobody(seq: int, at_us: int, actor: str, life: int, alike: Sequence[Any]) -> None:
    return None


def _ignore(_: Any) -> None:
    return None
