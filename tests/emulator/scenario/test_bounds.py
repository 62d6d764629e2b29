"""Every value of a scenario has a bound, and a file that would take too long to read is refused at once."""

from pathlib import Path

import pytest

from kemu.emulator.scenario.files import load_scenario, scenario_from_toml, with_actions, with_values
from kemu.emulator.text.tables import ScenarioError

SCENARIO = 'duration = "2s"\n[topics.orders]\npartitions = 2\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a." * 50_000 + "b = 1", "is not TOML: line 1 has more than 1000 dots"),
        ("a = " + "[" * 10_000 + "]" * 10_000, "is not TOML: it has too many tables and lists inside each other"),
        ("a = " + "[" * 30 + "]" * 30, "has more than 16 tables and lists inside each other"),
        ("seed = " + "9" * 5_000, "is not TOML: a number has too many digits"),
        ("seed = " + "9" * 30, "seed: must be a number of at most 19 digits"),
        ("duration = nan", "duration: must be a number of at most 19 digits"),
        ('name = "\\u001b]0;x\\u0007"', r"name: has control characters: '\x1b]0;x\x07'"),
        ('[topics."a\\u0000"]', r"topics.key: has control characters: 'a\x00'"),
        ("#" * 10_000_001, "is not TOML: it has more than 10,000,000 characters"),
        ('[groups]\ng = "x"', "groups.g: must be a table, not a string ('x')"),
        ("[groups]\ng = 1", "groups.g: must be a table, not a number"),
        ("[topics]\nt = 1", "topics.t: must be a table, not a number"),
        ('profile = ["x", 1]', "profile: must be a string, not a list"),
        ("[topics.__consumer_offsets]\npartitions = 1", "is Kafka's internal topic, which the coordinators create"),
        (
            "".join(f"[topics.t{number}]\n" for number in range(10_001)),
            "topics: has 10,001 entries; the maximum is 10,000",
        ),
    ],
    ids=lambda value: value[:20],
)
def test_a_file_without_bounds_is_refused_with_its_name(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ScenarioError) as refused:
        load_scenario(path)

    assert str(refused.value).startswith(f"{path}:")
    assert said in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SCENARIO.encode())

    assert load_scenario(path).topics["orders"].partitions == 2


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("grow-topic topic=orders partitions=100001", "partitions: must be at least 1 and at most 100000"),
        ("clock-drift host=c1 ppm=-1000000", "ppm: must be at least -999999 and at most 1000000"),
        ("clock-drift host=c1 ppm=1000001", "ppm: must be at least -999999 and at most 1000000"),
        ("add-members group=g count=10000001", "count: must be at least 1 and at most"),
        ("priorities order=1 within=1s changes=10001", "changes: must be at least 0 and at most 10000"),
        ('stop-polling host="coordinator of g" for=1s', 'must be a member; "coordinator of g" is a broker'),
        ("keep-instance host=c1", "c1 is no instance of a Streams application"),
        ('keep-instance host="leader of g"', "leader of g is no instance of a Streams application"),
    ],
)
def test_an_action_without_bounds_is_refused(action: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        with_actions(load_scenario("steady-group"), [action])


@pytest.mark.parametrize(
    "setting", ["plan.².at=1s", "plan.99999999999999999999.at=1s", "name=\x1b[31m", "summary=\udcff"]
)
def test_a_setting_is_checked_like_a_file(setting: str) -> None:
    with pytest.raises(ScenarioError, match="--set"):
        with_values(load_scenario("rolling-restart-static"), [setting])


def test_a_key_of_a_group_needs_a_group(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.write_text("[topics.t]\npartitions = 1\n", encoding="utf-8")

    with pytest.raises(ScenarioError, match='"members" is a key of a group, and the scenario has none'):
        with_values(load_scenario(path), ["members=2"])


@pytest.mark.parametrize("value", ["50000", '"50000"', "'\"50000\"'"])
def test_a_key_for_text_takes_a_number_in_a_line(value: str) -> None:
    """A line has no types; a file has: there the mistake names the fix."""
    action = f"alter-configs group=g key=consumer.session.timeout.ms value={value}"
    (entry,) = with_actions(load_scenario("consumer-protocol-steady"), [action]).plan
    assert entry.action.value == "50000"

    text = (
        "plan = [{ do = 'alter-configs', group = 'g', key = 'consumer.session.timeout.ms', at = '5s', value = 50000 }]"
    )
    with pytest.raises(ScenarioError, match='must be a string, not a number \\(50000\\): write "50000"'):
        scenario_from_toml(f"duration = '60s'\n{text}\n[topics.t]\n[groups.g]\ntopics = ['t']\n", source="f.toml")
