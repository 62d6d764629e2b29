"""Reads tables of files, and checks each key. A message about an unknown name suggests the nearest known name.

A ``Table`` returns the values of one table and collects the mistakes. An error is raised after the whole file has been
read, so that a file with three mistakes gives three messages.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from kemu.emulator.text.units import duration_us, per_second
from kemu.protocol.frozen import frozen

Path: TypeAlias = tuple[str | int, ...]


@frozen
class Problem:
    """A mistake in the input: the path of the key, and a text.

    ``instead`` names keys that could replace a missing key. If one of these has a mistake itself, only this mistake is
    reported.
    """

    path: Path
    text: str
    instead: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return the path as text: ``groups.g.members``, ``plan[2].host``."""
        said = ""
        for part in self.path:
            said += f"[{part}]" if isinstance(part, int) else f".{part}" if said else part
        return said


class ScenarioError(ValueError):
    """Bad input: all mistakes in a scenario, one per line, with file and line number for a scenario from a file.

    ``problems`` are sorted by line, then by the order in which they were found.
    """

    def __init__(
        self, problems: Iterable[Problem], source: str = "", line_of: Callable[[Path], int | None] | None = None
    ) -> None:
        dated = [((line_of(problem.path) if line_of else None), problem) for problem in problems]
        dated.sort(key=lambda pair: pair[0] or 0)
        self.source = source
        self.problems = tuple(problem for _, problem in dated)
        lines = []
        for line, problem in dated:
            place = f"{source}:{line}" if source and line else source
            lines.append(printable(": ".join(part for part in (place, problem.key, problem.text) if part)))
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the parts for pickling. The text is a part, because its line numbers cannot be computed without the
        file.
        """
        return _scenario_error, (str(self), self.problems, self.source)


def _scenario_error(text: str, problems: tuple[Problem, ...], source: str) -> ScenarioError:
    """Return a ``ScenarioError`` with exactly this text."""
    error = ScenarioError(problems, source)
    error.args = (text,)
    return error


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    """Return a text with its control characters as escapes: a terminal obeys some of them. Line ends and tabs stay."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Return a hint for a wrong name: the most similar known name, or all names if few, or "".

    An empty name among ``known`` is a default and never part of a hint.
    """
    names = [name for name in known if name]
    folded = {name.lower(): name for name in reversed(names)}
    import difflib  # only for a wrong name

    close = difflib.get_close_matches(wrong.lower(), list(folded), n=1, cutoff=0.55)
    if close:
        return f'; did you mean "{folded[close[0]]}"?'
    if 0 < len(names) <= 16:
        return "; known: " + ", ".join(names)
    return ""


class Table:
    """A table of a file, at ``path``. A getter checks a key, and returns the key's value or the default.

    With the default ``REQUIRED``, a missing key is a mistake, and the getter returns a harmless value of the right
    type.
    """

    def __init__(self, data: Mapping[str, Any], path: Path, problems: list[Problem]) -> None:
        self.data = data
        self.path = path
        self.problems = problems
        self._asked: list[str] = []

    def problem(self, key: str | None, text: str) -> None:
        """Add a mistake of a key, or of the table itself (None)."""
        self.problems.append(Problem(self.path if key is None else (*self.path, key), text))

    def has(self, key: str) -> bool:
        """Whether the table has a key. Afterwards the key is a known key."""
        self._asked.append(key)
        return key in self.data

    def _get(self, key: str, default: Any, wanted: str) -> Any:
        if self.has(key):
            return self.data[key]
        if default is REQUIRED:
            self.problem(key, f"is missing; {wanted} is required")
        return _MISSING

    def text(self, key: str, default: Any = None) -> str:
        """Return the string at a key."""
        given = self._get(key, default, "a string")
        if given is not _MISSING and not isinstance(given, str):
            self.problem(key, no_string(given))
        return given if isinstance(given, str) else "" if default in (REQUIRED, None) else str(default)

    def count(self, key: str, default: Any = None, *, least: int = 0, most: int | None = None) -> int:
        """Return the integer at a key; it must be within the bounds."""
        given = self._get(key, default, "a whole number")
        if given is _MISSING:
            return least if default in (REQUIRED, None) else int(default)
        if isinstance(given, bool) or not isinstance(given, int):
            self.problem(key, f"must be a whole number, not {said_of(given)}")
            return least
        if given < least or (most is not None and given > most):
            self.problem(key, f"must be at least {least}" + (f" and at most {most}" if most else "") + f", not {given}")
            return least
        return given

    def flag(self, key: str, default: bool) -> bool:
        """Return the boolean at a key."""
        given = self._get(key, default, "true or false")
        if given is not _MISSING and not isinstance(given, bool):
            self.problem(key, f"must be true or false, not {said_of(given)}")
        return given if isinstance(given, bool) else default

    def duration(self, key: str, default: Any = None, *, least_us: int = 0) -> int:
        """Return the duration ("20s") at a key, in us."""
        given = self._get(key, default, "a duration")
        if given is _MISSING:
            return least_us if default in (REQUIRED, None) else int(default)
        us = self.as_duration(key, given)
        if us is not None and us < least_us:
            self.problem(key, "must be longer than nothing" if least_us == 1 else f"must be at least {least_us} us")
            return least_us
        return least_us if us is None else us

    def as_duration(self, key: str, given: object) -> int | None:
        """Return ``given`` in us. If ``given`` is no duration, add a mistake at ``key`` and return None."""
        if not isinstance(given, str):
            self.problem(key, f'must be a duration such as "250ms" or "20s", not {said_of(given)}')
            return None
        try:
            return duration_us(given)
        except ValueError as error:
            self.problem(key, str(error))
            return None

    def rate(self, key: str, default: Any = None) -> int:
        """Return the rate ("100/s", or a number) at a key, in records per second."""
        given = self._get(key, default, "a rate")
        if given is _MISSING:
            return 0 if default in (REQUIRED, None) else int(default)
        if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
            return given
        if not isinstance(given, str):
            self.problem(key, f'must be a rate such as "100/s", not {said_of(given)}')
            return 0
        try:
            return per_second(given)
        except ValueError as error:
            self.problem(key, str(error))
            return 0

    def words(self, key: str, default: Any = ()) -> tuple[str, ...]:
        """Return the list of strings at a key; a string with commas is a list, too."""
        given = self._get(key, default, "a list of strings")
        if given is _MISSING:
            return () if default is REQUIRED else tuple(default)
        if isinstance(given, str):
            return tuple(part.strip() for part in given.split(",") if part.strip())
        if not isinstance(given, list | tuple) or not all(isinstance(item, str) for item in given):
            self.problem(key, f"must be a list of strings, not {said_of(given)}")
            return ()
        return tuple(given)

    def one_of(self, key: str, choices: Iterable[str], what: str, default: Any = None) -> str:
        """Return the string at a key, which must be one of the choices; ``what`` is the noun for a choice ("group")."""
        given = self.text(key, default)
        if key in self.data and isinstance(self.data[key], str):
            self.known(key, given, choices, what)
        return given

    def known(self, key: str, given: str, choices: Iterable[str], what: str) -> bool:
        """Add a mistake unless ``given`` is one of the choices."""
        names = list(choices)
        if given in names:
            return True
        self.problem(key, f'"{given}" is no {what}{nearest(given, names)}')
        return False

    def table(self, key: str, *, required: bool = False) -> "Table":
        """Return the table at a key; an empty table for a missing key."""
        given = self._get(key, REQUIRED if required else None, "a table")
        if given is not _MISSING and not isinstance(given, Mapping):
            self.problem(key, f"must be a table, not {said_of(given)}")
        return Table(given if isinstance(given, Mapping) else {}, (*self.path, key), self.problems)

    def finish(self, also: Iterable[str] = ()) -> None:
        """Add a mistake for every key that no getter has read."""
        known = list(dict.fromkeys([*self._asked, *also]))
        for key in self.data:
            if key not in known:
                self.problem(key, f"is no key here{nearest(key, known)}")


def flatten(data: Mapping[str, Any]) -> dict[str, Any]:
    """Join the nested keys of bare dotted keys: ``{"a": {"b": 1}}`` becomes ``{"a.b": 1}``."""
    flat: dict[str, Any] = {}
    for key, item in data.items():
        if isinstance(item, Mapping):
            flat |= {f"{key}.{rest}": inner for rest, inner in flatten(item).items()}
        else:
            flat[key] = item
    return flat


def said_of(given: object) -> str:
    """Return type and value of a wrong value, for a message: "a number (3)"."""
    words = {bool: "true or false", int: "a number", float: "a fraction", str: "a string", list: "a list"}
    kind = "a table" if isinstance(given, Mapping) else words.get(type(given), type(given).__name__)
    return f"{kind} ({given!r:.40})" if isinstance(given, int | float | str) else kind


def no_string(given: object) -> str:
    """Return the mistake of a value that must be a string: 'must be a string, not a number (2): write "2"'."""
    text = str(given).lower() if isinstance(given, bool) else str(given)
    fix = f': write "{text}"' if isinstance(given, int | float) else ""
    return f"must be a string, not {said_of(given)}{fix}"


REQUIRED: Any = object()
_MISSING: Any = object()
