"""Deployments: rolling restarts and upgrades, and groups that grow or shrink."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from kemu.emulator import facts
from kemu.emulator.cluster.members import MemberHosts
from kemu.emulator.cluster.releases import BrokerRelease, Releases
from kemu.emulator.cluster.task_counts import TaskCounts
from kemu.emulator.engine.hosts import Condition, Host
from kemu.emulator.engine.world import World
from kemu.emulator.scenario.members import AS_ITS_GROUP, MemberSpec, upgraded_to
from kemu.emulator.text.kafka_keys import texts_of
from kemu.protocol.commands import LeaveGradually
from kemu.protocol.config import StreamsConfig
from kemu.protocol.names import consumer_host
from kemu.protocol.streams.balance import leaving_count

CLOSE_POLL_US = 100_000
"""Interval at which an operator checks whether a closing host has ended, in us."""


class Processes(Protocol):
    """Starts and stops the processes of hosts."""

    @property
    def world(self) -> World:
        """The world with the hosts."""

    @property
    def brokers(self) -> tuple[str, ...]:
        """The hosts of all brokers."""

    @property
    def draws_down_time(self) -> bool:
        """Whether the time between the end of a process and its next start is drawn."""
        ...

    def start(self, name: str, *, keep_disk: bool = True) -> bool: ...

    def close(self, name: str) -> bool: ...

    def is_closing(self, name: str) -> bool: ...

    def down_us(self, name: str, said_us: int) -> int: ...

    def when_down(self, name: str, then: Callable[[], None]) -> None: ...


class Deployments:
    """Carries out deployments; ``emulator.plan.stage.Deployer`` documents the methods."""

    def __init__(self, processes: Processes, members: MemberHosts, releases: Releases, tasks: TaskCounts) -> None:
        self._processes = processes
        self._world = processes.world
        self._members = members
        self._releases = releases
        self._tasks = tasks

    def rolling_restart(self, group: str, every_us: int, down_us: int, how: str, done: Callable[[], None]) -> int:
        names = tuple(self._members.groups[group].hosts)
        return self._bounce(names, every_us, down_us, how, {}, done)

    def rolling_upgrade(
        self,
        group: str,
        every_us: int,
        down_us: int,
        how: str,
        hosts: tuple[str, ...],
        *,
        profile: str,
        assignors: tuple[str, ...],
        settings: tuple[str, ...],
        done: Callable[[], None],
    ) -> int:
        becomes, of_group = upgraded_to(profile, assignors, settings), self._members.groups[group]
        if not hosts:
            of_group.upgraded = of_group.upgraded.then(becomes)
        names = hosts or tuple(of_group.hosts)
        changes = {name: partial(self._change_member, name, becomes) for name in names}
        return self._bounce(names, every_us, down_us, how, changes, done)

    def upgrade_brokers(
        self,
        every_us: int,
        down_us: int,
        how: str,
        hosts: tuple[str, ...],
        *,
        profile: str,
        protocol: str,
        done: Callable[[], None],
    ) -> int | str:
        names = hosts or self._processes.brokers
        becomes = self._releases.after_upgrade(names, profile, protocol)
        if refused := self._releases.misfit(becomes, self._processes.brokers):
            return refused
        if not hosts:
            self._releases.upgrade_default(profile, protocol)
        changes = {name: partial(self._change_broker, name, becomes[name]) for name in names}
        return self._bounce(names, every_us, down_us, how, changes, done)

    def _bounce(
        self,
        names: Sequence[str],
        every_us: int,
        down_us: int,
        how: str,
        changes: Mapping[str, Callable[[], None]],
        done: Callable[[], None],
    ) -> int:
        for number, name in enumerate(names):
            bounce = _Bounce(self._processes, name, down_us, how, changes.get(name), done)
            self._world.at(self._world.now_us + number * every_us, bounce)
        return len(names)

    def _change_broker(self, host: str, release: BrokerRelease) -> None:
        self._releases.set_broker(host, release)
        self._world.report(facts.BrokerReconfigured(host=host, profile=release.profile, protocol=release.protocol))

    def _change_member(self, host: str, becomes: MemberSpec) -> None:
        member = self._members.spec_of(host).then(becomes)
        self._members.set_spec(host, member)
        settings = (*texts_of(member.config), *texts_of(member.streams, StreamsConfig))
        self._world.report(
            facts.MemberReconfigured(host=host, profile=member.profile, assignors=member.assignors, settings=settings)
        )

    def add_members(self, group: str, count: int) -> None:
        groups = self._members.groups
        for _ in range(count):
            name = consumer_host(sum(len(each.hosts) for each in groups.values()) + 1)
            self._members.add(name, group)
            self._world.report(facts.MemberHostAdded(host=name, group=group))
            if groups[group].upgraded != AS_ITS_GROUP:
                self._change_member(name, groups[group].upgraded)
            self._processes.start(name)

    def remove_members(self, group: str, count: int) -> int:
        staying = [name for name in self._running(group) if not self._processes.is_closing(name)]
        leaving = staying[-count:] if count else []
        for name in leaving:
            self._processes.close(name)
        return len(leaving)

    def scale_down(self, group: str, percent: int, hosts: tuple[str, ...]) -> str | None:
        running = self._running(group)
        missing = [host for host in hosts if host not in running]
        if missing:
            return f"{missing[0]} is no running instance of {group}: no instance was asked to leave"
        leader = self._members.groups[group].leader
        leaving = hosts or tuple(self._tasks.fewest_first(running, leader)[: leaving_count(len(running), percent)])
        if not leaving:
            return f"{percent} % of {len(running)} instances are all of them"
        asked = [host for host in leaving if not self._tasks.leaves(host)]
        for host in asked:
            self._world.tell(host, LeaveGradually(leaving=True))
        if asked:
            return None
        return f"{', '.join(leaving)} of {len(running)} are leaving already: no other instance was asked to leave"

    def keep_instance(self, host: str) -> str | None:
        return None if self._world.tell(host, LeaveGradually(leaving=False)) else f"{host} does not run"

    def _running(self, group: str) -> list[str]:
        return [name for name in self._members.groups[group].hosts if self._world.hosts[name].running]


class _Bounce:
    """Stops a host, perhaps changes its settings, and starts the host again ``down_us`` after its end.

    The downtime is drawn around ``down_us``. Without a draw of downtimes, the host starts ``down_us`` after the order
    to stop, but not before its process has ended.
    """

    def __init__(
        self,
        processes: Processes,
        name: str,
        down_us: int,
        how: str,
        change: Callable[[], None] | None,
        done: Callable[[], None],
    ) -> None:
        self._processes = processes
        self._host: Host = processes.world.hosts[name]
        self._down_us = down_us
        self._how = how
        self._change = change
        self._done = done
        self._life = 0

    def __call__(self) -> None:
        processes, world = self._processes, self._processes.world
        self._life = self._host.life
        if self._change is not None:
            self._change()
        if self._host.running:
            if self._how == "crash":
                world.take_down(self._host, Condition.CRASHED)
            else:
                processes.close(self._host.name)
        if processes.draws_down_time:
            processes.when_down(self._host.name, self._down)
        else:
            world.at(world.now_us + self._down_us, self._up)

    def _down(self) -> None:
        world = self._processes.world
        world.at(world.now_us + self._processes.down_us(self._host.name, self._down_us), self._up)

    def _up(self) -> None:
        world = self._processes.world
        if self._host.life != self._life:
            self._done()  # another order has started the host in the meantime
        elif self._host.running:
            world.at(world.now_us + CLOSE_POLL_US, self._up)
        else:
            self._processes.start(self._host.name)
            self._done()
