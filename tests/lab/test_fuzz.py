"""Damaged input is accepted, or refused in one message that names the place."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.fuzz import SHARES, SURFACES, Fuzzer, main, try_one
from tests.examples import examples


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzer]:
    with closing(Fuzzer(tmp_path_factory.mktemp("fuzz"))) as it:
        yield it


@pytest.mark.parametrize("surface", SURFACES)
def test_no_input_causes_an_unexpected_error(surface: str, fuzzer: Fuzzer) -> None:
    @settings(max_examples=examples(60), deadline=None)
    @given(number=st.integers(0, 1 << 32))
    def try_numbers(number: int) -> None:
        outcome, text = try_one(fuzzer, surface, number)
        assert outcome in ("accepted", "refused"), text

    try_numbers()


def test_an_unexpected_error_is_printed_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(fuzzer: Fuzzer, draws: object) -> None:
        raise KeyError("x")

    monkeypatch.setitem(SURFACES, "set", (fails, "--set"))  # type: ignore[arg-type]
    done = CliRunner().invoke(main, ["set", "--count", "2", "--first", "7"])

    assert done.exit_code == 1
    assert "set 8: Traceback" in done.output
    assert "set: 0 accepted, 0 refused, 2 failed" in done.output


def test_a_sweep_of_all_surfaces_continues_from_its_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The inputs of the first call count, and are not tried again."""
    seen: list[object] = []
    for name in SURFACES:
        monkeypatch.setitem(SURFACES, name, (lambda fuzzer, draws: seen.append(draws), "x"))
    asked = ["all", "--count", "200", "--counts", str(tmp_path / "counts.json")]
    CliRunner().invoke(main, asked)
    first = len(seen)

    done = CliRunner().invoke(main, [*asked[:2], "400", *asked[3:]])

    assert first == 200
    assert len(seen) == 400
    assert done.exit_code == 0, done.output
    assert f"set: {400 * SHARES['set'] // 100} accepted, 0 refused, 0 failed" in done.output
    assert "400 inputs of the code" in done.output


def test_the_shares_of_the_surfaces_are_percents() -> None:
    assert SHARES.keys() == SURFACES.keys()
    assert sum(SHARES.values()) == 100


def test_the_trace_under_test_has_records_of_most_kinds(tmp_path: Path) -> None:
    """Otherwise nothing could be changed in them."""
    from kemu.emulator.trace.traces import Footer, PacketRecord, Step, WorldFact, read_trace
    from lab.fuzz import small_trace

    kinds = {type(record) for record in read_trace(small_trace(tmp_path)).records()}

    assert {Step, PacketRecord, WorldFact, Footer} <= kinds
