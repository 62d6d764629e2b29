"""Stories told by messages alone: who sent what to whom, who got it, whose connection broke."""

from typing import Any

from kemu.actors.machine import Hangup, LinkDown, Received, Send
from kemu.emulator.checkers.base import Checker
from kemu.emulator.facts import HostStarted, RunStarted, Seen
from kemu.emulator.judging import Judging
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.watching.settings import Settings

S = 1_000_000
SCENARIO = """
[brokers]
count = 2
[brokers.replication]
[topics.orders]
partitions = 2
[groups.g]
topics = ["orders"]
members = 2
config = { "session.timeout.ms" = 10000, "heartbeat.interval.ms" = 3000, "request.timeout.ms" = 20000 }
"""


class Wired:
    """What crossed the wire, told to one checker. Requests have the ids that the story gives them."""

    def __init__(self, make: type[Checker], profile: str = "kafka-3.4") -> None:
        self.checker = make(Settings(scenario_from_toml(SCENARIO), profile))  # type: ignore[call-arg]
        self._judging = Judging([self.checker])
        self._seq = 0
        self.at_us = 0
        self.world(RunStarted(groups=("g",), members=(("c1", "g"), ("c2", "g")), brokers=("b0", "b1"), topics=()))
        for host in ("zk", "b0", "b1", "c1", "c2"):
            self.world(HostStarted(host=host, life=1, kept_disk=True))

    def world(self, fact: Any) -> None:
        self._see("", fact)

    def _see(self, actor: str, fact: Any, *, in_last_step: bool = False) -> None:
        self._seq += not in_last_step
        self._judging.panel.see(seen := Seen(self._seq, self.at_us, actor, 1 if actor else 0, fact))
        self.checker.see(seen)

    def wait(self, seconds: float) -> None:
        self.at_us += int(seconds * S)

    def sends(self, actor: str, to: str, message: object, number: int = 1) -> None:
        self._see(actor, Send(to, 0, number, 0, message))

    def gets(self, actor: str, peer: str, message: object, number: int = 1, connection: int = 1) -> None:
        self._see(actor, Received(peer, connection, number, 0, message))

    def replies(
        self, actor: str, to: str, message: object, number: int = 1, connection: int = 1, version: int = 0
    ) -> None:
        self._see(actor, Send(to, connection, number, version, message))

    def asks(self, actor: str, to: str, message: object, number: int = 1, connection: int = 1) -> None:
        """It is sent, and comes."""
        self.sends(actor, to, message, number)
        self.gets(to, actor, message, number, connection)

    def answers(self, actor: str, to: str, message: object, number: int = 1, connection: int = 1) -> None:
        self.replies(actor, to, message, number, connection)
        self.gets(to, actor, message, number, connection)

    def hangs_up(self, actor: str, peer: str) -> None:
        self._see(actor, Hangup(peer))

    def breaks(self, actor: str, peer: str) -> None:
        self._see(actor, LinkDown(peer))

    def note(self, actor: str, *facts: object) -> None:
        """The notes of one step."""
        for number, fact in enumerate(facts):
            self._see(actor, fact, in_last_step=number > 0)

    def said(self) -> list[str]:
        """The kinds of what the checker found until now."""
        self.checker.finish(self.at_us)
        return [violation.kind for violation in self.checker.violations]
