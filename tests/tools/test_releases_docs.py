"""The page on releases: the rules it names are those of the profiles, what it says of costs holds in its commands."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

from attrs import evolve
from click.testing import CliRunner

from kemu.actors.coordinator.rules import GROUP_RULES
from kemu.protocol.errors import ErrorCode
from kemu.protocol.profiles import PROFILES
from kemu.tools.cli import kemu

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "explanation" / "releases.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)`: [^|]+" + r"\| (yes|no) " * 5, re.MULTILINE)
RELEASES = ("kafka-2.4", "kafka-2.6", "kafka-2.8", "kafka-3.0", "kafka-3.4")


def decided(release: str, rule: str) -> bool:
    """What a release's consumers or coordinator decide."""
    profile = PROFILES[release]
    client = profile.rules_of(evolve(profile.consumer, group_id="g"), (profile.assignors["range"],)).client
    value = (
        getattr(client, rule) if hasattr(client, rule) else getattr(GROUP_RULES[profile.broker.coordinator_kind], rule)
    )
    return value is ErrorCode.NONE or value is True


def test_the_table_of_rules_is_what_the_profiles_have() -> None:
    rows = ROW.findall(PAGE)

    assert len(rows) == 13
    for rule, *cells in rows:
        assert cells == ["yes" if decided(release, rule) else "no" for release in RELEASES], rule


def test_the_commands_name_every_release_since_2_4() -> None:
    """None is left out of the comparison."""
    named = set(re.findall(r"kafka-\d\.\d\b(?!-)", PAGE.rpartition("```\nkemu")[2]))

    assert named == {name for name in PROFILES if re.fullmatch(r"kafka-\d\.\d", name)} - {"kafka-2.3"}


def test_cooperative_rebalancing_of_2_4_stops_members_that_later_releases_let_work() -> None:
    """The page's second command, of the two releases between which poll() changed, with one seed."""
    (command,) = [line for line in PAGE.splitlines() if line.startswith("kemu compare cooperative-scale-out")]
    words = shlex.split(command)[1:]
    words[words.index("--profiles") + 1] = "kafka-2.4,kafka-2.6"
    words[words.index("--seeds") + 1] = "1:1"
    done = CliRunner().invoke(kemu, [*words, "--format", "json"], catch_exceptions=False)

    rows: list[dict[str, Any]] = json.loads(done.stdout)["variants"]
    before, after = [row["figures"]["downtime_sum"]["median"] for row in rows]
    assert before > 1.5 * after > 0
