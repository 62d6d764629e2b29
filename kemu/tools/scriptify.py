"""Makes a scenario with scripted clients from the trace of a served cluster."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from kemu.actors.clients.script import Script, ScriptAsks, ScriptCloses, ScriptOpens, ScriptStep
from kemu.actors.machine import Received, Send, Told
from kemu.emulator.facts import OrderGiven
from kemu.emulator.plan.entries import At
from kemu.emulator.replay import scenario_of
from kemu.emulator.scenario.clients import GUEST
from kemu.emulator.scenario.files import with_entries
from kemu.emulator.scenario.scenario import Scenario
from kemu.emulator.scenario.script import script_lines
from kemu.emulator.trace.rows import RECEIVED, Packets, effect_from_row, event_from_row
from kemu.emulator.trace.traces import Footer, PacketRecord, Step, Torn, Trace, WorldFact
from kemu.protocol.commands import AskOn, CloseConnection, OpenConnection
from kemu.protocol.frozen import frozen
from kemu.protocol.names import client_of, is_real_client
from kemu.protocol.wire.codec import unseal
from kemu.protocol.wire.schema import SPECS
from kemu.tools.errors import BadInput


@frozen
class Scripted:
    """A scenario with scripted clients.

    ``asked``: client -> number of requests of each API; ``unanswered``: client -> number of requests without an answer.
    """

    scenario: Scenario
    asked: Mapping[str, Mapping[str, int]]
    unanswered: Mapping[str, int]
    connections: Mapping[str, int]
    orders: int
    dropped: int
    """Number of entries of the plan whose time is after the end of the trace."""
    torn: str


class _Reading:
    """The steps of all real clients of a trace."""

    def __init__(self) -> None:
        self.steps: dict[str, list[ScriptStep]] = {}
        """Client -> steps in order."""
        self.orders: list[dict[str, Any]] = []
        self.last_us = 0
        self.torn = ""
        self._packets = Packets()
        self._asked: dict[tuple[str, int, int], tuple[str, int]] = {}
        """(Host, life, request id) -> (client, place of the request among the client's steps)."""

    def take(self, record: object) -> None:
        match record:
            case Step():
                self._step(record)
            case PacketRecord(packet_id=packet, connection=connection, verdict=verdict):
                if verdict in ("sent", "queued", "held", "released"):
                    self._packets.routed(packet, connection)
                else:
                    self._packets.lost(packet)
            case WorldFact(fact=OrderGiven(entry=entry)):
                self.orders.append(json.loads(entry))
            case Footer(virtual_us=virtual_us):
                self.last_us = max(self.last_us, virtual_us)
            case Torn():
                self.torn = record.words
            case _:
                pass

    def _step(self, step: Step) -> None:
        self.last_us = max(self.last_us, step.at_us)
        if is_real_client(step.actor):
            self._of_client(step)
        elif step.event[0] == RECEIVED:
            self._packets.take(step.event[1])
        self._packets.sent(step.actor, step.effects)

    def _of_client(self, step: Step) -> None:
        event, client = event_from_row(step.event, self._packets), client_of(step.actor)
        steps = self.steps.setdefault(client, [])
        match event:
            case Told(command=OpenConnection(connection=connection, client_id=client_id)):
                steps.append(ScriptOpens(step.at_us, connection, client_id))
            case Told(command=CloseConnection(connection=connection)):
                steps.append(ScriptCloses(step.at_us, connection))
            case Told(command=AskOn(connection=connection, to=to, request=data)):
                for row in step.effects:
                    effect = effect_from_row(row)
                    if isinstance(effect, Send):
                        self._asked[step.actor, step.life, effect.request_id] = client, len(steps)
                message, version = unseal(data)
                steps.append(ScriptAsks(step.at_us, connection, to, version, message))
            case Received(request_id=number, message=answer):
                at = self._asked.pop((step.actor, step.life, number), None)
                if at is not None:
                    asked = self.steps[at[0]][at[1]]
                    assert isinstance(asked, ScriptAsks)
                    self.steps[at[0]][at[1]] = evolve(asked, answered_us=step.at_us, answer=answer)
            case _:
                pass


def scriptified(trace: Trace, name: str) -> Scripted:
    """The scenario in which scripted clients repeat what the real clients of a trace sent.

    Raises:
        BadInput: the trace has no real client.
        TraceError: the trace is damaged or of another version.
    """
    if trace.header.source == "log":
        raise BadInput(f"{trace.path}: these are facts of logs; kemu serve --trace FILE records real clients")
    scenario, reading = scenario_of(trace.header), _Reading()
    if scenario.clients.script:
        raise BadInput(f"{trace.path}: its clients are scripted already: the scenario in the trace has the script")
    with trace.interpreted():
        for record in trace.records():
            reading.take(record)
    scripts = {client: _whole(steps) for client, steps in sorted(reading.steps.items()) if steps}
    if not scripts:
        raise BadInput(f"{trace.path}: no real client sent a request; kemu serve --trace FILE records real clients")
    guests = [int(client.removeprefix(GUEST)) for client in scripts if client.startswith(GUEST)]
    clients = evolve(scenario.clients, guests=max(guests, default=0), script=script_lines(scripts))
    plan = [each for each in scenario.plan if not isinstance(each, At) or each.at_us <= reading.last_us]
    scenario = evolve(
        scenario,
        name=name,
        summary="",
        clients=clients,
        plan=tuple(plan),
        seed=trace.header.seed,
        profile=trace.header.profile,
        duration_us=-(-reading.last_us // 1_000) * 1_000,
    )
    asks = {client: [step for step in script if isinstance(step, ScriptAsks)] for client, script in scripts.items()}
    return Scripted(
        scenario=with_entries(scenario, reading.orders, str(trace.path)) if reading.orders else scenario,
        asked={client: Counter(SPECS[type(step.request)].name for step in each) for client, each in asks.items()},
        unanswered={client: sum(1 for step in each if step.answer is None) for client, each in asks.items()},
        connections={
            client: sum(1 for step in each if isinstance(step, ScriptOpens)) for client, each in scripts.items()
        },
        orders=len(reading.orders),
        dropped=len(trace.header.plan) - len(plan),
        torn=reading.torn,
    )


def _whole(steps: list[ScriptStep]) -> Script:
    """The steps without requests of connections that are not open: their client's host was down."""
    opened: dict[str, None] = {}
    whole = []
    for step in steps:
        if isinstance(step, ScriptOpens):
            opened[step.connection] = None
        elif step.connection not in opened:
            continue
        elif isinstance(step, ScriptCloses):
            del opened[step.connection]
        whole.append(step)
    return tuple(whole)
