"""The conversation of the console with a live run: its events, its state, and the orders of the user."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from kemu.emulator.control.controls import STORY, VERBS
from kemu.emulator.plan.action import keys_of
from kemu.emulator.plan.actions import ACTIONS
from kemu.emulator.text.tables import printable
from kemu.tools.console.exchange import Address, Exchange
from kemu.tools.console.words import BAD, TITLE, WEAK, Line, answer_lines, event_line, state_lines, title_line
from kemu.tools.errors import BadInput
from kemu.tools.exits import BAD_INPUT, HOLDS, LIVENESS

QUIT = ("quit", "exit")
_STATE = "state"


class ExchangesToRead(Protocol):
    """The exchanges whose sockets the caller waits for."""

    def append(self, exchange: Exchange) -> None:
        """Wait for an exchange, too."""

    def remove(self, exchange: Exchange) -> None:
        """Stop waiting for an exchange, because its socket will be closed."""


class Session:
    """A console without a terminal.

    Args:
        address: where the run takes orders.
        show: gets each line for the user.
        waiting: gets the exchanges to wait for; the caller calls ``take`` when the socket of an exchange is readable.

    Raises:
        BadInput: nobody takes orders at the address.
    """

    def __init__(self, address: Address, show: Callable[[Line], object], waiting: ExchangesToRead) -> None:
        self.address = address
        self.state: Mapping[str, Any] = {}
        """The last state; empty before the first answer."""
        self.code = HOLDS
        """The exit code, from the answers to orders."""
        self.is_over = False
        """Whether the run has ended, or the user has quit."""
        self.has_run_ended = False
        self.orders: dict[Exchange, None] = {}
        """Orders of the user without an answer."""
        self._show = show
        self._waiting = waiting
        self._poll: Exchange | None = None
        self._events: Exchange | None = None
        self._next_events: Exchange | None = None
        """Events of other kinds, until their first line has come."""
        try:
            self._next_events = self._opened(f"events {STORY}")
        except OSError as error:
            how = "kemu serve SCENARIO --control PATH starts one"
            raise BadInput(f"{address}: no run takes orders there ({error.strerror or error}); {how}") from None
        except ModuleNotFoundError as error:
            raise BadInput(f"this needs {error.name}: pip install 'kemu[serve]'") from None

    # --- orders ------------------------------------------------------------------------------------------------

    def order(self, text: str) -> None:
        """Carry out a line of the user."""
        verb, *words = text.split() or [""]
        match verb, words:
            case "", _:
                pass
            case verb, [] if verb in QUIT:
                self.is_over = True
            case "help", _:
                for line in help_lines(words):
                    self._show(line)
            case "events", _:
                self._send(text, self._follow)
            case _:
                self._send(text, lambda exchange: self.orders.__setitem__(exchange, None))

    def poll(self) -> None:
        """Ask for the state, unless an answer is under way."""
        if self._poll is None:
            self._send(_STATE, self._polled)

    @property
    def is_busy(self) -> bool:
        """Whether an order of the user has no answer yet."""
        return bool(self.orders) or self._next_events is not None

    @property
    def is_polling(self) -> bool:
        """Whether an answer to ``poll`` is under way."""
        return self._poll is not None

    def _polled(self, exchange: Exchange) -> None:
        self._poll = exchange

    def _follow(self, exchange: Exchange) -> None:
        if self._next_events is not None:
            self._close(self._next_events)
        self._next_events = exchange

    def _send(self, text: str, opened: Callable[[Exchange], object]) -> None:
        try:
            opened(self._opened(text))
        except OSError:
            self._ended()

    def _opened(self, order: str) -> Exchange:
        exchange = Exchange(self.address, order)
        self._waiting.append(exchange)
        return exchange

    def _close(self, exchange: Exchange) -> None:
        self._waiting.remove(exchange)
        exchange.close()

    def close(self) -> None:
        """Close all connections."""
        for exchange in (self._events, self._poll, self._next_events, *self.orders):
            if exchange is not None:
                self._close(exchange)
        self.orders.clear()

    # --- answers -----------------------------------------------------------------------------------------------

    def take(self, exchange: Exchange) -> None:
        """Take the lines of an exchange whose socket is readable.

        Raises:
            BadInput: the other side does not speak kemu's control protocol.
        """
        rows = exchange.rows()
        if exchange is self._next_events:
            self._take_first(exchange, rows)
        elif exchange is self._events:
            for row in rows:
                if "events" not in row:
                    self._show(event_line(row))
            if exchange.is_over:
                self._ended()
        elif exchange is self._poll:
            if rows or exchange.is_over:
                self.state = rows[0] if rows else self.state
                self._poll = None
                self._close(exchange)
        elif exchange in self.orders and (rows or exchange.is_over):
            del self.orders[exchange]
            self._close(exchange)
            self._answered(exchange.order, rows)

    def _take_first(self, exchange: Exchange, rows: list[dict[str, Any]]) -> None:
        """Take the first line of other events: an error, or the kinds."""
        if not rows and not exchange.is_over:
            return
        self._next_events = None
        if self._events is None and not rows:
            self._close(exchange)
            raise BadInput(f"{self.address}: the run closed the connection; it has too many, or ends now")
        if not rows or "error" in rows[0]:
            self._close(exchange)
            self._answered(exchange.order, rows)
            return
        if self._events is not None:
            self._close(self._events)
            self._show(((WEAK, f"events: {', '.join(rows[0]['events']) or 'all'}"),))
        self._events = exchange
        for row in rows[1:]:
            self._show(event_line(row))

    def _answered(self, order: str, rows: Iterable[Mapping[str, Any]]) -> None:
        row = next(iter(rows), None)
        if row is None:
            self._show(((BAD, f"no answer: {printable(order)}"),))
            self.code = self.code or BAD_INPUT
        elif order.split() == [_STATE] and "error" not in row:
            self.state = row
            for line in (title_line(row, str(self.address)), *state_lines(row)):
                self._show(line)
        else:
            for line in answer_lines(row):
                self._show(line)
            if "error" in row:
                self.code = self.code or (LIVENESS if "seen" in row else BAD_INPUT)

    def _ended(self) -> None:
        """Take the last events and answers, and report the orders without an answer."""
        self.is_over = self.has_run_ended = True
        # An order that finds nobody may notice the end before the last events are read.
        for row in () if self._events is None else self._events.rest():
            self._show(event_line(row))
        for exchange in tuple(self.orders):
            del self.orders[exchange]
            self._answered(exchange.order, exchange.rows())
            self._close(exchange)


def help_lines(words: Iterable[str]) -> list[Line]:
    """The verbs and actions, or the keys of the named actions."""
    found: list[Line] = []
    for word in words:
        kind = ACTIONS.get(word)
        keys = () if kind is None else keys_of(kind.cls)
        said = " ".join(f"{each.key}=" if each.required else f"[{each.key}=]" for each in keys)
        found.append(((BAD, f'"{printable(word)}" is no action'),) if kind is None else (("", f"{word} {said}"),))
    return found or [
        ((TITLE, "verbs"), ("", f"  {', '.join(each for each in VERBS if each != 'do')}, {QUIT[0]}")),
        ((TITLE, "actions"), ("", f"  {', '.join(sorted(ACTIONS))}")),
        ((WEAK, "help ACTION: its keys; kemu describe ACTION: its meaning"),),
    ]
