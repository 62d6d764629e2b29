"""The stored recordings, each with a release of Kafka and the compared profile."""

import json
from pathlib import Path
from typing import NamedTuple

from lab.conformance.reassigning.sequences import Sequences

KEPT = Path(__file__).resolve().parents[3] / "tests" / "data" / "reassigning"
ISRS_BY_CONTROLLER_SINCE = (2, 7)


class SequencesError(ValueError):
    """A file or folder is not a recording of a reassignment."""


class Recording(NamedTuple):
    """A run of the plan in a real cluster."""

    name: str
    profile: str
    sequences: Sequences


def read_all(folder: Path) -> list[Recording]:
    """All recordings of a folder, by name.

    Raises:
        SequencesError: the folder has no recording, or a recording is unreadable.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise SequencesError(f"there is no recording in {folder}")
    return [_read(path) for path in paths]


def _read(path: Path) -> Recording:
    text = path.read_text(encoding="utf-8")
    try:
        protocol = tuple(int(part) for part in json.loads(text)["inter_broker_protocol"].split("."))
        made = Sequences.from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SequencesError(f"{path} is no recording of a reassignment: {error!r}") from None
    return Recording(path.stem, "kafka-3.4" if protocol >= ISRS_BY_CONTROLLER_SINCE else "kafka-2.4", made)
