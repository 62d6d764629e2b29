"""Reassignments on paper with events: what the vectors describe, played with the planner's own pieces."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from kemu.protocol.reassign.batches import Batches
from kemu.protocol.reassign.moves import (
    Limits,
    Move,
    ReassignmentStep,
    Standing,
    leader_after,
    leader_epochs,
    next_step,
    waits_for,
    without,
)

LIMIT = {"replica": "replica_movements", "partition": "partition_movements", "leader": "leader_movements"}


def limits_of(raw: Mapping[str, int]) -> dict[str, int]:
    return {LIMIT[key]: value for key, value in raw.items()}


class Paper:
    """One vector: every started step is in sync before the next choice unless a broker it needs is offline."""

    def __init__(self, vector: Mapping[str, Any]) -> None:
        self.vector = vector
        many = isinstance(vector["start"], dict)
        self.many = many
        self.min_isr: int = vector["min_isr"]
        self.limits = Limits(**limits_of(vector["limits"]))
        self.online = frozenset(vector["online"])
        names = list(vector["start"]) if many else ["p"]

        def of(key: str, name: str) -> Any:
            return vector[key][name] if many else vector[key]

        self.moves: dict[str, Move] = {}
        self.standings: dict[str, Standing] = {}
        for name in names:
            self.moves[name] = Move.begin(tuple(of("start", name)), tuple(of("target", name)))
            isr = tuple(vector.get("isr", of("start", name)))
            self.standings[name] = Standing(of("leader", name), isr, self.online)
        self.batches: Batches[str] = Batches(self._step_of, self.limits)
        self.extra_epochs = 0
        self.rounds: list[dict[str, list[int]]] = []
        self.started: list[list[str]] = []
        self.leader_moves: list[int] = []
        self.detail: list[dict[str, Any]] = []
        self.waits: list[dict[str, Any]] = []
        self.events = list(vector.get("events", []))
        self.cancelled = False

    def _step_of(self, name: str) -> ReassignmentStep | None:
        return next_step(self.moves[name], self.standings[name], self.min_isr, self.batches.limits.replica_movements)

    def events_at(self, when: str, step: int) -> list[dict[str, Any]]:
        hit = [event for event in self.events if event["when"] == when and event["step"] == step]
        self.events = [event for event in self.events if event not in hit]
        return hit

    def apply(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type", "config")
        if kind == "config":
            self.batches.reconsider(evolve(self.batches.limits, **limits_of(event["limits"])))
        elif kind in ("up", "down"):
            broker = event["broker"]
            self.online = self.online | {broker} if kind == "up" else self.online - {broker}
            for name, standing in self.standings.items():
                self.standings[name] = evolve(standing, online=self.online)
            self.batches.reconsider()
        elif kind == "cancel":
            for name in self.moves:
                self._stopped(name)
                self.moves[name] = self.moves[name].cancelled()
                self.batches.restart(name)
            self.cancelled = True
        elif kind == "override":
            (name,) = self.moves
            running = self.batches.running.get(name)
            self.moves[name] = self.moves[name].overridden(tuple(event["target"]), running)
            self._stopped(name)
            self.batches.restart(name)
        else:
            assert kind == "controller_crash", event  # all that counts is stored: nothing changes on paper

    def _stopped(self, name: str) -> None:
        """The vectors count one leader epoch for each addition that is stopped midway."""
        running = self.batches.running.get(name)
        self.extra_epochs += len(running.add) if running else 0

    def play(self) -> None:
        for name, move in self.moves.items():
            if not move.done:
                self.batches.submit(name)
        for event in self.events_at("before", 1):
            self.apply(event)
        for number in range(1, 100):
            for event in self.events_at("before_round", number):
                self.apply(event)
            begun = self.batches.start()
            committed = len(self.rounds)
            if not begun:
                self._blocked(committed)
                events = self.events_at("blocked", committed)
                if not events:
                    return
                for event in events:
                    self.apply(event)
                continue
            for event in self.events_at("during", committed + 1):
                self.apply(event)
            self._commit(begun, committed + 1)
            for event in self.events_at("after", committed + 1):
                self.apply(event)
            for name in list(self.moves):
                if self.moves[name].done and name in self.batches:
                    self.batches.remove(name)
        raise AssertionError("no end")

    def _blocked(self, committed: int) -> None:
        if self.batches.blocked:
            self.waits.append({"after_step": committed, "state": "blocked"})

    def _commit(self, begun: list[tuple[str, ReassignmentStep]], number: int) -> None:
        row: dict[str, list[int]] = {}
        for name, step in begun:
            if self.batches.running.get(name) is not step:
                continue  # cancelled or overridden meanwhile
            isr = self._isr(name, step)
            if waits_for(self.moves[name], step, isr, self.min_isr):
                self.waits.append({"in_step": number, "state": "waiting for ISR"})
                for event in self.events_at("waiting", number):
                    self.apply(event)
                isr = self._isr(name, step)
            if waits_for(self.moves[name], step, isr, self.min_isr):
                continue
            standing = self.standings[name]
            leader = leader_after(self.moves[name], step, standing, isr)
            self.moves[name] = self.moves[name].committed(step)
            self.standings[name] = evolve(
                standing, leader=leader, isr=tuple(b for b in step.replicas if b in without(isr, step.drop))
            )
            row[name] = list(step.replicas)
            self.detail.append(
                {
                    "kind": step.kind.value,
                    "add": list(step.add),
                    "drop": list(step.drop),
                    "during": list(step.during),
                    "leader_after": leader,
                    "isr_after": list(self.standings[name].isr),
                    "leader_epoch_delta": leader_epochs(step, isr) + self.extra_epochs,
                }
            )
            self.extra_epochs = 0
            if self.moves[name].done:
                self.batches.remove(name)
            else:
                self.batches.committed(name)
        if row:
            self.rounds.append(row)
            self.started.append(list(row))
            self.leader_moves.append(sum(step.moves_leader for name, step in begun if name in row))

    def _isr(self, name: str, step: ReassignmentStep) -> tuple[int, ...]:
        before = self.standings[name].isr
        return tuple(b for b in step.during if b in self.online and (b in before or b in step.add))

    @property
    def ends(self) -> str:
        if any(not move.done for move in self.moves.values()):
            return "waiting"
        return "cancelled" if self.cancelled else "complete"
