"""English as CONTRIBUTING.md asks for it, by ``lab.prose``: a test for each room of the repository.

Docstrings, comments, help texts and pages keep every rule. Texts that the code prints contain no retired word.
"""

import pytest

from lab.prose import DEFAULT, ROOT, printed, sentences
from tests.sources import ONE_PROCESS

pytestmark = ONE_PROCESS

DEEPEST = 3
"""A room is a folder, or a page of its own; deeper folders belong to the room above them."""


def rooms() -> dict[str, list[str]]:
    """The files of each room, by its path."""
    found: dict[str, list[str]] = {}
    for start in DEFAULT:
        place = ROOT / start
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            parts = path.relative_to(ROOT).parts
            if path.suffix in (".py", ".md", ".toml"):
                room = "/".join(parts[:-1][:DEEPEST]) if len(parts) > 1 else parts[0]
                found.setdefault(room, []).append("/".join(parts))
    return found


ROOMS = rooms()


def test_no_room_is_left_out() -> None:
    """Those of the package, of its developers, and the pages."""
    assert {"README.md", "docs", "lab", "kemu", "kemu/tools/testkit", "kemu/actors/consumer"} <= ROOMS.keys()


@pytest.mark.parametrize("room", ROOMS)
def test_the_prose_of_a_room_keeps_the_rules(room: str) -> None:
    """Run ``python -m lab.prose ROOM`` for the list."""
    faulty = [f"{each.file}:{each.line}: {'; '.join(each.faults)}" for each in sentences(ROOMS[room]) if each.faults]

    assert not faulty, "\n".join(faulty)


@pytest.mark.parametrize("room", [room for room in ROOMS if room.startswith("kemu")])
def test_the_texts_that_a_room_prints_contain_no_retired_word(room: str) -> None:
    """Reports, stories, errors and violations."""
    paths = [ROOT / file for file in ROOMS[room] if file.endswith(".py")]
    faulty = [
        f"{each.file}:{each.line}: {'; '.join(each.retired)}: {each.text}"
        for path in paths
        for each in printed(path)
        if each.retired
    ]

    assert not faulty, "\n".join(faulty)
