"""Read and write the JSON files of ``kafka-reassign-partitions.sh``; an error lists all mistakes of a file."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from kemu.protocol.names import TopicPartition
from kemu.protocol.reassign.requests import list_error
from kemu.tools.kafka_files.input_files import LARGEST_ID, BadFile, is_topic, json_of, read_text

MOST_REPLICAS = 100
"""Maximum number of replicas of a partition."""
MOST_PROBLEMS = 20
"""Maximum number of problems in one error."""


class BadReassignment(ValueError):
    """A file has mistakes; the message has one line for each mistake, with file, topic, partition and reason."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems[:MOST_PROBLEMS]
        if len(problems) > MOST_PROBLEMS:
            self.problems += (f"... and {len(problems) - MOST_PROBLEMS} more",)
        super().__init__("\n".join(self.problems))


def read_reassignment(path: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Return partition -> replicas, in the order of the file.

    The tool's format is {"version": 1, "partitions": [{"topic", "partition", "replicas"}]}. The reader ignores the key
    ``log_dirs``.

    Raises:
        BadReassignment: the file has mistakes.
    """
    raw = _json_of(path)
    rows = raw.get("partitions") if isinstance(raw, dict) else None
    if not isinstance(rows, list):
        raise BadReassignment(f'{path}: must be {{"version": 1, "partitions": [...]}}')
    problems = _version_problems(path, raw)
    lists: dict[TopicPartition, tuple[int, ...]] = {}
    for number, row in enumerate(rows, 1):
        where, why, entry = _entry(path, number, row)
        if entry is None:
            problems.append(f"{where}: {why}")
        elif entry[0] in lists:
            problems.append(f"{where}: is in the file twice")
        else:
            lists[entry[0]] = entry[1]
    if problems:
        raise BadReassignment(*problems)
    return lists


def _version_problems(path: str, raw: Mapping[str, Any]) -> list[str]:
    version = raw.get("version", 1)
    known = version == 1 and not isinstance(version, bool)
    return [] if known else [f"{path}: version {json.dumps(version)} is not known, the tool writes 1"]


def _json_of(path: str) -> Any:
    try:
        return json_of(read_text(path))
    except BadFile as error:
        raise BadReassignment(f"{path}: {error}") from error


def _entry(path: str, number: int, row: Any) -> tuple[str, str, tuple[TopicPartition, tuple[int, ...]] | None]:
    """Return the place of an entry in the file, its problem ("": none), and the entry or None."""
    where = f"{path}: partitions[{number - 1}]"
    if not isinstance(row, dict):
        return where, 'must be {"topic", "partition", "replicas"}', None
    topic, partition, replicas = row.get("topic"), row.get("partition"), row.get("replicas")
    if not isinstance(topic, str) or not is_topic(topic):
        return where, "topic must be a name of a topic", None
    if not _is_number(partition) or not 0 <= partition <= LARGEST_ID:
        return f"{where}: topic {topic}", f"partition must be a whole number from 0 to {LARGEST_ID}", None
    where = f"{path}: {topic}-{partition}"
    if not isinstance(replicas, list) or not all(_is_number(broker) for broker in replicas):
        return where, "replicas must be a list of broker ids", None
    if len(replicas) > MOST_REPLICAS or any(broker > LARGEST_ID for broker in replicas):
        return where, f"replicas must be at most {MOST_REPLICAS} broker ids up to {LARGEST_ID}", None
    brokers = tuple(replicas)
    wrong = list_error(brokers)
    return where, wrong, None if wrong else ((topic, partition), brokers)


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def reassignment_json(lists: Iterable[tuple[TopicPartition, tuple[int, ...]]]) -> str:
    """Return the text of a file for ``kafka-reassign-partitions.sh``."""
    partitions = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)} for (topic, partition), replicas in lists
    ]
    return json.dumps({"version": 1, "partitions": partitions}) + "\n"
