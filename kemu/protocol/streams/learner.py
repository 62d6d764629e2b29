"""The learner assignor of KIP-429's page (version 99): it assigns active tasks, learners and standbys.

A task moves in three steps. Another instance, the learner, restores the task while the task's owner keeps running it.
The owner pauses the task when the owner joins the next rebalance. This rebalance assigns the task to the learner. Each
phase is a pass over all tasks, in order of their numbers; names decide ties. Where the page is silent or contradictory,
this reading reproduces its six examples row by row.
"""

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction

from attrs import field

from kemu.protocol.frozen import define, frozen
from kemu.protocol.streams.balance import bands, evens_out, is_stable
from kemu.protocol.streams.modes import BALANCE, SCALE_DOWN
from kemu.protocol.streams.tasks import ClientId, TaskId, in_order


@frozen
class LearnerConfig:
    """The leader's settings.

    ``pick``: the task of the heaviest owner that gets a learner (the page's examples need both values). ``imbalance``:
    a fraction (``stream.imbalance.percentage``), None: as even as possible. ``prefer_caught_up``: a task without an
    owner is assigned to the learner or standby with the smallest lag; the page prefers learners.
    """

    stage: int = BALANCE
    pick: str = "lowest"
    num_standby: int = 0
    imbalance: Fraction | None = None
    prefer_caught_up: bool = False


@frozen
class StreamsMember:
    """The report of an instance when it joins.

    ``assigned``: active tasks that the instance still owns. ``revoked``: tasks with learners on other instances, which
    the instance paused for this rebalance. ``learning``: tasks that the instance restores, with their lag in records.
    ``ready``: the caught-up tasks in ``learning``. ``standby``: the instance's standbys, with their lag. ``expired``:
    the instance is leaving, and its time limit has passed.
    """

    weight: int = 1
    assigned: tuple[TaskId, ...] = ()
    revoked: tuple[TaskId, ...] = ()
    learning: Mapping[TaskId, int] = field(factory=dict)
    ready: frozenset[TaskId] = frozenset()
    standby: Mapping[TaskId, int] = field(factory=dict)
    leaving: bool = False
    expired: bool = False
    learner_capable: bool = True
    generation: int = 0


@frozen
class StreamsAssignment:
    """The assignment of an instance. ``being_learned``: the instance's active tasks that have learners on other
    instances.
    """

    assigned: tuple[TaskId, ...] = ()
    revoked: tuple[TaskId, ...] = ()
    learning: tuple[TaskId, ...] = ()
    being_learned: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()
    shutdown: bool = False


def assign_learners(
    members: Mapping[ClientId, StreamsMember],
    stateful: Collection[TaskId],
    stateless: Collection[TaskId] = (),
    *,
    last_instances: Collection[ClientId] | None,
    config: LearnerConfig,
) -> dict[ClientId, StreamsAssignment]:
    """The assignment by one rebalance of the leader.

    Args:
        members: the reports by instance; at least one.
        stateful: the tasks with state.
        stateless: the tasks without state; they are balanced separately and need no learner.
        last_instances: the instances of the previous rebalance, as the leader remembers them. None: the leader is new,
            and considers no instance as new.
        config: the leader's settings.

    Returns:
        The assignment of every instance. A task without an owner waits for the next rebalance, which follows at once.

    Raises:
        ValueError: there is no member, or a member has a weight below 1.
    """
    if not members:
        raise ValueError("there is no member")
    light = [name for name, member in members.items() if member.weight < 1]
    if light:
        raise ValueError(f"{light[0]} has a weight of {members[light[0]].weight}, it must be at least 1")
    ordered = {name: members[name] for name in sorted(members)}
    round_ = _Round(ordered, in_order(stateful), in_order(stateless), last_instances, config)
    round_.give_active()
    round_.even_out_stateless()
    round_.give_learners()
    round_.give_standbys()
    return round_.result()


@define
class _Seat:
    """The state of one instance during the computation."""

    name: ClientId
    member: StreamsMember
    active: set[TaskId] = field(factory=set)
    """The stateful tasks of the instance."""
    stateless: set[TaskId] = field(factory=set)
    learning: set[TaskId] = field(factory=set)
    standby: set[TaskId] = field(factory=set)
    incoming: int = 0
    """The number of learners that the instance will get, minus its active tasks that have learners."""
    stateless_incoming: int = 0
    """The number of tasks that the instance gets in the next rebalance."""

    @property
    def stateless_load(self) -> int:
        return len(self.stateless) + self.stateless_incoming

    def per_weight(self, count: int) -> tuple[Fraction, ClientId]:
        return Fraction(count, self.member.weight), self.name


