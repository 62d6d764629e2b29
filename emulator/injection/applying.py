"""What each action of a plan does to a running cluster."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kemu.emulator import facts
from kemu.emulator.engine.hosts import Condition, Host
from kemu.emulator.engine.rules import DuplicateRule, HoldRule, LossyRule, SlowRule, SplitRule
from kemu.emulator.injection.ongoing import Ongoing
from kemu.emulator.plan import actions as faults
from kemu.emulator.plan.store_actions import (
    CreateTopic,
    DeleteTopic,
    ElectPreferredLeaders,
    ExpiredSession,
    FrozenSession,
    LateWatches,
    LostStoreAnswer,
)
from kemu.emulator.scenario.members import upgraded_to
from kemu.protocol.commands import (
    AnswerNext,
    DelayWatches,
    EndStoreFault,
    ExpireSession,
    FreezeSession,
    LoseStoreAnswer,
)
from kemu.protocol.names import controller_on

Outcome: TypeAlias = str | None
"""None: it took effect. A text: why not."""


def _on_host(apply: Callable[[Ongoing, int, Any, Host], Outcome]) -> Callable[[Ongoing, int, Any], Outcome]:
    """Of an action on one host: with that host, or why there is none now."""

    def resolved(ongoing: Ongoing, index: int, action: Any) -> Outcome:
        host = ongoing.host(action.host)
        return host if isinstance(host, str) else apply(ongoing, index, action, host)

    return resolved


def _take_down(ongoing: Ongoing, name: str, how: Condition) -> Host | str:
    host = ongoing.host(name)
    if isinstance(host, str):
        return host
    if not host.running:
        return f"{host.name} is down already"
    ongoing.world.take_down(host, how)
    return host


def _crash(ongoing: Ongoing, index: int, action: faults.Crash) -> Outcome:
    how = Condition.SILENT if action.mode == "power" else Condition.CRASHED
    host = _take_down(ongoing, action.host, how)
    if isinstance(host, str):
        return host
    if action.for_us:
        ongoing.lasts(index, action, action.for_us, lambda: ongoing.cluster.start(host.name))
    return None


def _restart(ongoing: Ongoing, index: int, action: faults.Restart, host: Host) -> Outcome:
    if host.running:
        ongoing.world.take_down(host, Condition.SILENT)
    ongoing.world.start(host, keep_disk=action.keep_disk)
    return None


def _pause(ongoing: Ongoing, index: int, action: faults.Pause, host: Host) -> Outcome:
    if host.condition is not Condition.UP:
        return f"{host.name} does not run"
    life = host.life
    ongoing.world.pause(host)

    def resume() -> None:
        if host.life == life:
            ongoing.world.resume(host)

    ongoing.lasts(index, action, action.for_us, resume)
    return None


def _drift(ongoing: Ongoing, index: int, action: faults.ClockDrift, host: Host) -> Outcome:
    host.drift(ongoing.world.now_us, action.ppm)
    ongoing.lasts(index, action, action.for_us, lambda: host.drift(ongoing.world.now_us, 0))
    return None


def _lose_tail(ongoing: Ongoing, index: int, action: faults.LoseDiskTail) -> Outcome:
    host = _take_down(ongoing, action.host, Condition.SILENT)
    if isinstance(host, str):
        return host
    for log in [action.log] if action.log else sorted(host.disk.logs):
        lost = host.disk.lose_tail(log, action.records)
        if lost:
            ongoing.world.report(facts.DiskTailLost(host=host.name, log=log, records=lost))
    if action.for_us:
        ongoing.lasts(index, action, action.for_us, lambda: ongoing.cluster.start(host.name))
    return None


def _isolate(ongoing: Ongoing, index: int, action: faults.Isolate, host: Host) -> Outcome:
    ongoing.install(index, action, action.for_us, SplitRule((host.name,), (), one_way=False))
    return None


def _split(ongoing: Ongoing, index: int, action: faults.Split) -> Outcome:
    side = tuple(ongoing.cluster.resolve(name) for name in action.side)
    other = tuple(ongoing.cluster.resolve(name) for name in action.other)
    if not all((*side, *other)):
        return "a host of it does not exist now"
    ongoing.install(index, action, action.for_us, SplitRule(side, other, action.one_way))
    return None


def _way(ongoing: Ongoing, sender: str, receiver: str) -> tuple[str, str] | None:
    names = tuple(ongoing.cluster.resolve(name) if name else "" for name in (sender, receiver))
    missing = (sender and not names[0]) or (receiver and not names[1])
    return None if missing else (names[0], names[1])


def _slow(ongoing: Ongoing, index: int, action: faults.Slow) -> Outcome:
    way = _way(ongoing, action.sender, action.receiver)
    if way is None:
        return "its host does not exist now"
    rule = SlowRule(*way, action.add_us, action.jitter_us, ongoing.chance(index))
    ongoing.install(index, action, action.for_us, rule)
    return None


def _lossy(ongoing: Ongoing, index: int, action: faults.Lossy) -> Outcome:
    way = _way(ongoing, action.sender, action.receiver)
    if way is None:
        return "its host does not exist now"
    ongoing.install(index, action, action.for_us, LossyRule(*way, action.per_mille, ongoing.chance(index)))
    return None


def _hold(ongoing: Ongoing, index: int, action: faults.Hold) -> Outcome:
    way = _way(ongoing, action.sender, action.receiver)
    if way is None:
        return "its host does not exist now"
    ongoing.install(index, action, action.for_us, HoldRule(*way, action.api))
    return None


def _disconnect(ongoing: Ongoing, index: int, action: faults.Disconnect) -> Outcome:
    first, second = ongoing.cluster.resolve(action.a), ongoing.cluster.resolve(action.b)
    if not ongoing.world.network.break_between(first, second):
        return "they have no connection"
    return None


def _duplicate(ongoing: Ongoing, index: int, action: faults.Duplicate) -> Outcome:
    way = _way(ongoing, action.sender, "")
    if way is None:
        return "its host does not exist now"
    ongoing.install(index, action, 0, DuplicateRule(action.api, way[0], action.nth))
    return None


def _error_reply(ongoing: Ongoing, index: int, action: faults.ErrorReply) -> Outcome:
    way = _way(ongoing, action.sender, "")
    if way is None:
        return "its host does not exist now"
    command = AnswerNext(api=action.api, sender=way[0], nth=max(1, action.nth), error=action.error)
    ongoing.injected.append((index, command))
    ongoing.cluster.tell_servers(command)
    return None


def _heal(ongoing: Ongoing, index: int, action: faults.Heal) -> Outcome:
    ongoing.end_all()
    return None


def _start_host(ongoing: Ongoing, index: int, action: faults.StartHost, host: Host) -> Outcome:
    return None if ongoing.cluster.start(host.name) else f"{host.name} runs already"


def _close_host(ongoing: Ongoing, index: int, action: faults.CloseHost, host: Host) -> Outcome:
    return None if ongoing.cluster.close(host.name) else f"{host.name} is down already"


def _rolling(ongoing: Ongoing, index: int, action: faults.RollingRestart) -> Outcome:
    ongoing.cluster.rolling_restart(action.group, action.every_us, action.down_us, action.how)
    return None


def _upgrade(ongoing: Ongoing, index: int, action: faults.RollingUpgrade) -> Outcome:
    becomes = upgraded_to(action)
    hosts = tuple(ongoing.cluster.resolve(name) for name in action.hosts)
    if not all(hosts):
        return "a host of it does not exist now"
    ongoing.cluster.rolling_upgrade(action.group, action.every_us, action.down_us, action.how, becomes, hosts)
    return None


def _add(ongoing: Ongoing, index: int, action: faults.AddMembers) -> Outcome:
    ongoing.cluster.add_members(action.group, action.count)
    return None


def _remove(ongoing: Ongoing, index: int, action: faults.RemoveMembers) -> Outcome:
    return None if ongoing.cluster.remove_members(action.group, action.count) else "the group has no running member"


def _grow(ongoing: Ongoing, index: int, action: faults.GrowTopic) -> Outcome:
    return ongoing.cluster.grow_topic(action.topic, action.partitions)


def _rate(ongoing: Ongoing, index: int, action: faults.SetRateOf) -> Outcome:
    return ongoing.cluster.set_rate(action.topic, action.records_per_s)


def _move(ongoing: Ongoing, index: int, action: faults.MoveCoordinator) -> Outcome:
    to = ongoing.cluster.resolve(action.to) if action.to else ""
    return ongoing.cluster.move_coordinator(action.group, to)


def _kill(ongoing: Ongoing, index: int, action: faults.KillCoordinator) -> Outcome:
    name = ongoing.cluster.coordinator_of(action.group)
    host = _take_down(ongoing, name, Condition.SILENT) if name else "the group has no coordinator now"
    if isinstance(host, str):
        return host
    ongoing.cluster.expect_takeover(action.group)
    if action.for_us:
        ongoing.lasts(index, action, action.for_us, lambda: ongoing.cluster.start(host.name))
    return None


# --- the metadata store --------------------------------------------------------------------------------------------


def _tell_store(ongoing: Ongoing, index: int, action: faults.Action, for_us: int, command: object) -> Outcome:
    outcome = ongoing.cluster.tell_store(command)
    if outcome is None:
        ongoing.lasts(index, action, for_us, lambda: ongoing.cluster.tell_store(EndStoreFault(number=index)))
    return outcome


def _lose_answer(ongoing: Ongoing, index: int, action: LostStoreAnswer, host: Host) -> Outcome:
    command = LoseStoreAnswer(
        client=host.name if action.part == "broker" else _controller_of(host),
        nth=action.nth,
        executed=action.applied,
        writes_only=True,
        number=index,
    )
    return _tell_store(ongoing, index, action, 0, command)


def _freeze(ongoing: Ongoing, index: int, action: FrozenSession, host: Host) -> Outcome:
    command = FreezeSession(client=_controller_of(host), for_us=0, number=index)
    return _tell_store(ongoing, index, action, action.for_us, command)


def _delay_watches(ongoing: Ongoing, index: int, action: LateWatches, host: Host) -> Outcome:
    command = DelayWatches(client=_controller_of(host), for_us=action.for_us, number=index)
    return _tell_store(ongoing, index, action, 0, command)


def _expire(ongoing: Ongoing, index: int, action: ExpiredSession, host: Host) -> Outcome:
    command = ExpireSession(client=_controller_of(host), linger_us=action.linger_us, number=index)
    if not action.linger_us:
        return ongoing.cluster.tell_store(command)
    return _tell_store(ongoing, index, action, action.linger_us, command)


def _controller_of(host: Host) -> str:
    """The actor that opens a broker's session and sets its watches."""
    return controller_on(host.name)


