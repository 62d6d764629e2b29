"""A small world for tests of the data path: machines, connections, timers and disks in virtual time, nothing drawn.

Messages cross as bytes. Every delay is fixed, so a test says exactly what happens; faults are methods.
"""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

from kemu.actors.machine import (
    Append,
    Appended,
    Event,
    Hangup,
    LinkDown,
    Loaded,
    Machine,
    Note,
    Received,
    Record,
    Send,
    StartTimer,
    StopTimer,
    TimerFired,
    Told,
)
from kemu.protocol.commands import Start
from kemu.protocol.errors import ErrorCode
from kemu.protocol.wire.codec import seal, unseal

LATENCY_US = 1_000
APPEND_US = 500


class Lot:
    """A fixed sequence of chance: 0, 1, 2, ... below each bound; the start differs between starts of a process."""

    def __init__(self, first: int = 0) -> None:
        self._numbers = count(first)

    def below(self, bound: int) -> int:
        """The next number, reduced modulo the bound."""
        return next(self._numbers) % bound


class DataWorld:
    """Hosts one machine per name; ``factories`` build the machine of each start (1 = first)."""

    def __init__(self) -> None:
        self.now_us = 0
        self.machines: dict[str, Machine] = {}
        self.factories: dict[str, Callable[[int], Machine]] = {}
        self.lives: dict[str, int] = {}
        self.disks: dict[str, dict[str, list[Record]]] = {}
        self.notes: list[tuple[str, Any]] = []
        self.sent: list[tuple[str, Send]] = []
        self.steps = 0
        self.reply_is_lost: Callable[[str, Any], bool] = lambda client, message: False
        """Whether this reply is lost: then its connection breaks instead."""
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._links: dict[tuple[str, str], int] = {}
        self._connections = count(1)
        self._timers: dict[tuple[str, tuple[str, ...]], int] = {}

    # --- hosts -------------------------------------------------------------------------------------------------

    def add(self, name: str, factory: Callable[[int], Machine], *told: object) -> None:
        """A host with one machine, started, then told these commands."""
        self.factories[name] = factory
        self.disks[name] = {}
        self.start(name, *told)

    def start(self, name: str, *told: object) -> None:
        """Start a host again, with its disk unchanged."""
        life = self.lives[name] = self.lives.get(name, 0) + 1
        self.machines[name] = self.factories[name](life)
        for log in sorted(self.disks[name]):
            self.step(name, Loaded(log, tuple(self.disks[name][log])))
        for command in (Start(), *told):
            self.step(name, Told(command))

    def crash(self, name: str) -> None:
        """End the process: its peers learn it at once; appends in progress are not written."""
        del self.machines[name]
        for timer in [timer for timer in self._timers if timer[0] == name]:
            del self._timers[timer]
        for link in [link for link in self._links if name in link]:
            self.break_link(*link)

    def tell(self, name: str, command: object) -> None:
        """A command from outside."""
        self.step(name, Told(command))

    def break_link(self, client: str, server: str) -> None:
        """Reset the connection: both ends learn it, messages in flight are lost."""
        if self._links.pop((client, server), None) is not None:
            for end, other in ((client, server), (server, client)):
                self._later(0, end, LinkDown(other))

    # --- time --------------------------------------------------------------------------------------------------

    def run(self, for_ms: int) -> None:
        """Let time pass."""
        end_us = self.now_us + for_ms * 1000
        while self._due and self._due[0][0] <= end_us:
            self.now_us, _, action = heapq.heappop(self._due)
            action()
        self.now_us = end_us

    def facts(self, kind: type, name: str | None = None) -> list[Any]:
        """The notes of this class, in order."""
        return [fact for actor, fact in self.notes if isinstance(fact, kind) and name in (None, actor)]

    def step(self, name: str, event: Event) -> None:
        """Step a machine and perform its effects."""
        machine = self.machines.get(name)
        if machine is None:
            return
        self.steps += 1
        for effect in machine.step(self.now_us, event):
            match effect:
                case Send():
                    self.sent.append((name, effect))
                    self._send(name, effect)
                case Hangup(peer=peer):
                    if self._links.pop((name, peer), None) is not None:
                        self._later(0, peer, LinkDown(name))
                case StartTimer(key=key, after_us=after_us):
                    number = self._timers[name, key] = next(self._order)
                    self._at(after_us, lambda key=key, number=number: self._fire(name, key, number))
                case StopTimer(key=key):
                    self._timers.pop((name, key), None)
                case Append(log=log, records=records, token=token):
                    life = self.lives[name]
                    write = (name, life, log, records, token)
                    self._at(APPEND_US, lambda write=write: self._write(*write))
                case Note(fact=fact):
                    self.notes.append((name, fact))

    # --- parts -------------------------------------------------------------------------------------------------

    def _at(self, after_us: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now_us + after_us, next(self._order), action))

    def _later(self, after_us: int, name: str, event: Event) -> None:
        life = self.lives[name]
        self._at(after_us, lambda: self.step(name, event) if self.lives[name] == life else None)

    def _fire(self, name: str, key: tuple[str, ...], number: int) -> None:
        if self._timers.get((name, key)) == number:
            del self._timers[name, key]
            self.step(name, TimerFired(key))

    def _write(self, name: str, life: int, log: str, records: tuple[Record, ...], token: int) -> None:
        if name in self.machines and self.lives[name] == life:
            written = self.disks[name].setdefault(log, [])
            base_offset = len(written)
            written.extend(records)
            self.step(name, Appended(token, ErrorCode.NONE, base_offset))

    def _send(self, name: str, effect: Send) -> None:
        data = seal(effect.message, effect.version)
        if effect.connection == 0:
            link = (name, effect.to)
            if effect.to not in self.machines:
                self._later(LATENCY_US, name, LinkDown(effect.to))  # connection refused
                return
            connection = self._links.setdefault(link, next(self._connections))
        else:
            link = (effect.to, name)
            connection = effect.connection
            if self._links.get(link) == connection and self.reply_is_lost(effect.to, effect.message):
                self.break_link(*link)
                return
        self._at(LATENCY_US, lambda: self._arrive(link, connection, name, effect, data))

    def _arrive(self, link: tuple[str, str], connection: int, sender: str, effect: Send, data: bytes) -> None:
        if self._links.get(link) == connection:
            message, version = unseal(data)
            self.step(effect.to, Received(sender, connection, effect.request_id, version, message))
