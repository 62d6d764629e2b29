"""Frames: rows of one kind as columns of equal length, for the printers of a report."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from kemu.protocol.frozen import frozen

Cell: TypeAlias = int | str
Column: TypeAlias = Sequence[Any]
"""All values of one field: integers (times in us), or texts."""
Row: TypeAlias = Mapping[str, Any]
"""One row: column -> value."""
FROM, UNTIL = "from_us", "until_us"


class Coded(Sequence[str]):
    """A column of texts that is kept as numbers: places in a list of all texts."""

    def __init__(self, texts: Sequence[str], codes: Sequence[int]) -> None:
        self.texts = texts
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, place: Any) -> Any:
        return self.texts[self.codes[place]]

    def __iter__(self) -> Iterator[str]:
        return map(self.texts.__getitem__, self.codes)


@frozen
class Frame:
    """Columns by name, in the order in which they are printed."""

    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> Iterable[tuple[Any, ...]]:
        """The rows, as tuples in the order of the columns."""
        return zip(*self.columns.values(), strict=True) if self.columns else ()

    def named(self) -> Iterator[Row]:
        """The rows, by name of the column."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows())


def frame_of(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Frame:
    """The frame of these rows."""
    kept = list(rows)
    return Frame({name: [row[place] for row in kept] for place, name in enumerate(names)})


def frame_of_values(values: Iterable[Any], names: Sequence[str], **made: Callable[[Any], Cell]) -> Frame:
    """The frame of frozen values: the named fields, None as -1, then the columns that ``made`` computes."""
    kept = list(values)
    columns = {name: [-1 if (item := getattr(each, name)) is None else item for each in kept] for name in names}
    return Frame({**columns, **{name: [make(each) for each in kept] for name, make in made.items()}})


def plain_frames(frames: Mapping[str, Frame]) -> dict[str, dict[str, list[Any]]]:
    """The frames as JSON data: lists by frame and column."""
    return {name: {column: list(cells) for column, cells in frame.columns.items()} for name, frame in frames.items()}


class States:
    """States over time, as rows (from, until, key, values). A new state of a key ends its former state."""

    def __init__(self, keys: Sequence[str], values: Sequence[str]) -> None:
        self.names = (FROM, UNTIL, *keys, *values)
        self.open: dict[tuple[Cell, ...], tuple[int, tuple[Cell, ...]]] = {}
        """Key -> start and values of its present state."""
        self._rows: list[tuple[Any, ...]] = []

    def put(self, at_us: int, key: tuple[Cell, ...], *values: Cell) -> None:
        """Begin a state, unless the key is in this state already."""
        before = self.open.get(key)
        if before is not None and before[1] == values:
            return
        self.end(at_us, key)
        self.open[key] = at_us, values

    def end(self, at_us: int, key: tuple[Cell, ...]) -> None:
        """End the state of a key; nothing happens if it has none. A state of no duration is dropped."""
        before = self.open.pop(key, None)
        if before is not None and before[0] < at_us:
            self._rows.append((before[0], at_us, *key, *before[1]))

    def end_all(self, at_us: int, ended: Callable[[tuple[Cell, ...]], bool]) -> None:
        """End the states of all keys that a condition holds for."""
        for key in [key for key in self.open if ended(key)]:
            self.end(at_us, key)

    def frame(self, at_us: int) -> Frame:
        """All states, by start; those that have not ended end now."""
        now: list[tuple[Any, ...]] = [
            (since, at_us, *key, *values) for key, (since, values) in self.open.items() if since < at_us
        ]
        return frame_of(self.names, sorted([*self._rows, *now], key=itemgetter(0, 1)))


def name_of(at: tuple[str, int]) -> str:
    """A partition as text: "orders-0"."""
    return f"{at[0]}-{at[1]}"


def listed(numbers: Iterable[int]) -> str:
    """Numbers of brokers as text: "0,1,2"."""
    return ",".join(map(str, numbers))
