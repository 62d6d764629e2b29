"""The bench of a join: its figures, and its answer where Go is missing."""

import shutil

import pytest
from click.testing import CliRunner

from lab.bench import join
from lab.bench.__main__ import main

pytestmark = pytest.mark.usefixtures("few_objects")


def test_a_join_of_kemu_takes_two_rebalances_and_at_most_two_heartbeat_intervals() -> None:
    one = join._of_kemu(join._stable_us())

    assert 3_000 < one.took_ms < 6_500
    assert one.cpu_ms == one.window_cpu_ms > 0


def test_ratios_are_medians_of_pairs() -> None:
    kemu = [join.Join(2.0, 6_000, 2.0), join.Join(8.0, 6_000, 8.0), join.Join(3.0, 6_000, 3.0)]
    kfake = [join.Join(1.0, 3_000, 2.0), join.Join(2.0, 3_000, 4.0), join.Join(2.0, 3_000, 4.0)]

    figures = join.medians(kemu, kfake)

    assert figures["kemu / kfake, until balanced"] == 2.0
    assert figures["kemu / kfake, equal window"] == 1.0
    assert (figures["kemu, CPU ms until balanced"], figures["kfake, ms until balanced"]) == (3.0, 3_000)


def test_without_go_the_bench_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    done = CliRunner().invoke(main, ["join", "--quick"])

    assert done.exit_code == 2
    assert "this bench needs Go (https://go.dev/dl)" in done.output
