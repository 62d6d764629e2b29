"""``kemu plan-reassignment``: Kafka's files in, batches out; bad files are one clear error."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kemu.tools.cli import kemu
from kemu.tools.kafka_files.reassignment import read_reassignment


def row(topic: str, partition: int, *replicas: int) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "replicas": list(replicas), "log_dirs": ["any"] * len(replicas)}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("current.json", row("a", 0, 0, 1, 2, 3, 4), row("b", 0, 0, 1), row("b", 1, 1, 0))
    write("target.json", row("a", 0, 5, 6, 7, 8, 9), row("b", 0, 1, 2))
    return tmp_path


def write(name: str, *rows: Any) -> None:
    Path(name).write_text(json.dumps({"version": 1, "partitions": list(rows)}))


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(
        kemu, ["plan-reassignment", "--current", "current.json", "--target", "target.json", *arguments]
    )


def test_the_pages_example_as_json(files: Path) -> None:
    """KIP-435's example with two replicas a step, beside a partition that needs one step."""
    result = plan("--replica-limit", "2", "--format", "json")

    said = json.loads(result.stdout)
    assert result.exit_code == 0
    assert said["ends"] == "complete"
    assert [[(each["topic"], each["replicas"]) for each in step["partitions"]] for step in said["steps"]] == [
        [("a", [5, 0, 1, 2, 3, 4]), ("b", [1, 2])],
        [("a", [5, 6, 2, 3, 4])],
        [("a", [5, 6, 7, 8, 4])],
        [("a", [5, 6, 7, 8, 9])],
    ]
    first = said["steps"][0]["partitions"][0]
    assert (first["adding"], first["removing"], first["leader"]) == ([5], [], 5)


def test_a_file_per_batch_is_what_the_tool_takes(files: Path) -> None:
    """One reassignment file per batch, read back by the same reader; a folder with something in it is left alone."""
    result = plan("--replica-limit", "2", "--partition-limit", "1", "--format", "kafka", "--out", "steps")

    paths = sorted(Path("steps").iterdir())
    assert result.exit_code == 0
    assert result.stdout.split() == [str(path) for path in paths]
    assert [read_reassignment(str(path)) for path in paths] == [
        {("a", 0): (5, 0, 1, 2, 3, 4)},
        {("a", 0): (5, 6, 2, 3, 4)},
        {("a", 0): (5, 6, 7, 8, 4)},
        {("a", 0): (5, 6, 7, 8, 9)},
        {("b", 0): (1, 2)},
    ]
    again = plan("--format", "kafka", "--out", "steps")
    assert again.exit_code == 2
    assert "steps: is not empty" in again.stderr


def test_text_tells_each_batch_and_its_load(files: Path) -> None:
    result = plan("--replica-limit", "2")

    assert result.exit_code == 0
    assert "batch 1: 2 partitions, 2 replicas copied (to broker 2: 1, 5: 1), 2 leaders moved" in result.stdout
    assert "  a-0  (0,1,2,3,4) -> (5,0,1,2,3,4)  +5  leader 5" in result.stdout
    assert result.stdout.splitlines()[-1] == "complete after 4 batches, 6 replicas copied"


def test_what_cannot_end_says_what_it_waits_for(files: Path) -> None:
    """Targets that are offline: the rest goes on, exit code 0, the reason named."""
    result = plan("--online", "0,1,2,3,4,5,6", "--replica-limit", "1", "--format", "json")

    said = json.loads(result.stdout)
    assert result.exit_code == 0
    assert said["ends"] == "waiting"
    assert [(each["topic"], each["why"]) for each in said["waiting"]] == [("a", "offline: 7, 8, 9")]


def test_nothing_to_do_is_said(files: Path) -> None:
    write("target.json", row("b", 0, 0, 1))

    assert plan().stdout == "nothing to do\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"version": 1, "partitions": [row("b", 0, 1, 1)]}, "target.json: b-0: broker 1 is in the list"),
        ({"version": 1, "partitions": [row("b", 0)]}, "target.json: b-0: the list of replicas is empty"),
        ({"version": 1, "partitions": [row("b", 0, -1)]}, "target.json: b-0: -1 is not a broker id"),
        ({"version": 1, "partitions": [row("b", 0, 1), row("b", 0, 2)]}, "target.json: b-0: is in the file twice"),
        ({"version": 1, "partitions": [row("b", 7, 1)]}, "target.json: b-7: is not in current.json"),
        ({"version": 1, "partitions": [row("", 7, 1)]}, "target.json: partitions[0]: topic must be a name"),
        ({"version": 1, "partitions": [row("\x1b[31m", 7, 1)]}, "target.json: partitions[0]: topic must be a name"),
        ({"version": 1, "partitions": [row("b", 10**30, 1)]}, "topic b: partition must be a whole number from 0"),
        ({"version": 1, "partitions": [row("b", 0, *range(100_000))]}, "b-0: replicas must be at most 100 broker ids"),
        ({"version": 1, "partitions": [row("b", 0, 10**30)]}, "b-0: replicas must be at most 100 broker ids up to"),
        ({"version": 1, "partitions": [{"topic": "b", "partition": "0"}]}, "topic b: partition must be a whole number"),
        ({"version": 1, "partitions": [{"topic": "b", "partition": 0}]}, "b-0: replicas must be a list of broker ids"),
        ({"version": 1, "partitions": [4]}, 'partitions[0]: must be {"topic", "partition", "replicas"}'),
        ({"version": 2, "partitions": []}, "target.json: version 2 is not known"),
        ([], 'target.json: must be {"version": 1'),
    ],
)
def test_bad_input_is_named_with_topic_partition_and_reason(files: Path, content: Any, said: str) -> None:
    Path("target.json").write_text(json.dumps(content))

    result = plan()

    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_too_large_file_is_refused(files: Path) -> None:
    """A gigabyte is never read."""
    with Path("target.json").open("wb") as file:
        file.truncate(1 << 30)

    result = plan()

    assert result.exit_code == 2
    assert result.stderr == "error: target.json: is larger than 64 MiB\n"


@pytest.mark.parametrize("text", ["", "{", "\x00", "[" * 100_000, "9" * 5_000])
def test_what_is_no_json_is_named_with_its_file(files: Path, text: str) -> None:
    Path("target.json").write_text(text)

    result = plan()

    assert result.exit_code == 2
    assert result.stderr.startswith("error: target.json: is no JSON")


@pytest.mark.parametrize(
    "arguments", [("--replica-limit", "0"), ("--online", "a,b"), ("--policy", "kip-1"), ("--min-isr", "0")]
)
def test_bad_options_are_refused(files: Path, arguments: tuple[str, str]) -> None:
    assert plan(*arguments).exit_code == 2
