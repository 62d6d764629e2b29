"""The lines of a script: what is written is read back, and a wrong line is named."""

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kemu.actors.clients.script import Script, ScriptAsks, ScriptCloses, ScriptOpens
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.scenario.script import LONGEST_LINE, read_script, script_lines
from kemu.emulator.text.tables import ScenarioError
from kemu.emulator.text.toml_text import toml_text
from kemu.protocol.errors import ErrorCode
from kemu.protocol.fetch_sessions import NO_FETCH_SESSION
from kemu.protocol.kafka_wire.apis import APIS
from kemu.protocol.messages.data import Fetch
from kemu.protocol.messages.group import Heartbeat, HeartbeatReply
from kemu.protocol.wire.schema import SPECS
from tests.strategies import TEXT, messages

SCENARIO = {"brokers": {"count": 1}, "topics": {"t": {"partitions": 1}}}
OPEN = '{"at": 1, "on": "app/1", "open": "id"}'
BEAT = {"at": 2, "on": "app/1", "to": "b0/coordinator", "ask": "Heartbeat", "v": 4}
BEAT["with"] = {"group": "g", "generation": 1, "member_id": "m"}


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """A script with one connection, and a request of any API and version."""
    api = draw(st.sampled_from(list(APIS.values())))
    version = draw(st.sampled_from(range(api.lowest, api.highest + 1)))
    request = draw(messages(SPECS[api.request.cls], version))
    if isinstance(request, Fetch) and request.session_epoch > 0:  # the machine counts the fetches of a session
        values = {each.name: getattr(request, each.name) for each in SPECS[Fetch].fields}
        request = Fetch(**{**values, "session_id": NO_FETCH_SESSION})
    answer = draw(st.none() | messages(SPECS[api.reply.cls], version))
    at_us = draw(st.integers(0, 10**11))
    asks = ScriptAsks(at_us, "7", "b1", version, request, -1 if answer is None else at_us + 5, answer)
    again = evolve(asks, at_us=at_us + 9, answered_us=-1 if answer is None else at_us + 11)
    return ScriptOpens(at_us, "7", draw(TEXT)), asks, again, ScriptCloses(at_us + 20, "7")


@given(scripts())
def test_what_is_written_is_read_back(script: Script) -> None:
    lines = script_lines({"app": script})
    assert read_script(lines) == {"app": script}
    assert json.loads(lines[2]).get("again") is True


def test_a_scenario_keeps_its_script_in_its_file() -> None:
    beat = Heartbeat(group='it\'s "g"', generation=1, member_id="m")
    script: Script = (
        ScriptOpens(1, "1", "app"),
        ScriptAsks(1_500_000, "1", "b0/coordinator", 4, beat, 1_500_321, HeartbeatReply(error=ErrorCode.NONE)),
    )
    data = {**SCENARIO, "clients": {"names": ["app"], "script": list(script_lines({"app": script}))}}
    scenario = scenario_from_toml(toml_text(data))
    assert scenario.clients.scripts() == {"x-app": script}
    assert scenario_from_toml(toml_text(scenario.to_dict())) == scenario


def _line(**changes: Any) -> str:
    return json.dumps({key: value for key, value in {**BEAT, **changes}.items() if value is not None})


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["{"], "script[0]: Expecting property name"),
        (["[]"], "script[0]: must be a JSON object"),
        (["{}"], "must have one of the keys open, ask, again, close"),
        ([" " * (LONGEST_LINE + 1)], "characters; the maximum is"),
        (["[" * 100_000], "script[0]: "),
        (['{"at": 1, "on": "app/1", "open": 7}'], '"open" must be a string'),
        (['{"at": -1, "on": "app/1", "open": ""}'], '"at" must be a time in seconds'),
        (['{"at": NaN, "on": "app/1", "open": ""}'], '"at" must be a time in seconds'),
        (['{"at": 1, "on": "app", "open": ""}'], '"on" must be CLIENT/CONNECTION'),
        (['{"at": 1, "on": "web/1", "open": ""}'], '"web" is no client here: add it to names'),
        ([OPEN, OPEN], "script[1]: app/1 is opened twice"),
        ([_line()], "app/1 is not open"),
        ([OPEN, _line(at=0)], '"at" is before the line above of app'),
        ([OPEN, _line(to="c1")], '"to" must be a broker such as b0'),
        ([OPEN, _line(ask="Heartbeet")], 'is no API of a real client; did you mean "Heartbeat"?'),
        ([OPEN, _line(v="4")], '"v" must be a whole number'),
        ([OPEN, _line(v=99)], "Heartbeat v99"),
        ([OPEN, _line(v=None)], 'the key "v" is missing'),
        ([OPEN, _line(vv=1)], '"vv" is no key here'),
        ([OPEN, _line(answered=3)], '"answered" and "got" belong together'),
        ([OPEN, _line(answered=1, got={"error": "NONE"})], '"answered" is before "at"'),
        ([OPEN, _line(answered=3, got={"error": "NO"})], "script[1]: NO"),
        ([OPEN, _line(**{"with": {"group": "g", "generation": "1", "member_id": "m"}})], '"1" is no int'),
        ([OPEN, _line(**{"with": {"group": "g", "generation": 1 << 70, "member_id": "m"}})], "script[1]: "),
        ([OPEN, _line(**{"with": []})], "the fields of Heartbeat must be an object"),
        ([OPEN, '{"at": 2, "on": "app/1", "again": true}'], '"again" needs an earlier request'),
    ],
)
def test_a_wrong_line_is_one_message(lines: list[str], text: str) -> None:
    data = {**SCENARIO, "clients": {"names": ["app"], "script": lines}}
    with pytest.raises(ScenarioError) as error:
        scenario_from_toml(toml_text(data), source="s.toml")
    assert text in str(error.value)
    assert str(error.value).startswith("s.toml")
    assert len(error.value.problems) == 1
