"""A machine made of machines: a process with several clients inside, such as a Streams instance.

One step of the outer machine contains the necessary steps of inner machines. Each inner machine (a *part*) has its own
timers, logs, request ids and connections, and does not know the other parts. The outer machine prefixes a part's
effects with the part's name, and passes events with this prefix to the part. Peers know a part as ``c1/main``. In a
trace the names of its timers, logs and connections begin with ``main>``, and its notes have the actor ``c1/main``. A
part may also have parts.

Parts are only clients: they send requests and receive answers, and no peer can send them a request.
"""

from kemu.actors.machine import (
    Append,
    Appended,
    Effect,
    Event,
    Flush,
    Hangup,
    LinkDown,
    Loaded,
    Machine,
    Note,
    Received,
    Send,
    StartTimer,
    StopTimer,
    TimerFired,
    Told,
    WriteOnly,
)
from kemu.protocol.names import ActorName, part_and_rest, part_on, through


class _Part:
    """An inner machine, with its peers and the timers that may run, both in order of use."""

    def __init__(self, name: str, machine: Machine) -> None:
        self.name = name
        self.machine = machine
        self.peers: dict[ActorName, None] = {}
        self.timers: dict[tuple[str, ...], None] = {}


class _Hosted:
    """The inner machines of a machine, and what waits for them."""

    def __init__(self) -> None:
        self.parts: dict[str, _Part] = {}
        self.asked: dict[int, tuple[_Part, int, ActorName]] = {}
        """Request id of the outer machine -> (part, the part's request id, the peer)."""
        self.writing: dict[int, tuple[_Part, int]] = {}
        """Token of the outer machine -> (part, the part's token)."""
        self.last_token = 0
        self.loaded: dict[str, list[Loaded]] = {}
        """Records on disk of logs whose parts do not exist yet."""


