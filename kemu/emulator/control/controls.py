"""The verbs of control: one line for each order, one line of JSON for each answer.

======================================  =============================================================================
order                                   answer
======================================  =============================================================================
``ACTION KEY=VALUE...``                 ``{"done": description, "at_us": time, "hosts": affected hosts}``
``wait CONDITION [within D]``           ``{"holds": condition, "seen": fields, "at_us": time}`` when the condition is
                                        true, or ``{"error": ..., "seen": fields, "at_us": time}`` after D (60s)
``wait TRIGGER [within D]``             the same, after the trigger of a plan: ``wait noted GroupBecame new=Stable``
``leader PARTITION``                    ``{"partition": ..., "leader": broker or null, "isr": brokers, ...}``
``state``                               the whole state
``events [KIND...]``                    ``{"events": kinds, "at_us": time}``, and then a line for each fact of these
                                        kinds, until the next order or the end of the connection
``help``                                the verbs
======================================  =============================================================================

An order may be one JSON object, too: ``{"do": ACTION, KEY: VALUE}``, ``{"wait": CONDITION, "within": D}``,
``{"wait": TRIGGER}`` with the keys of ``when`` in a plan, ``{"leader": PARTITION}``, ``{"events": KINDS}``. A wrong
order is answered with ``{"error": reason}``. No order ends the run: an unexpected exception is the answer, too.

Times are virtual. A condition is checked at the end of each instant in which a fact was reported.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kemu.emulator.control.conditions import StateCondition, partition_at, read_condition, refused
from kemu.emulator.control.orders import Orders
from kemu.emulator.control.state import LiveState
from kemu.emulator.facts import Seen
from kemu.emulator.plan.actions import ACTIONS
from kemu.emulator.scenario.files import entry_of_words
from kemu.emulator.scenario.plan_reading import note_names
from kemu.emulator.text.plain import plain
from kemu.emulator.text.tables import ScenarioError, nearest
from kemu.emulator.text.units import duration_text, duration_us

WITHIN_US = 60_000_000
"""Longest wait, if the order does not say another time, in us."""
STORY = "story"
"""Kind of the events that are lines of the story."""
VERBS = ("do", "wait", "leader", "state", "events", "help")
TRIGGERS = ("noted", "sends", "receives")


class Reply(Protocol):
    """The place for the answer to one order."""

    @property
    def is_open(self) -> bool:
        """Whether anybody still reads the answer."""

    def put(self, line: bytes) -> bool:
        """Send a line; return False if the line is lost, because the reader is too slow or has gone."""

    def stream(self) -> None:
        """Say that lines follow until the reader ends the answer."""

    def end(self) -> None:
        """End the answer."""


class _Wait:
    """A wait that is not answered yet."""

    def __init__(self, text: str, reply: Reply, condition: StateCondition | None) -> None:
        self.text = text
        self.reply = reply
        self.condition = condition
        """The condition; None for a trigger."""


class _Reader:
    """A reader of events."""

    def __init__(self, reply: Reply, kinds: frozenset[str]) -> None:
        self.reply = reply
        self.kinds = kinds
        """Names of the wanted kinds; empty for all kinds."""
        self.missed = 0

    def tell(self, kind: str, line: bytes) -> None:
        """Send an event of a wanted kind, and before it the number of events that did not fit into the queue."""
        if self.kinds and kind not in self.kinds:
            return
        if self.missed and self.reply.put(_as_line({"missed": self.missed})):
            self.missed = 0
        if self.missed or not self.reply.put(line):
            self.missed += 1


class Controls:
    """Carries out the verbs. An observer that sees each fact after the panel and after ``state``.

    Args:
        orders: carries out actions.
        state: the present state.
        more: adds further keys to the whole state.
    """

    def __init__(self, orders: Orders, state: LiveState, more: Callable[[], Mapping[str, Any]] = dict) -> None:
        self._orders = orders
        self._state = state
        self._more = more
        self._world = orders.injector.world
        self._waits: list[_Wait] = []
        self._readers: list[_Reader] = []
        self._looks = False
        """Whether a look at the conditions is due at the end of this instant."""

    # --- the run -----------------------------------------------------------------------------------------------

    def wants(self, kind: type) -> bool:
        """Every fact may end a wait, and is an event."""
        return True

    def see(self, seen: Seen) -> None:
        """Take one fact."""
        if self._readers:
            row = {"at_us": seen.at_us, "seq": seen.seq, "actor": seen.actor, "life": seen.life}
            self._tell(type(seen.fact).__name__, row | {"fact": plain(seen.fact)})
        if self._waits and not self._looks:
            self._looks = True
            self._world.at(self._world.now_us, self._look)

    def tell_story(self, line: str) -> None:
        """Send a line of the story to the readers of events."""
        self._tell(STORY, {"at_us": self._world.now_us, STORY: line})

    def _tell(self, kind: str, row: Mapping[str, Any]) -> None:
        self._readers = [each for each in self._readers if each.reply.is_open]
        if self._readers:
            line = _as_line(row)
            for reader in self._readers:
                reader.tell(kind, line)

    # --- orders ------------------------------------------------------------------------------------------------

    def take(self, line: bytes, reply: Reply) -> None:
        """Carry out one order, between two turns. The answer may follow later."""

        def answer(row: Mapping[str, Any]) -> None:
            reply.put(_as_line(row))
            reply.end()

        try:
            self._take(_row_of(line), reply, answer)
        except ScenarioError as error:
            answer({"error": "; ".join(str(error).splitlines())})
        except Exception as error:
            answer({"error": f"a bug of kemu: {type(error).__name__}: {error}"})

    def _take(self, row: Mapping[str, Any], reply: Reply, answer: Callable[[Mapping[str, Any]], None]) -> None:
        match row:
            case {"do": _}:
                self._orders.take(row, answer)
            case {"wait": condition, **others}:
                _only(others, "within")
                self._wait(condition, others.get("within"), reply)
            case {"leader": str(name), **others}:
                _only(others)
                names = self._state.partitions()
                if name not in names:
                    raise refused(f'"{name}" is no partition{nearest(name, names)}')
                answer({"partition": name, **self._state.partition(partition_at(name))})
            case {"state": True, **others}:
                _only(others)
                answer({**self._state.whole(), **self._more()})
            case {"events": list(kinds), **others}:
                _only(others)
                self._read_events(kinds, reply)
            case {"help": True}:
                answer({"verbs": VERBS, "actions": sorted(ACTIONS)})
            case _:
                raise refused(f"an order needs one of the keys {', '.join(VERBS[:-1])}")

    def _read_events(self, kinds: Sequence[Any], reply: Reply) -> None:
        known = [STORY, *note_names()]
        for kind in kinds:
            if kind not in known:
                raise refused(f'"{kind}" is no kind of event{nearest(str(kind), known)}')
        reply.stream()
        reply.put(_as_line({"events": kinds, "at_us": self._world.now_us}))
        self._readers.append(_Reader(reply, frozenset(kinds)))

    # --- waits -------------------------------------------------------------------------------------------------

    def _wait(self, wanted: Any, within: Any, reply: Reply) -> None:
        try:
            within_us = WITHIN_US if within is None else duration_us(str(within))
        except ValueError as error:
            raise refused(f"within: {error}") from None
        if isinstance(wanted, Mapping):
            trigger, text = self._orders.trigger(wanted), json.dumps(wanted)
            wait = _Wait(text, reply, None)
            forget = self._orders.injector.watch(trigger, lambda: self._end(wait, {"holds": text}))
        else:
            condition = read_condition(str(wanted), self._state)
            wait, forget = _Wait(condition.text, reply, condition), lambda: None
        self._waits.append(wait)

        def is_late() -> None:
            if wait in self._waits:
                forget()
                self._end(wait, {"error": f"not within {duration_text(within_us)}: {wait.text}"})

        self._world.at(self._world.now_us + within_us, is_late)
        self._look()

    def _look(self) -> None:
        """Answer the waits whose condition is true now."""
        self._looks = False
        for wait in [each for each in self._waits if each.condition is not None]:
            assert wait.condition is not None
            if not wait.reply.is_open or wait.condition.look(self._state)[0]:
                self._end(wait, {"holds": wait.text})

    def _end(self, wait: _Wait, row: Mapping[str, Any]) -> None:
        if wait in self._waits:
            self._waits.remove(wait)
            seen = {} if wait.condition is None else {"seen": wait.condition.look(self._state)[1]}
            wait.reply.put(_as_line({**row, **seen, "at_us": self._world.now_us}))
            wait.reply.end()


def _only(others: Mapping[str, Any], *keys: str) -> None:
    for key in others:
        if key not in keys:
            raise refused(f'"{key}" is no key of this order{nearest(key, keys)}')


def _row_of(line: bytes) -> Mapping[str, Any]:
    """The order of a line, as the JSON form."""
    try:
        text = line.decode().strip()
    except UnicodeDecodeError:
        raise refused("an order is UTF-8 text") from None
    if text.startswith(("{", "[")):
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise refused("an order is one JSON object on a line, or a verb with its words")
        if isinstance(row.get("wait"), str):
            return {**row, **_wait_row(row["wait"].split())}
        return {**row, "state": True} if "state" in row else row
    try:
        verb, *words = shlex.split(text) or [""]
    except ValueError as error:
        raise refused(f"{text:.80}: {error}") from None
    match verb, words:
        case "wait", words:
            return _wait_row(" ".join(words).split())
        case "leader", [name]:
            return {"leader": name}
        case "leader", _:
            raise refused('write "leader PARTITION", such as "leader orders-0"')
        case (("state" | "help"), []):
            return {verb: True}
        case "events", kinds:
            return {"events": kinds}
        case "do", [_, *_]:
            return entry_of_words(words)
        case _ if verb in ACTIONS:
            return entry_of_words([verb, *words])
        case _:
            raise refused(f'"{verb:.80}" is no verb and no action{nearest(verb, [*VERBS, *ACTIONS])}')


def _wait_row(words: Sequence[str]) -> Mapping[str, Any]:
    if not words:
        raise refused('write "wait CONDITION within 10s", such as "wait group payments Stable members=2 within 10s"')
    within: Mapping[str, Any] = {}
    if "within" in words:
        at = words.index("within")
        if len(words) != at + 2:
            raise refused('write the time at the end: "within 10s"')
        words, within = words[:at], {"within": words[at + 1]}
    if words and words[0] in TRIGGERS:
        if len(words) == 1:
            raise refused(f'write "wait {words[0]} NAME"')
        trigger = entry_of_words(words[1:])
        return {"wait": {words[0]: trigger.pop("do"), **trigger}, **within}
    return {"wait": " ".join(words), **within}


def _as_line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, default=str).encode()
