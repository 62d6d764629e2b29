"""Recorded conversations with a real broker: requests and responses, so that comparisons need no Java.

A compressed file has one line of JSON about the recording, and one line for each conversation.
"""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
from attrs import frozen

from kemu.protocol.config import MIGRATION_POLICIES
from kemu.protocol.profiles import PROFILES
from lab.conformance.raw.settings import CLASSIC, PROTOCOLS
from lab.conformance.raw.steps import Conversation, ConversationError, from_row, to_row

REPOSITORY = Path(__file__).resolve().parents[3]
KEPT: Mapping[str, Path] = {
    protocol: REPOSITORY / "tests" / "data" / ("raw-requests" if protocol == CLASSIC else f"raw-{protocol}-requests")
    for protocol in PROTOCOLS
}
"""Protocol of the members -> folder of the recordings. Only a checkout or a source distribution has the folders."""
_ENDING = ".jsonl.gz"


@frozen
class About:
    """The release of Kafka, the compared profile, and the command that made the file."""

    kafka: str
    profile: str
    made_by: str
    policy: str = MIGRATION_POLICIES[0]
    """``group.consumer.migration.policy``."""


@frozen
class RawRecording:
    """A file of conversations."""

    about: About
    talks: tuple[Conversation, ...]


def write(path: Path, about: About, talks: Sequence[Conversation]) -> None:
    """Write conversations to a file; equal conversations give equal files."""
    lines = [json.dumps(attrs.asdict(about)), *map(to_row, talks)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))


def read(path: Path) -> RawRecording:
    """Read a file of conversations.

    Raises:
        ConversationError: the file cannot be read, or is damaged; the message has file and line.
    """
    try:
        first, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        about = About(**json.loads(first))
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise ConversationError(f"{path}: cannot be read: {error}") from None
    if about.profile not in PROFILES:
        raise ConversationError(f'{path}: line 1: "{about.profile}" is no profile')
    talks = []
    for number, line in enumerate(lines, 2):
        try:
            talks.append(from_row(line))
        except ConversationError as error:
            raise ConversationError(f"{path}: line {number}: {error}") from None
    return RawRecording(about, tuple(talks))


def read_all(folder: Path) -> list[RawRecording]:
    """All recordings of a folder, sorted by name.

    Raises:
        ConversationError: the folder has no recording, or a damaged recording.
    """
    paths = sorted(folder.glob(f"*{_ENDING}"))
    if not paths:
        raise ConversationError(f"{folder}: no kafka-RELEASE{_ENDING} there")
    return [read(path) for path in paths]


def path_of(folder: Path, release: str) -> Path:
    """The path of the file with a release's conversations."""
    return folder / f"kafka-{release}{_ENDING}"
