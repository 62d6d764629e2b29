"""What the conformance commands of single classes share: recordings, and what is said of them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from attrs import frozen
from click.testing import CliRunner

from lab.conformance.oracles import Json, Oracle, OtherAnswer, recording_text


@frozen
class Sums:
    """Of two numbers; the emulator's are right."""

    release: str
    made_by: str
    rows: tuple[Json, ...]

    def to_json(self) -> str:
        return recording_text(self.release, self.made_by, "sums", self.rows)

    def differences(self) -> Iterator[OtherAnswer]:
        for row in self.rows:
            if row["answer"] != {"sum": sum(row["of"])}:
                yield OtherAnswer("sum", row, {"sum": sum(row["of"])})

    def said(self, wrong: Sequence[OtherAnswer]) -> Iterator[str]:
        yield f"{len(self.rows)} sums, {len(wrong)} differ"


def asked(release: str, count: int, seed: int, folder: Path) -> list[Json]:
    """A release that counts one too many from 40 on."""
    assert folder.is_dir()
    pairs = [(seed, 10 * number) for number in range(count)]
    return [{"of": [a, b], "answer": {"sum": a + b + (b >= 40)}} for a, b in pairs]


@pytest.fixture
def sums(tmp_path: Path) -> Oracle[Sums]:
    """Its recordings in a folder of the test's own."""
    return Oracle(
        module="sums",
        library="kafka-sums",
        key="sums",
        kept=tmp_path,
        made=Sums,
        ask=asked,
        sample=lambda rows: rows[:2],
        cases=3,
    )


def test_a_release_is_asked_and_what_differs_is_shown(sums: Oracle[Sums]) -> None:
    """The first three of them in full; the exit code says that there are some."""
    result = CliRunner().invoke(sums.command("Add.", cases="Sums.", keeps="two"), ["--ask", "9.9", "--cases", "9"])

    assert result.exit_code == 1
    assert "kafka-sums 9.9: 9 sums, 5 differ" in result.stdout
    assert result.stdout.count("  emulator ") == 3
    assert '  sum      {"of": [1, 40]}\n  Kafka    {"sum": 42}\n  emulator {"sum": 41}\n' in result.stdout


def test_what_is_kept_is_compared_without_asking_anybody(sums: Oracle[Sums], tmp_path: Path) -> None:
    """A recording says how it was made, and has a row a line; the sample alone is in it."""
    command = sums.command("Add.", cases="Sums.", keeps="two")
    made = CliRunner().invoke(command, ["--ask", "9.9", "--seed", "7", "--keep"])
    again = CliRunner().invoke(command, [])

    assert (made.exit_code, again.exit_code) == (0, 0)
    assert again.stdout == "kafka-sums 9.9: 2 sums, 0 differ\n"
    lines = (tmp_path / "kafka-sums-9.9.json").read_text().splitlines()
    assert lines[1:] == ['{"of":[7,0],"answer":{"sum":7}},', '{"of":[7,10],"answer":{"sum":17}}', "]}"]
    assert "python -m lab.conformance.sums --ask 9.9 --cases 3 --seed 7 --keep" in lines[0]


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"kafka": "9.9", "made_by": ""})])
def test_what_is_no_recording_is_one_error_with_its_file(sums: Oracle[Sums], tmp_path: Path, text: str) -> None:
    (tmp_path / "torn.json").write_text(text)
    result = CliRunner().invoke(sums.command("Add.", cases="Sums.", keeps="two"), [])

    assert result.exit_code == 2
    assert "torn.json is no recording of answers of kafka-sums" in result.output
