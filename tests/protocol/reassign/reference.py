"""A second implementation of KIP-435's choices, without queues or caches, and random cases that compare both.

Limits change, brokers stop and return, and targets change while steps run. The command makes 1,000 cases and prints the
differences: ``python -m tests.protocol.reassign.reference``.

Source: KIP-435, "Calculating a Reassignment Step", "Collecting a reassignment batch": a change of limits "would only
affect the next reassignment step calculation and would leave the currently running one as it is".
"""

import argparse
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from kemu.protocol.reassign.batches import Batches
from kemu.protocol.reassign.moves import UNLIMITED, Limits, Move, ReassignmentStep, Standing, next_step

Brokers = tuple[int, ...]


class Chosen(NamedTuple):
    """A step: replicas afterwards, added and removed replicas, and whether it moves a leader."""

    replicas: Brokers
    add: Brokers
    drop: Brokers
    moves_leader: bool
    only_order: bool


def reference_step(move: Move, now: Standing, min_isr: int, most: int) -> Chosen | None:
    """The next step by the page's list of rules."""
    current, final = move.replicas, move.target
    missing = [broker for broker in final if broker not in current]
    excess = [broker for broker in current if broker not in final]
    if (not missing and not excess) or most == UNLIMITED:
        return _chosen(move, now, missing, excess, for_leader=False)
    new = [broker for broker in missing if broker in now.online]
    new = [b for b in new if b in move.wanted_first] + [b for b in new if b not in move.wanted_first]
    in_sync = len({*current} & {*now.isr} & now.online)
    lacking = max(0, min_isr - in_sync) if {*current} == {*move.original} else 0
    budget = max(most, lacking)
    room = max(0, budget - len(({*current} & {*final}) - {*move.original} - {*now.isr}))
    most_drops = max(budget, len(current) - len(final))
    at_once = len(new) == len(missing) <= room and len(excess) <= most_drops
    if final[0] in new and room and not at_once:
        others = [broker for broker in new if broker != final[0]][: max(0, min(lacking, room) - 1)]
        return _chosen(move, now, [final[0], *others], [], for_leader=True)
    able = min(room, len(new))
    adds = {
        drops: max(min(able, max(0, len(final) - len(current) + drops)), min(lacking, able))
        for drops in range(len(excess) + 1)
    }
    wanted = min(most_drops, len(excess), max(0, len(current) + able - len(final)))
    stale = [broker for broker in excess if broker not in now.isr or broker not in now.online]
    wanted = min(wanted, len(stale) + max(0, in_sync + adds[wanted] - min(min_isr, len(final))))
    if not wanted and not adds[wanted]:
        return None
    dead = [broker for broker in excess if broker not in now.online]
    late = [broker for broker in excess if broker in now.online and broker not in now.isr]
    order = sorted(dead, key=lambda b: (b in now.isr, excess.index(b))) + late
    order += [broker for broker in excess if broker not in order]
    return _chosen(move, now, new[: adds[wanted]], order[:wanted], for_leader=False)


def _chosen(move: Move, now: Standing, add: list[int], drop: list[int], *, for_leader: bool) -> Chosen:
    members = ({*move.replicas} | {*add}) - {*drop}
    front = [broker for broker in move.target if broker in members]
    rest = [broker for broker in move.replicas if broker in members and broker not in front]
    goes = now.leader in drop or now.leader not in now.online
    return Chosen(
        (*front, *rest),
        tuple(sorted(add)),
        tuple(sorted(drop)),
        for_leader or goes,
        {*move.replicas} == {*move.target},
    )


