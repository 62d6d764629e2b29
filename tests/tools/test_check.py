"""The checks that need environments of their own: what can be known without making one."""

import pytest

from kemu.tools import check
from kemu.tools.check_lower_bounds import lower_bounds
from kemu.tools.check_packaging import ROOT


def test_every_dependency_of_the_core_declares_a_lower_bound() -> None:
    """``check lower-bounds`` pins each of them to it."""
    pinned = lower_bounds((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    assert {each.partition("==")[0] for each in pinned} == {"attrs", "cattrs", "click", "msgpack", "rich", "trio"}
    assert all(each.partition("==")[2] for each in pinned)


def test_a_dependency_without_a_lower_bound_is_refused() -> None:
    """Otherwise it would be tried in its newest version."""
    with pytest.raises(ValueError, match="declares no lower bound"):
        lower_bounds('[project]\ndependencies = ["attrs"]\n')


def test_checks_that_need_a_network_run_only_when_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The others are what every change must pass."""
    named = {name for name, _ in check.extra_steps()}

    assert named == {"packaging", "lower-bounds"}
    assert not named & {name for name, _ in check.steps()}
    assert check.main(["packagin"]) == 2
    assert "lower-bounds" in capsys.readouterr().out
