"""Adding an action takes one class: everything that reads, tells, draws or does actions picks it up."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import kemu as kemu_package
from kemu.emulator.plan.action import KINDS, NEVER, AnyHost, action
from kemu.emulator.plan.actions import ACTIONS
from kemu.emulator.plan.entries import plan_to_dicts
from kemu.emulator.plan.stage import Outcome, Stage
from kemu.emulator.runner import run
from kemu.emulator.scenario.files import scenario_from_toml
from kemu.emulator.scenario.random_faults import swarm
from kemu.emulator.text.tables import ScenarioError, Table
from kemu.protocol.wire.values import VALUES, from_row, to_row
from kemu.tools.cli import kemu

TOML = """
duration = "20s"
[topics.t]
partitions = 2
[groups.g]
topics = ["t"]
members = 2
"""


@pytest.fixture
def poke() -> Iterator[type]:
    """The toy: a class, removed after the test."""

    @action("poke", "a host is looked at", drawn=(lambda draw: Poke(host=draw.member()),))
    class Poke:
        """Somebody looks at a host, ``times`` over."""

        host: AnyHost
        times: int = 1

        def words(self) -> str:
            """See ``Action``."""
            return f"poke {self.host} {self.times} times"

        def check(self, table: Table, known: object) -> None:
            """See ``Action``."""
            if self.times > 3:
                table.problem("times", "must be at most 3, or it hurts")

        def apply(self, stage: Stage) -> Outcome:
            """See ``Action``."""
            host = stage.host(self.host)
            return host if isinstance(host, str) else None if host.running else f"{host.name} feels nothing"

    yield Poke
    del ACTIONS["poke"], KINDS[Poke], VALUES["Poke"]


def test_a_new_action_is_read_from_toml_and_done_in_a_run(poke: type) -> None:
    """docs/how-to/add-to-kemu.md, fault or action."""
    entry = '[[plan]]\nat = "{}"\ndo = "poke"\nhost = "c1"\ntimes = 2\n'
    crash = '[[plan]]\nat = "15s"\ndo = "crash"\nhost = "c1"\n'
    scenario = scenario_from_toml(TOML + entry.format("10s") + crash + entry.format("16s"))

    result = run(scenario, seed=1, loop="bare")

    assert [(row.kind, row.fired) for row in result.faults] == [("poke", 1), ("crash", 1), ("poke", 0)]
    assert result.faults[0].text == "at 10s: poke c1 2 times"
    assert plan_to_dicts(scenario.plan)[0] == {"at": "10s", "do": "poke", "host": "c1", "times": 2}
    assert from_row(to_row(scenario.plan[0].action)) == poke(host="c1", times=2)


def test_what_is_wrong_with_a_new_action_is_told_with_its_key(poke: type) -> None:
    """Field by field from its types, and then its own check."""
    with pytest.raises(ScenarioError, match=r'test.toml:\d+: plan\[0\].host: "c3" is no host'):
        scenario_from_toml(f'{TOML}[[plan]]\nat = "1s"\ndo = "poke"\nhost = "c3"\n', source="test.toml")
    with pytest.raises(ScenarioError, match=r"plan\[0\].times: must be at most 3, or it hurts"):
        scenario_from_toml(f'{TOML}[[plan]]\nat = "1s"\ndo = "poke"\nhost = "c1"\ntimes = 4\n')


def test_a_new_action_is_known_to_the_command_line(poke: type, tmp_path: Path) -> None:
    """``kemu run --do`` and ``kemu describe``."""
    path = tmp_path / "s.toml"
    path.write_text(TOML)

    told = CliRunner().invoke(kemu, ["describe", "poke"])
    listed = CliRunner().invoke(kemu, ["describe", "faults"])
    ran = CliRunner().invoke(kemu, ["run", str(path), "--do", "poke host=c2 at=10s", "--loop", "bare"])

    assert "poke: a host is looked at" in told.output
    assert "host = ...   # host\n" in told.output
    assert "times = ...   # number; default 1" in told.output
    assert "a host is looked at" in listed.output
    assert ran.exit_code == 0, ran.output
    assert "poke c2 1 times" in ran.output


def test_a_new_action_is_drawn_where_it_says_how(poke: type) -> None:
    """The swarm reads the table."""
    assert swarm(replicated=False)[-1] is KINDS[poke].drawn[0], "last, so that no other draw of a seed changes"
    assert KINDS[poke].drawn[0] in swarm(replicated=True)
    assert all(ACTIONS[kind].drawn == NEVER for kind in ("heal", "restart", "close-host"))


def test_every_action_is_a_public_name_of_the_package() -> None:
    """At run time by ``@action``; for type checkers by the imports of ``kemu.emulator.plan.actions.classes``."""
    assert {row.cls.__name__ for row in KINDS.values()} <= set(dir(kemu_package))
    assert all(getattr(kemu_package, row.cls.__name__) is row.cls for row in KINDS.values())


def test_a_class_without_one_of_its_parts_is_refused_by_the_type_checker(tmp_path: Path) -> None:
    """Words, check, what it does, random form: each is asked for by ``@action``."""
    parts = {
        "words": '    def words(self) -> str:\n        return "x"\n',
        "check": "    check = nothing_more\n",
        "apply": "    def apply(self, stage: Stage) -> Outcome:\n        return None\n",
    }
    head = (
        "from kemu.emulator.plan.action import NEVER, action, nothing_more\n"
        "from kemu.emulator.plan.stage import Outcome, Stage\n"
    )
    source = head
    for lacking in (*parts, "drawn", "nothing"):
        drawn = "" if lacking == "drawn" else ", drawn=NEVER"
        body = "".join(text for part, text in parts.items() if part != lacking)
        source += f'@action("{lacking}", "x"{drawn})\nclass Without_{lacking}:\n    """x"""\n{body}'
    (tmp_path / "toys.py").write_text(source)

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(tmp_path / "toys.py")],
        capture_output=True,
        text=True,
        check=False,
    )

    for lacking in parts:
        assert f'cannot be "Without_{lacking}"' in checked.stdout, checked.stdout
    assert 'Missing named argument "drawn"' in checked.stdout
    assert "Found 4 errors" in checked.stdout, "the one that lacks nothing is accepted"
