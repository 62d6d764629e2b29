"""The excerpts of public logs in ``tests/data/logs``, with their events by hand."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "data" / "logs"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.log")))


def lines(name: str) -> list[str]:
    """The lines of an excerpt."""
    return (FOLDER / f"{name}.log").read_text(encoding="utf-8").splitlines(keepends=True)


def truth(name: str) -> dict[str, Any]:
    """The events and the account of an excerpt, by hand."""
    result: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return result
