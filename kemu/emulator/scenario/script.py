"""The lines of ``[clients] script``: what scripted clients send, and what the real clients received in its place.

Each line is one JSON object. Times are seconds of virtual time. ``on`` names the client and its connection.

================  =================================================================================================
line              keys
================  =================================================================================================
a connection      ``at``, ``on``, ``open`` (client id)
a request         ``at``, ``on``, ``to`` (broker or coordinator), ``ask`` (API), ``v`` (version), ``with`` (fields)
its answer        in the same line: ``answered`` (time), ``got`` (fields); without an answer both are missing
a repetition      ``at``, ``on``, ``again``: true, ``answered``: request and answer as before on this connection
an end            ``at``, ``on``, ``close``: true
================  =================================================================================================

Fields have kemu's names, without default values; bytes are hexadecimal, errors have Kafka's names.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import cattrs

from kemu.actors.clients.script import Script, ScriptAsks, ScriptCloses, ScriptOpens, ScriptStep
from kemu.emulator.text.tables import Problem, ScenarioError, nearest
from kemu.emulator.text.units import LONGEST_US
from kemu.protocol.errors import ErrorCode
from kemu.protocol.fetch_sessions import NO_FETCH_SESSION
from kemu.protocol.messages.data import Fetch
from kemu.protocol.names import SEPARATOR, controller_on, coordinator_on
from kemu.protocol.wire.codec import CodecError, seal
from kemu.protocol.wire.schema import SPECS

if TYPE_CHECKING:
    from kemu.protocol.kafka_wire.apis import Api

MOST_LINES = 500_000
LONGEST_LINE = 1_000_000
SECOND_US = 1_000_000
_ASKS = {"at", "on", "to", "ask", "v", "with"}
_FORMS: Mapping[str, tuple[set[str], set[str]]] = {
    "open": ({"at", "on", "open"}, set()),
    "ask": (_ASKS, {"answered", "got"}),
    "again": ({"at", "on", "again"}, {"answered"}),
    "close": ({"at", "on", "close"}, set()),
}
"""Key that tells the kind of a line -> (all required keys, further keys)."""


@cache
def _converter() -> cattrs.Converter:
    made = cattrs.Converter(omit_if_default=True, forbid_extra_keys=True, detailed_validation=False)
    made.register_unstructure_hook(bytes, bytes.hex)
    made.register_unstructure_hook(ErrorCode, lambda error: error.name)
    for kind in (int, str, bool):
        made.register_structure_hook(kind, _exactly(kind))
    made.register_structure_hook(bytes, lambda text, _: bytes.fromhex(text))
    made.register_structure_hook(ErrorCode, lambda name, _: ErrorCode[name])
    return made


def _exactly(kind: type) -> Callable[[Any, Any], Any]:
    def take(given: Any, _: Any) -> Any:
        if type(given) is not kind:
            raise ValueError(f"{json.dumps(given):.40} is no {kind.__name__}")
        return given

    return take


# --- writing -------------------------------------------------------------------------------------------------------


def script_lines(scripts: Mapping[str, Script]) -> tuple[str, ...]:
    """The lines of the scripts of clients, by client, in the order of their times."""
    rows = [(step.at_us, client, step) for client, script in scripts.items() for step in script]
    rows.sort(key=lambda row: row[0])
    before: dict[str, dict[str, Any]] = {}
    return tuple([json.dumps(_row(client, step, before)) for _, client, step in rows])


def _row(client: str, step: ScriptStep, before: dict[str, dict[str, Any]]) -> dict[str, Any]:
    on = f"{client}{SEPARATOR}{step.connection}"
    row: dict[str, Any] = {"at": step.at_us / SECOND_US, "on": on}
    match step:
        case ScriptOpens(client_id=client_id):
            return {**row, "open": client_id}
        case ScriptCloses():
            return {**row, "close": True}
        case _:
            plain = _converter().unstructure
            said: dict[str, Any] = {"to": step.to, "ask": SPECS[type(step.request)].name, "v": step.version}
            said["with"] = plain(_plain_request(step.request))
            answered: dict[str, Any] = {}
            if step.answered_us >= 0:
                answered = {"answered": step.answered_us / SECOND_US}
                said["got"] = plain(step.answer)
            if before.get(on) == said:
                return {**row, "again": True, **answered}
            before[on] = said
            got = {"got": said["got"]} if answered else {}
            return {**row, **{key: said[key] for key in ("to", "ask", "v", "with")}, **answered, **got}


def _plain_request(request: Any) -> Any:
    """A request without the count of a fetch session, so that equal fetches have equal lines."""
    if isinstance(request, Fetch) and request.session_id != NO_FETCH_SESSION and request.session_epoch > 0:
        values = {each.name: getattr(request, each.name) for each in SPECS[Fetch].fields}
        return Fetch(**{**values, "session_epoch": 1})
    return request


# --- reading -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def read_script(lines: tuple[str, ...]) -> Mapping[str, Script]:
    """The scripts of the clients that lines name, by client.

    Raises:
        ScenarioError: names the first wrong line, counted from 0.
    """
    if len(lines) > MOST_LINES:
        raise ScenarioError([Problem((), f"has {len(lines):,} lines; the maximum is {MOST_LINES:,}")])
    found: dict[str, list[ScriptStep]] = {}
    talks = _Talks()
    for number, line in enumerate(lines):
        try:
            client, step = talks.read(line)
        except (ValueError, KeyError, TypeError, RecursionError, cattrs.BaseValidationError, CodecError) as error:
            said = f"{error.args[0] if isinstance(error, KeyError) else error}"
            raise ScenarioError([Problem((number,), f"{said or type(error).__name__}"[:300])]) from None
        found.setdefault(client, []).append(step)
    return {client: tuple(steps) for client, steps in found.items()}


class _Talks:
    """The state between two lines: open connections, times, and requests that later lines repeat."""

    def __init__(self) -> None:
        self._open: dict[str, bool] = {}
        self._last_us: dict[str, int] = {}
        self._asked: dict[str, ScriptAsks] = {}

    def read(self, line: str) -> tuple[str, ScriptStep]:
        """The client of a line, and its step."""
        if len(line) > LONGEST_LINE:
            raise ValueError(f"has {len(line):,} characters; the maximum is {LONGEST_LINE:,}")
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError("must be a JSON object")
        form = next((form for form in _FORMS if form in row), "")
        if not form:
            raise ValueError(f"must have one of the keys {', '.join(_FORMS)}")
        needed, more = _FORMS[form]
        for key in row:
            if key not in needed | more:
                raise ValueError(f'"{key}" is no key here{nearest(key, sorted(needed | more))}')
        for key in sorted(needed - row.keys()):
            raise ValueError(f'the key "{key}" is missing')
        on, at_us = _text(row, "on"), _time(row, "at")
        client, _, connection = on.rpartition(SEPARATOR)
        if not client or not connection:
            raise ValueError(f'"on" must be CLIENT/CONNECTION, not "{on}"')
        if at_us < self._last_us.get(client, 0):
            raise ValueError(f'"at" is before the line above of {client}')
        self._last_us[client] = at_us
        return client, self._step(form, row, on, connection, at_us)

    def _step(self, form: str, row: Mapping[str, Any], on: str, connection: str, at_us: int) -> ScriptStep:
        if form == "open":
            if on in self._open:
                raise ValueError(f"{on} is opened twice")
            self._open[on] = True
            return ScriptOpens(at_us, connection, _text(row, "open"))
        if not self._open.get(on):
            raise ValueError(f"{on} is not open")
        if form == "close":
            self._open[on] = False
            return ScriptCloses(at_us, connection)
        answered_us = _time(row, "answered") if "answered" in row else -1
        if -1 < answered_us < at_us:
            raise ValueError('"answered" is before "at"')
        if form == "ask":
            self._asked[on] = _asks(row, connection, at_us, answered_us)
            return self._asked[on]
        before = self._asked.get(on)
        if before is None or (before.answer is None) != (answered_us < 0):
            raise ValueError('"again" needs an earlier request of the connection, with an answer if this one has one')
        values = (before.to, before.version, before.request, answered_us, before.answer)
        return ScriptAsks(at_us, connection, *values)


@cache
def _apis() -> Mapping[str, "Api"]:
    # Most runs have no script, and the declarations of the APIs cost a tenth of a start.
    from kemu.protocol.kafka_wire.apis import APIS

    return {api.name: api for api in APIS.values()}


def _asks(row: Mapping[str, Any], connection: str, at_us: int, answered_us: int) -> ScriptAsks:
    name, version, to = _text(row, "ask"), row["v"], _text(row, "to")
    apis = _apis()
    api = apis.get(name)
    if api is None:
        raise ValueError(f'"{name}" is no API of a real client{nearest(name, list(apis))}')
    if type(version) is not int:
        raise ValueError('"v" must be a whole number')
    if not _is_receiver(to):
        raise ValueError(f'"to" must be a broker such as b0, or its coordinator such as b0/coordinator, not "{to}"')
    request = _message(api.request.cls, row["with"], version)
    if (answered_us >= 0) != ("got" in row):
        raise ValueError('"answered" and "got" belong together')
    answer = _message(api.reply.cls, row["got"], version) if answered_us >= 0 else None
    return ScriptAsks(at_us, connection, to, version, request, answered_us, answer)


def _message(cls: type, given: Any, version: int) -> Any:
    if not isinstance(given, dict):
        raise ValueError(f"the fields of {cls.__name__} must be an object")
    message: Any = _converter().structure(given, cls)
    seal(message, version)
    return message


def _is_receiver(to: str) -> bool:
    broker = to.partition(SEPARATOR)[0]
    is_broker = broker[:1] == "b" and broker[1:].isascii() and broker[1:].isdecimal()
    return is_broker and to in (broker, coordinator_on(broker), controller_on(broker))


def _text(row: Mapping[str, Any], key: str) -> str:
    if not isinstance(row[key], str):
        raise ValueError(f'"{key}" must be a string')
    return str(row[key])


def _time(row: Mapping[str, Any], key: str) -> int:
    given: float = row[key]
    if type(given) not in (int, float) or not 0 <= given <= LONGEST_US / SECOND_US:
        raise ValueError(f'"{key}" must be a time in seconds')
    return round(given * SECOND_US)


def problems_of_script(lines: tuple[str, ...], clients: Iterable[str]) -> Iterator[Problem]:
    """The mistakes in a script: paths begin at the script."""
    try:
        found = read_script(lines)
    except ScenarioError as error:
        yield from error.problems
        return
    known = list(clients)
    for client in found:
        if client not in known:
            yield Problem((), f'"{client}" is no client here: add it to names{nearest(client, known)}')
