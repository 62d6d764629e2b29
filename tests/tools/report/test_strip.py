"""The picture of a run on a terminal: its width, and its marks against the frames of the report."""

from string import digits

import pytest
from click.testing import CliRunner

from kemu.tools.cli import kemu
from kemu.tools.commands import run as run_module
from kemu.tools.report import strip as strip_module
from kemu.tools.report.strip import KEY, LABEL, MANY, TAIL, strip
from tests.tools.report.presets import ONE_PROCESS, SIX, made

pytestmark = ONE_PROCESS


@pytest.mark.parametrize("width", [200, 100, 80])
@pytest.mark.parametrize("preset", SIX)
def test_no_line_is_wider_than_the_terminal_or_100_columns(preset: str, width: int) -> None:
    """And pictures of a terminal without UTF-8 are ASCII."""
    report = made(preset).report

    assert max(map(len, strip(report, width))) <= min(width, 100)
    assert all(line.isascii() for line in strip(report, width, plain=True))


def test_a_member_is_a_line_of_its_partitions_and_its_absence() -> None:
    """c1 is down once; every member of the calm end owns 2 of 12 partitions."""
    report = made("rolling-restart-dynamic").report
    lines = {line[:LABEL].strip(): line[LABEL:] for line in strip(report, 100)}
    columns = 100 - LABEL - TAIL
    hosts = report.frames["hosts"].columns
    down = {
        host: (until_us - since_us) * columns / report.result.virtual_us
        for host, since_us, until_us in zip(hosts["host"], hosts["from_us"], hosts["until_us"], strict=True)
    }

    assert [name for name in lines if name.startswith("c")] == ["c1", "c2", "c3", "c4", "c5", "c6"]
    for member, share in down.items():
        assert abs(lines[member].count("_") - share) <= 1.5, member
        assert len(lines[member].split("_")) - 1 == lines[member].count("_")
    assert all(lines[f"c{number}"].endswith("2" * 15) for number in range(1, 7))
    assert lines["no service"].endswith("of 12") and lines["faults"].strip() == "x"


def test_members_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were out of service for the longest time stay."""
    monkeypatch.setattr(strip_module, "MOST_MEMBERS", 2)
    lines = list(strip(made("rolling-restart-dynamic").report, 100))

    assert sum(line.startswith("c") for line in lines) == 2
    assert lines[-2:] == [" " * LABEL + "and 4 members out of service for less time", " " * LABEL + KEY]


@pytest.mark.parametrize(("options", "draws"), [((), True), (("--quiet",), False), (("--format", "json"), False)])
def test_a_run_is_drawn_on_a_terminal_only(
    options: tuple[str, ...], draws: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ``--quiet`` and as text."""
    command = ["run", "catch-up-second-crash", "--loop", "bare", *options]
    piped = CliRunner().invoke(kemu, command)
    monkeypatch.setattr(run_module, "is_terminal", lambda: True)
    shown = CliRunner().invoke(kemu, command)

    assert KEY not in piped.output
    assert (KEY in shown.output) == draws


def test_a_member_that_reconciles_is_in_its_group() -> None:
    """A member of the consumer protocol keeps its other partitions while it takes a new assignment."""
    report = made("consumer-protocol-scale-out").report
    lines = {line[:LABEL].strip(): line[LABEL:] for line in strip(report, 100)}

    assert "j" in "".join(strip(report, 100))
    for number in range(1, 8):
        first = next(at for at, mark in enumerate(lines[f"c{number}"]) if mark.isdigit())
        assert set(lines[f"c{number}"][first:]) <= {*digits, MANY}, "no column of a member in the group is blank"