class HostingMachine(Machine):
    """The base of machines made of machines. The method ``handle`` of a subclass begins with
    ``if self.passed_on(event): return``.
    """

    def __init__(self, name: ActorName) -> None:
        super().__init__(name)
        self._hosted: _Hosted | None = None
        """None before the first use: of a thousand consumers few or none have parts."""

    @property
    def _inside(self) -> _Hosted:
        hosted = self._hosted
        if hosted is None:
            hosted = self._hosted = _Hosted()
        return hosted

    def thread_of(self, what: str) -> str:
        """A thread of the part that has this timer or connection."""
        hosted = self._inside
        part, of_part = part_and_rest(what)
        return through(part, hosted.parts[part].machine.thread_of(of_part)) if part in hosted.parts else ""

    # --- verbs -------------------------------------------------------------------------------------------------

    def admit(self, part: str, machine: Machine) -> None:
        """Add an inner machine. The inner machine at once gets the records of its logs on disk, and no other event.

        The inner machine's name must be ``part_on(self.name, part)``, which is its address for peers.
        """
        hosted = self._inside
        assert part not in hosted.parts, f"{self.name} has a part {part}"
        assert machine.name == part_on(self.name, part), f"{machine.name} is no part {part} of {self.name}"
        machine.now_us = self.now_us
        hosted.parts[part] = _Part(part, machine)
        for loaded in hosted.loaded.pop(part, ()):
            self.step_part(part, loaded)

    def dismiss(self, part: str) -> None:
        """Remove an inner machine: close its connections, stop its timers, drop pending events for it."""
        dismissed = self._inside.parts.pop(part)
        for peer in dismissed.peers:
            self._forget_asked(dismissed, peer)
            self.hang_up(through(part, peer))
        for key in dismissed.timers:
            self.stop_timer((through(part, key[0]), *key[1:]))

    def tell_part(self, part: str, command: object) -> None:
        """Send a command to an inner machine, within this step."""
        self.step_part(part, Told(command))

    def part(self, part: str) -> Machine | None:
        """The inner machine of this name; None without such a machine."""
        found = self._inside.parts.get(part)
        return found.machine if found is not None else None

    def step_part(self, part: str, event: Event) -> None:
        """Run a step of an inner machine within this step; its effects join the outer machine's effects, in order."""
        hosted = self._inside
        inside = hosted.parts[part]
        effects = inside.machine.step(self.now_us, event)
        for effect in effects:
            self._effects.append(self._outward(inside, effect))
        for effect in effects:
            if type(effect) is Note:
                self.part_noted(part, effect.fact)
        if inside.machine.finished and hosted.parts.get(part) is inside:
            self.dismiss(part)
            self.part_finished(part)

    # --- hooks for subclasses ----------------------------------------------------------------------------------

    def part_noted(self, part: str, fact: object) -> None:
        """React to a fact that an inner machine reported; the step of the inner machine is complete."""

    def part_finished(self, part: str) -> None:
        """React to the end of an inner machine, which ended by itself and was dismissed."""

    def passed_on(self, event: Event) -> bool:
        """Whether an event belongs to a part. An existing part has already reacted to the event."""
        hosted = self._inside
        match event:
            case Received(request_id=number, connection=connection, version=version, message=message, peer=peer):
                if number not in hosted.asked:
                    return False
                inside, its_id, _ = hosted.asked.pop(number)
                self.step_part(inside.name, Received(peer, connection, its_id, version, message))
                return True
            case LinkDown(peer=label):
                part, peer = part_and_rest(label)
                if part in hosted.parts:
                    self._forget_asked(hosted.parts[part], peer)
                    self.step_part(part, LinkDown(peer))
                return bool(part)
            case TimerFired(key=key):
                part, first = part_and_rest(key[0])
                if part in hosted.parts:
                    own = (first, *key[1:])
                    del hosted.parts[part].timers[own]
                    self.step_part(part, TimerFired(own))
                return bool(part)
            case Appended(token=token, error=error, base_offset=base_offset):
                if token not in hosted.writing:
                    return False
                inside, its_token = hosted.writing.pop(token)
                if hosted.parts.get(inside.name) is inside:
                    self.step_part(inside.name, Appended(its_token, error, base_offset))
                return True
            case Loaded(log=log, records=records):
                part, own_log = part_and_rest(log)
                if part in hosted.parts:
                    self.step_part(part, Loaded(own_log, records))
                elif part:
                    hosted.loaded.setdefault(part, []).append(Loaded(own_log, records))
                return bool(part)
            case _:
                return False

    # --- effects of parts --------------------------------------------------------------------------------------

    def _outward(self, inside: _Part, effect: Effect) -> Effect:
        hosted = self._inside
        part = inside.name
        match effect:
            case Send(to=to, request_id=number, version=version, message=message):
                assert not effect.connection, f"{self.name}: part {part} answers {message} without a request"
                self._last_request_id += 1
                hosted.asked[self._last_request_id] = inside, number, to
                inside.peers[to] = None
                return Send(through(part, to), 0, self._last_request_id, version, message)
            case Hangup(peer=peer):
                self._forget_asked(inside, peer)
                inside.peers.pop(peer, None)
                return Hangup(through(part, peer))
            case StartTimer(key=key, after_us=after_us):
                inside.timers[key] = None
                return StartTimer((through(part, key[0]), *key[1:]), after_us)
            case StopTimer(key=key):
                inside.timers.pop(key, None)
                return StopTimer((through(part, key[0]), *key[1:]))
            case Append(log=log, records=records, token=token):
                hosted.last_token += 1
                hosted.writing[hosted.last_token] = inside, token
                return Append(through(part, log), records, hosted.last_token)
            case WriteOnly(log=log, records=records, token=token):
                hosted.last_token += 1
                hosted.writing[hosted.last_token] = inside, token
                return WriteOnly(through(part, log), records, hosted.last_token)
            case Flush(log=log):
                return Flush(through(part, log))
            case Note(fact=fact, part=of):
                return Note(fact, part_on(part, of))
            case _:
                raise AssertionError(f"{effect!r} is an unknown effect")

    def _forget_asked(self, inside: _Part, peer: ActorName) -> None:
        """Forget the requests of a part over a lost connection."""
        hosted = self._inside
        lost = [number for number, asked in hosted.asked.items() if asked[0] is inside and asked[2] == peer]
        for number in lost:
            del hosted.asked[number]