def _create_topic(ongoing: Ongoing, index: int, action: CreateTopic) -> Outcome:
    outcome = ongoing.cluster.create_topic(action.topic, action.partitions, action.replication_factor)
    if outcome is None and action.records_per_s:
        return ongoing.cluster.set_rate(action.topic, action.records_per_s)
    return outcome


def _delete_topic(ongoing: Ongoing, index: int, action: DeleteTopic) -> Outcome:
    return ongoing.cluster.delete_topic(action.topic)


def _elect(ongoing: Ongoing, index: int, action: ElectPreferredLeaders) -> Outcome:
    return ongoing.cluster.elect_preferred_leaders(action.topics)


APPLY: Mapping[type, Callable[[Ongoing, int, Any], Outcome]] = {
    faults.Crash: _crash,
    faults.Restart: _on_host(_restart),
    faults.Pause: _on_host(_pause),
    faults.ClockDrift: _on_host(_drift),
    faults.LoseDiskTail: _lose_tail,
    faults.Isolate: _on_host(_isolate),
    faults.Split: _split,
    faults.Slow: _slow,
    faults.Lossy: _lossy,
    faults.Hold: _hold,
    faults.Disconnect: _disconnect,
    faults.Duplicate: _duplicate,
    faults.ErrorReply: _error_reply,
    faults.Heal: _heal,
    faults.StartHost: _on_host(_start_host),
    faults.CloseHost: _on_host(_close_host),
    faults.RollingRestart: _rolling,
    faults.RollingUpgrade: _upgrade,
    faults.AddMembers: _add,
    faults.RemoveMembers: _remove,
    faults.GrowTopic: _grow,
    faults.SetRateOf: _rate,
    faults.MoveCoordinator: _move,
    faults.KillCoordinator: _kill,
    LostStoreAnswer: _on_host(_lose_answer),
    FrozenSession: _on_host(_freeze),
    LateWatches: _on_host(_delay_watches),
    ExpiredSession: _on_host(_expire),
    CreateTopic: _create_topic,
    DeleteTopic: _delete_topic,
    ElectPreferredLeaders: _elect,
}
"""What each action does. Every row of ``faults.ACTIONS`` has one here; a test holds the two tables together."""

COUNTED_BY_NOTES = (faults.ErrorReply, LostStoreAnswer, FrozenSession, LateWatches, ExpiredSession)
"""Actions that only arm something: they count when a note says that it took effect."""