class Reference:
    """Order the next steps: started partitions by request, then queued ones, moves of leaders first."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.order: list[int] = []
        self.running: dict[int, Chosen] = {}
        self.idle: set[int] = set()
        self.had_a_slot: set[int] = set()

    def step(self, at: int) -> Chosen | None:
        world = self.world
        return reference_step(world.moves[at], world.standing(at), world.min_isr, world.limits.replica_movements)

    def choose(self) -> list[tuple[int, Chosen]]:
        limits, begun = self.world.limits, []

        def leaders_left() -> bool:
            return sum(step.moves_leader for step in self.running.values()) < limits.leader_movements

        def begin(at: int, step: Chosen) -> None:
            self.running[at] = step
            self.had_a_slot.add(at)
            begun.append((at, step))

        for at in [at for at in self.order if at in self.idle]:
            step = self.step(at)
            if step is None:
                self.idle.remove(at)
            elif (step.only_order or len(self.running) < limits.partition_movements) and (
                not step.moves_leader or leaders_left()
            ):
                self.idle.remove(at)
                begin(at, step)
        while len(self.running) + len(self.idle) < limits.partition_movements:
            waiting = {at: self.step(at) for at in self.order if at not in self.running and at not in self.idle}
            able = [
                (not step.moves_leader, at not in self.had_a_slot, self.order.index(at), step)
                for at, step in waiting.items()
                if step is not None and (not step.moves_leader or leaders_left())
            ]
            if not able:
                break
            _, _, place, step = min(able, key=lambda row: row[:3])
            begin(self.order[place], step)
        return begun

    def committed(self, at: int) -> None:
        del self.running[at]
        self.idle.add(at)

    def retargeted(self, at: int) -> None:
        if at in self.running:
            self.committed(at)

    def remove(self, at: int) -> None:
        self.order.remove(at)
        self.running.pop(at, None)
        self.idle.discard(at)
        self.had_a_slot.discard(at)


class World:
    """Partitions, brokers and limits of one random case."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = Random(seed)
        self.brokers = range(draw.randint(4, 8))
        self.online = frozenset(self.brokers)
        self.min_isr = draw.randint(1, 2)
        self.limits = self._limits()
        self.moves: dict[int, Move] = {}
        self.isrs: dict[int, Brokers] = {}
        self.leaders: dict[int, int] = {}
        self.product: Batches[int] = Batches(self._product_step, self.limits)
        self.reference = Reference(self)

    def _limits(self) -> Limits:
        return Limits(*(self.draw.choice((1, 1, 2, 3, UNLIMITED)) for _ in range(3)))

    def _list(self) -> Brokers:
        return tuple(self.draw.sample(self.brokers, self.draw.randint(1, 4)))

    def standing(self, at: int) -> Standing:
        return Standing(self.leaders[at], self.isrs[at], self.online)

    def _product_step(self, at: int) -> ReassignmentStep | None:
        return next_step(self.moves[at], self.standing(at), self.min_isr, self.limits.replica_movements)

    def play(self, events: int = 60) -> str:
        """The first difference, "" if there is none."""
        for _ in range(events):
            what = self._event()
            begun = [(at, _as_chosen(self.moves[at], step)) for at, step in self.product.start()]
            expected = self.reference.choose()
            if begun != expected:
                return f"after {what}, limits {self.limits}: begins {begun}, and the reference {expected}"
        return ""

    def _event(self) -> str:
        running = [at for at, step in self.product.running.items() if {*step.add} <= self.online]
        known = [at for at in self.reference.order if not self.moves[at].rolls_back]
        what = self.draw.choice(("request", "limits", "broker", "cancel", "override", *["commit"] * 6))
        match what:
            case "request":
                self._request(self.draw.randint(1, 3))
            case "limits":
                self.limits = self._limits()
                self.product.reconsider(self.limits)
            case "broker":
                self.online ^= {self.draw.choice(self.brokers)}
                self._elect(self.moves)
                self.product.reconsider()
            case "commit" if running:
                self._commit(self.draw.choice(running))
            case "cancel" | "override" if known:
                at = self.draw.choice(known)
                target = self._list()
                step = self.product.running.get(at)
                move = self.moves[at]
                self.moves[at] = move.cancelled() if what == "cancel" else move.overridden(target, step)
                if self.moves[at].done:
                    self._remove(at)
                else:
                    self.product.restart(at)
                    self.reference.retargeted(at)
        return what

    def _request(self, count: int) -> None:
        for at in range(len(self.moves), len(self.moves) + count):
            move = self.moves[at] = Move.begin(self._list(), self._list())
            self.isrs[at], self.leaders[at] = tuple(b for b in move.replicas if b in self.online), -1
            self._elect([at])
            if not move.done:
                self.product.submit(at)
                self.reference.order.append(at)

    def _elect(self, partitions: Iterable[int]) -> None:
        for at in partitions:
            if self.leaders[at] not in self.online or self.leaders[at] not in self.isrs[at]:
                alive = [b for b in self.moves[at].replicas if b in self.isrs[at] and b in self.online]
                self.leaders[at] = alive[0] if alive else -1

    def _commit(self, at: int) -> None:
        step = self.product.running[at]
        self.isrs[at] = tuple(b for b in step.replicas if b in self.isrs[at] or b in step.add)
        self.moves[at] = self.moves[at].committed(step)
        if step.kind.value == "leader":
            self.leaders[at] = self.moves[at].target[0]
        self._elect([at])
        if self.moves[at].done:
            self._remove(at)
        else:
            self.product.committed(at)
            self.reference.committed(at)

    def _remove(self, at: int) -> None:
        self.product.remove(at)
        self.reference.remove(at)


def _as_chosen(move: Move, step: ReassignmentStep) -> Chosen:
    only_order = {*move.replicas} == {*move.target}
    return Chosen(step.replicas, tuple(sorted(step.add)), tuple(sorted(step.drop)), step.moves_leader, only_order)


def differences(seeds: Iterable[int]) -> dict[int, str]:
    """Seed -> the first difference of its case."""
    return {seed: found for seed in seeds if (found := World(seed).play())}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    cases = parser.parse_args().cases
    found = differences(range(cases))
    for seed, text in list(found.items())[:10]:
        print(f"seed {seed}: {text}")
    print(f"{len(found)} of {cases} cases differ")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