class _Round:
    def __init__(
        self,
        members: Mapping[ClientId, StreamsMember],
        stateful: list[TaskId],
        stateless: list[TaskId],
        last_instances: Collection[ClientId] | None,
        config: LearnerConfig,
    ) -> None:
        self._config = config
        self._seats = {name: _Seat(name, member) for name, member in members.items()}
        self._staying = [seat for seat in self._seats.values() if not seat.member.leaving]
        self._stateful = stateful
        self._stateless = stateless
        self._with_state = frozenset(stateful)
        self._owner: dict[TaskId, _Seat] = {}
        self._in_transfer: set[TaskId] = set()
        """Tasks that their owner has not paused: the owner revokes them now, and the next rebalance assigns them."""
        self._prev = {task: self._previous(task) for task in (*stateful, *stateless)}
        self._kept: dict[TaskId, _Seat] = {}
        for task in stateful:
            learners = [seat for seat in self._staying if task in seat.member.learning]
            if learners:
                self._kept[task] = min(learners, key=lambda seat: self._progress(task, seat))
        known = None if last_instances is None else frozenset(last_instances)
        self._newcomers = [] if known is None else [seat for seat in self._staying if seat.name not in known]

    @staticmethod
    def _progress(task: TaskId, seat: _Seat) -> tuple[bool, int, ClientId]:
        return task not in seat.member.ready, seat.member.learning[task], seat.name

    def _previous(self, task: TaskId) -> _Seat | None:
        """The previous owner: of two claimants, the claimant of the later generation; with equal
        generations no owner.
        """
        claims = [seat for seat in self._seats.values() if task in seat.member.assigned or task in seat.member.revoked]
        latest = max((seat.member.generation for seat in claims), default=0)
        claims = [seat for seat in claims if seat.member.generation == latest]
        return claims[0] if len(claims) == 1 else None

    def _projected(self, seat: _Seat) -> int:
        """The number of the instance's stateful tasks after all tasks with learners have moved."""
        learns = sum(1 for task, learner in self._kept.items() if learner is seat and self._owner.get(task) is not seat)
        given_up = sum(1 for task in seat.active if self._kept.get(task, seat) is not seat)
        return len(seat.active) + learns - given_up + seat.incoming

    # --- owners ------------------------------------------------------------------------------------------------

    def _give(self, task: TaskId, seat: _Seat) -> None:
        self._owner[task] = seat
        (seat.active if task in self._with_state else seat.stateless).add(task)

    def give_active(self) -> None:
        """Assign tasks to ready learners, previous owners, unready learners, standbys; other tasks to the
        least loaded.
        """
        everything = in_order((*self._stateful, *self._stateless))
        for task in self._stateful:
            ready = [seat for seat in self._staying if task in seat.member.learning and task in seat.member.ready]
            if not ready:
                continue
            winner = min(ready, key=lambda seat: seat.per_weight(self._projected(seat)))
            previous = self._prev[task]
            if previous is not None and task in previous.member.assigned:
                self._in_transfer.add(task)
                self._kept[task] = winner
            else:
                self._give(task, winner)
        for task in self._open(everything):
            previous = self._prev[task]
            if previous is not None and not previous.member.expired:
                self._give(task, previous)
        if self._config.prefer_caught_up:
            self._give_to_copies(learners=True, standbys=True)
        else:
            self._give_to_copies(learners=True, standbys=False)
            self._give_to_copies(learners=False, standbys=True)
        takers = self._staying or [s for s in self._seats.values() if not s.member.expired] or [*self._seats.values()]
        for task in self._open(everything):
            if task in self._with_state:
                self._give(task, min(takers, key=lambda seat: seat.per_weight(self._projected(seat) + 1)))
            else:
                self._give(task, min(takers, key=lambda seat: seat.per_weight(len(seat.stateless) + 1)))

    def _open(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        return [task for task in tasks if task not in self._owner and task not in self._in_transfer]

    def _give_to_copies(self, learners: bool, standbys: bool) -> None:
        for task in self._open(self._stateful):
            copies: list[tuple[int, bool, Fraction, ClientId]] = []
            if learners and task in self._kept:
                seat = self._kept[task]
                copies.append((seat.member.learning[task], False, *seat.per_weight(self._projected(seat))))
            if standbys:
                copies += [
                    (seat.member.standby[task], True, *seat.per_weight(self._projected(seat)))
                    for seat in self._staying
                    if task in seat.member.standby
                ]
            if copies:
                self._give(task, self._seats[min(copies)[-1]])

    # --- tasks without state -----------------------------------------------------------------------------------

    def even_out_stateless(self) -> None:
        """Move single tasks from the most to the least loaded instance; leaving instances lose all their tasks."""
        if not self._staying:
            return
        for seat in self._seats.values():
            if seat.member.leaving:
                for task in in_order(seat.stateless):
                    self._move_stateless(task, seat, self._emptiest())
        while True:
            full = min(self._staying, key=lambda seat: (-seat.per_weight(seat.stateless_load - 1)[0], seat.name))
            empty = self._emptiest()
            evens = evens_out(full.stateless_load, full.member.weight, empty.stateless_load, empty.member.weight)
            if full is empty or not full.stateless or not evens:
                return
            self._move_stateless(max(full.stateless), full, empty)

    def _emptiest(self) -> _Seat:
        return min(self._staying, key=lambda seat: seat.per_weight(seat.stateless_load + 1))

    def _move_stateless(self, task: TaskId, source: _Seat, target: _Seat) -> None:
        source.stateless.remove(task)
        del self._owner[task]
        if task in source.member.assigned:
            self._in_transfer.add(task)
            target.stateless_incoming += 1
        else:
            self._give(task, target)

    # --- learners ----------------------------------------------------------------------------------------------

    def give_learners(self) -> None:
        """Keep current learners; add learners for the tasks of leaving instances, and as many as even out the load."""
        for task, seat in self._kept.items():
            if self._owner.get(task) is not seat:
                seat.learning.add(task)
        capable = [seat for seat in self._staying if seat.member.learner_capable]
        new = [seat for seat in self._newcomers if seat.member.learner_capable]
        surplus: set[TaskId] = set()
        counts: dict[ClientId, int] = {}

        def take(task: TaskId, seat: _Seat) -> None:
            surplus.add(task)
            seat.incoming += 1
            counts[seat.name] = counts.get(seat.name, 0) + 1

        if self._config.stage >= SCALE_DOWN and capable:
            for task in self._stateful:
                owner = self._owner.get(task)
                if (
                    owner is not None
                    and owner.member.leaving
                    and owner.member.learner_capable
                    and task not in self._kept
                ):
                    take(task, min(capable, key=lambda seat: seat.per_weight(self._projected(seat) + 1)))
        recipients = capable if self._config.stage >= BALANCE else new
        while recipients:
            limits = self._bands()
            if limits is not None and is_stable(self._projected_loads(), limits):
                break
            pair = self._evening_out(recipients, surplus)
            if pair is None and limits is not None:
                pair = self._into_bands(recipients, surplus, limits)
            if pair is None:
                break
            donor, taker = pair
            movable = self._movable(donor, surplus)
            donor.incoming -= 1
            take(min(movable) if self._config.pick == "lowest" else max(movable), taker)
        self._place(in_order(surplus), counts)

    def _evening_out(self, recipients: list[_Seat], surplus: Collection[TaskId]) -> tuple[_Seat, _Seat] | None:
        """The most and the least loaded instance, if a move between them evens out their loads."""
        donors = [seat for seat in self._staying if self._movable(seat, surplus)]
        if not donors:
            return None
        donor = min(donors, key=lambda seat: (-seat.per_weight(self._projected(seat) - 1)[0], seat.name))
        others = [seat for seat in recipients if seat is not donor]
        if not others:
            return None
        taker = min(others, key=lambda seat: seat.per_weight(self._projected(seat) + 1))
        evens = evens_out(self._projected(donor), donor.member.weight, self._projected(taker), taker.member.weight)
        return (donor, taker) if evens else None

    def _into_bands(
        self, recipients: list[_Seat], surplus: Collection[TaskId], limits: Mapping[ClientId, tuple[int, int]]
    ) -> tuple[_Seat, _Seat] | None:
        """The donor and the taker of a move into the ranges, for loads that no move evens out further.

        Weights may cause such loads while an instance is outside its range. The donor is above its range, or else has
        the most tasks to lose. The taker is below its range, or else has the most room. So no instance leaves its range
        by the move, and at least one instance moves closer to its range. The ranges always allow all tasks.
        """
        loads = self._projected_loads()

        def is_above(seat: _Seat) -> bool:
            return loads[seat.name] > limits[seat.name][1]

        def is_below(seat: _Seat) -> bool:
            return loads[seat.name] < limits[seat.name][0]

        donors = [s for s in self._staying if loads[s.name] > limits[s.name][0] and self._movable(s, surplus)]
        takers = [seat for seat in recipients if loads[seat.name] < limits[seat.name][1]]
        if not donors or not takers:
            return None
        donor = min(donors, key=lambda s: (not is_above(s), -s.per_weight(loads[s.name] - 1)[0], s.name))
        taker = min(takers, key=lambda s: (not is_below(s), *s.per_weight(loads[s.name] + 1)))
        return (donor, taker) if is_above(donor) or is_below(taker) else None

    def _is_learned(self, task: TaskId) -> bool:
        """Whether another instance continues to learn the task, which excludes the task's new owner."""
        return task in self._kept and self._kept[task] is not self._owner.get(task)

    def _movable(self, seat: _Seat, surplus: Collection[TaskId]) -> list[TaskId]:
        if not seat.member.learner_capable:
            return []
        return [task for task in seat.active if not self._is_learned(task) and task not in surplus]

    def _bands(self) -> dict[ClientId, tuple[int, int]] | None:
        """The least and the most load of every staying instance (stage 4 with a tolerance)."""
        if self._config.stage < BALANCE or self._config.imbalance is None:
            return None
        weights = {seat.name: seat.member.weight for seat in self._staying}
        return bands(len(self._stateful), weights, self._config.imbalance)

    def _projected_loads(self) -> dict[ClientId, int]:
        return {seat.name: self._projected(seat) for seat in self._staying}

    def _place(self, surplus: list[TaskId], counts: dict[ClientId, int]) -> None:
        """Make standbys learners first; then place the other tasks in order. No instance learns its own tasks."""
        rest: list[TaskId] = []
        for task in surplus:
            copies = [
                (seat.member.standby[task], seat.name)
                for seat in self._staying
                if task in seat.member.standby and counts.get(seat.name) and self._owner.get(task) is not seat
            ]
            if copies:
                self._learn(task, min(copies)[1], counts)
            else:
                rest.append(task)
        for name in sorted(counts):
            while counts[name]:
                others = [task for task in rest if self._owner.get(task) is not self._seats[name]]
                if others:
                    rest.remove(others[0])
                    self._learn(others[0], name, counts)
                else:  # only its own tasks are left: the instance loses one task fewer and gets one task fewer
                    rest.pop(0)
                    counts[name] -= 1

    def _learn(self, task: TaskId, name: ClientId, counts: dict[ClientId, int]) -> None:
        counts[name] -= 1
        self._seats[name].learning.add(task)

    # --- standbys ----------------------------------------------------------------------------------------------

    def give_standbys(self) -> None:
        """Assign the configured number of standbys to instances without a copy.

        The owner that loses the task in this round (also if the task must be revoked) is preferred. Next in the order
        are previous hosts of a standby, then the least loaded instances.
        """
        for _ in range(self._config.num_standby):
            for task in self._stateful:
                free = [
                    seat
                    for seat in self._staying
                    if task not in seat.active and task not in seat.learning and task not in seat.standby
                ]
                if free:
                    min(free, key=lambda seat: self._standby_order(task, seat)).standby.add(task)

    def _standby_order(self, task: TaskId, seat: _Seat) -> tuple[bool, bool, Fraction, ClientId]:
        moved_away = self._prev[task] is seat and self._owner.get(task) is not seat
        load = self._projected(seat) + len(seat.standby)
        return not moved_away, task not in seat.member.standby, *seat.per_weight(load)

    # --- the end -----------------------------------------------------------------------------------------------

    def result(self) -> dict[ClientId, StreamsAssignment]:
        """The assignment of every instance."""
        learned = {task: seat for seat in self._seats.values() for task in seat.learning}
        found: dict[ClientId, StreamsAssignment] = {}
        for name, seat in self._seats.items():
            has = seat.active | seat.stateless
            had = (*seat.member.assigned, *seat.member.revoked)
            found[name] = StreamsAssignment(
                assigned=tuple(sorted(has)),
                revoked=tuple(in_order(task for task in had if task not in has)),
                learning=tuple(sorted(seat.learning)),
                being_learned=tuple(task for task in sorted(seat.active) if task in learned),
                standby=tuple(sorted(seat.standby)),
                shutdown=seat.member.leaving and not has and not seat.learning,
            )
        return found
