r"""Expressions of RE2/J, with which coordinators match the names of topics (``SubscriptionPattern``, KIP-848).

An expression is parsed into sets of the characters that names of topics may have, so that a class or an escape of any
other character matches nothing. The match visits sets of positions: no expression takes exponential time, as in RE2/J.
The whole name must match, so greediness does not matter.

Not emulated: scripts of Unicode other than Latin and Common (``\p{Greek}``), whose tables Python lacks, and groups
that nest deeper than 100 levels.

Source: https://github.com/google/re2/wiki/Syntax, and answers of RE2/J 1.7 and 1.8. Kafka 4.0 has 1.7; 4.1 to 4.3
have 1.8, which knows the group ``(?<name>...)``.
"""

import string
import unicodedata
from typing import TypeAlias, Union

from kemu.protocol.frozen import frozen

NAME_CHARACTERS = string.ascii_letters + string.digits + "._-"
"""The characters of names of topics. Source: ``Topic.LEGAL_CHARS``."""
MOST_REPEATS = 1000
MOST_NESTED_GROUPS = 100
"""A deeper expression would exhaust the stack of Python. RE2/J's limit is the stack of Java."""

_ALL = frozenset(NAME_CHARACTERS)
_DIGITS = frozenset(string.digits)
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_PERL = {"d": _DIGITS, "s": frozenset[str](), "w": _WORD}
_POSIX = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": _ALL,
    "blank": frozenset[str](),
    "cntrl": frozenset[str](),
    "digit": _DIGITS,
    "graph": _ALL,
    "lower": frozenset(string.ascii_lowercase),
    "print": _ALL,
    "punct": frozenset("._-"),
    "space": frozenset[str](),
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_CATEGORIES = "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_EDGES = {"A": "begin", "z": "end", "b": "boundary", "B": "inside"}
_LAST_CODE_POINT = 0x10FFFF


class InvalidExpression(ValueError):
    """RE2/J refuses the expression; the text is RE2/J's."""


class NotEmulated(ValueError):
    """RE2/J knows the construct, kemu does not."""


@frozen
class _Chars:
    """One character of a set."""

    chars: frozenset[str]


@frozen
class _Edge:
    """A position: "begin", "end", "boundary" of a word, or "inside" (no boundary)."""

    kind: str


@frozen
class _Sequence:
    parts: "tuple[_Node, ...]"


@frozen
class _Choice:
    parts: "tuple[_Node, ...]"


@frozen
class _Repeat:
    """``most`` None: without limit."""

    part: "_Node"
    least: int
    most: int | None


_Node: TypeAlias = Union[_Chars, _Edge, _Sequence, _Choice, _Repeat]  # noqa: UP007 - names of later classes


class Re2jExpression:
    """A compiled expression.

    Args:
        text: the expression.
        names_groups: whether ``(?<name>...)`` is known (RE2/J 1.8).

    Raises:
        InvalidExpression: RE2/J refuses the expression.
        NotEmulated: the expression has a construct that kemu lacks.
    """

    __slots__ = ("_node",)

    def __init__(self, text: str, *, names_groups: bool = True) -> None:
        self._node = _Parser(text, names_groups).parsed()

    def fullmatch(self, name: str) -> bool:
        """Whether the whole name matches. The name has only characters of names of topics."""
        return len(name) in _ends(self._node, name, frozenset((0,)))


def _ends(node: _Node, name: str, starts: frozenset[int]) -> frozenset[int]:
    """The positions that the node may reach from one of these positions."""
    match node:
        case _Chars(chars=chars):
            return frozenset([at + 1 for at in starts if at < len(name) and name[at] in chars])
        case _Edge(kind=kind):
            return frozenset([at for at in starts if _is_at(kind, name, at)])
        case _Sequence(parts=parts):
            for part in parts:
                starts = _ends(part, name, starts)
            return starts
        case _Choice(parts=parts):
            return frozenset().union(*[_ends(part, name, starts) for part in parts])
    return _repeated(node, name, starts)


def _repeated(node: _Repeat, name: str, starts: frozenset[int]) -> frozenset[int]:
    for _ in range(node.least):
        before, starts = starts, _ends(node.part, name, starts)
        if starts == before:
            break
    reached = new = starts
    rounds = len(name) + 1 if node.most is None else node.most - node.least
    for _ in range(rounds):
        new = _ends(node.part, name, new) - reached
        if not new:
            break
        reached |= new
    return reached


def _is_at(kind: str, name: str, at: int) -> bool:
    if kind == "begin":
        return at == 0
    if kind == "end":
        return at == len(name)
    before, after = at > 0 and name[at - 1] in _WORD, at < len(name) and name[at] in _WORD
    return (before != after) is (kind == "boundary")


class _Parser:
    """A parser by descent: choice, sequence, repetition, atom."""

    def __init__(self, text: str, names_groups: bool) -> None:
        self._text = text
        self._at = 0
        self._names_groups = names_groups
        self._folds = False
        self._depth = 0
        self._names: set[str] = set()

    def parsed(self) -> _Node:
        node = self._choice()
        if self._more():
            raise InvalidExpression("regexp/syntax: internal error")  # RE2/J's words for a ")" without "("
        return node

    # --- the text ----------------------------------------------------------------------------------------------

    def _more(self) -> bool:
        return self._at < len(self._text)

    def _take(self, wanted: str) -> bool:
        if self._text.startswith(wanted, self._at):
            self._at += len(wanted)
            return True
        return False

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    # --- structure ---------------------------------------------------------------------------------------------

    def _choice(self) -> _Node:
        """Parse up to ")" or the end. Flags that are set inside last until there."""
        folds = self._folds
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        self._folds = folds
        return parts[0] if len(parts) == 1 else _Choice(tuple(parts))

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        repeated = False
        while self._more() and self._text[self._at] not in "|)":
            is_brace = self._text[self._at] == "{"
            counts = self._counts()
            if counts is None:
                parts += self._atoms()
                repeated = is_brace  # RE2/J takes a single "{" for a repetition, too
                continue
            if not parts:
                raise InvalidExpression("missing argument to repetition operator")
            if repeated:
                raise InvalidExpression("invalid nested repetition operator")
            self._take("?")
            repeated = True
            parts[-1] = _Repeat(parts[-1], *counts)
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _counts(self) -> tuple[int, int | None] | None:
        """The least and the most repeats, if an operator of repetition is next."""
        for operator, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(operator):
                return counts
        end = self._text.find("}", self._at)
        if self._text[self._at] != "{" or end < 0:
            return None
        least, comma, most = self._text[self._at + 1 : end].partition(",")
        if not _is_count(least) or not (_is_count(most) or not most):
            return None
        self._at = end + 1
        first = int(least)
        last = int(most) if most else None if comma else first
        if first > MOST_REPEATS or (last is not None and not first <= last <= MOST_REPEATS):
            raise InvalidExpression("invalid repeat count")
        return first, last

    def _atoms(self) -> tuple[_Node, ...]:
        """One atom, or the characters of a quotation; () after flags."""
        first = self._next()
        match first:
            case "(":
                return self._group()
            case "[":
                return (_Chars(self._class()),)
            case ".":
                return (_Chars(_ALL),)
            case "^":
                return (_Edge("begin"),)
            case "$":
                return (_Edge("end"),)
            case "\\":
                return self._escape()
        return (self._literal(first),)

    def _literal(self, char: str) -> _Chars:
        return _Chars(self._folded(frozenset(char)))

    def _folded(self, chars: frozenset[str]) -> frozenset[str]:
        """The characters of names among these characters, in both cases if the flag ``i`` is set."""
        if self._folds:
            folded = {char.casefold() for char in chars}
            return frozenset([char for char in NAME_CHARACTERS if char.casefold() in folded])
        return chars & _ALL

    # --- groups ------------------------------------------------------------------------------------------------

    def _group(self) -> tuple[_Node, ...]:
        folds = self._folds
        self._depth += 1
        if self._depth > MOST_NESTED_GROUPS:
            raise NotEmulated(f"kemu knows no expression whose groups nest deeper than {MOST_NESTED_GROUPS} levels")
        if self._take("?P<") or (self._names_groups and self._take("?<")):
            self._name()
        elif self._take("?") and self._flags() == ")":
            self._depth -= 1
            return ()
        node = self._choice()
        self._depth -= 1
        self._folds = folds
        if not self._take(")"):
            raise InvalidExpression("missing closing )")
        return (node,)

    def _name(self) -> None:
        end = self._text.find(">", self._at)
        name = self._text[self._at : max(end, self._at)]
        if end < 0 or not name or not set(name) <= _WORD:
            raise InvalidExpression("invalid named capture")
        if name in self._names:
            raise InvalidExpression("duplicate capture group name")
        self._names.add(name)
        self._at = end + 1

    def _flags(self) -> str:
        """Read flags up to ":" or ")", and return this character. Only ``i`` has an effect on names of topics."""
        value, seen_flag, negated = True, False, False
        folds = self._folds
        while self._more():
            char = self._next()
            if char in "imsU":
                folds = value if char == "i" else folds
                seen_flag = True
            elif char == "-" and not negated:
                value, seen_flag, negated = False, False, True
            elif char in ":)" and (seen_flag or not negated):
                self._folds = folds
                return char
            else:
                break
        raise InvalidExpression("invalid or unsupported Perl syntax")

    # --- escapes -----------------------------------------------------------------------------------------------

    def _escape(self) -> tuple[_Node, ...]:
        if not self._more():
            raise InvalidExpression("trailing backslash at end of expression")
        if self._take("Q"):
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at : end if end >= 0 else len(self._text)]
            self._at += len(quoted) + (2 if end >= 0 else 0)
            return tuple([self._literal(char) for char in quoted])
        if self._text[self._at] in _EDGES:
            return (_Edge(_EDGES[self._next()]),)
        chars = self._named_set()
        return (self._literal(self._escaped_char()) if chars is None else _Chars(chars),)

    def _named_set(self) -> frozenset[str] | None:
        r"""The set of ``\d`` or ``\p{...}`` after the backslash; None if another escape follows."""
        kind = self._text[self._at]
        if kind.lower() in _PERL:
            self._at += 1
            chars = self._folded(_PERL[kind.lower()])
        elif kind in "pP":
            self._at += 1
            chars = self._property()
        else:
            return None
        return _ALL - chars if kind.isupper() else chars

    def _property(self) -> frozenset[str]:
        """A category or a script of Unicode, or the complement."""
        end = self._at + 1
        name = self._text[self._at : end]
        if name == "{":
            end = self._text.find("}", self._at) + 1
            name = self._text[self._at + 1 : end - 1]
        is_negated = name.startswith("^") and len(name) > 1
        name = name.removeprefix("^") if is_negated else name
        if not name or end <= self._at:
            raise InvalidExpression("invalid character class range")
        self._at = end
        if name == "Any":
            chars = _ALL
        elif name in ("Latin", "Common"):
            chars = frozenset([char for char in NAME_CHARACTERS if char.isalpha() is (name == "Latin")])
        elif name in _CATEGORIES.split():
            chars = frozenset([char for char in NAME_CHARACTERS if unicodedata.category(char).startswith(name)])
        elif name[0].isupper() and len(name) > 2:
            raise NotEmulated(f"kemu does not know whether RE2/J has the script {name}")
        else:
            raise InvalidExpression("invalid character class range")
        chars = self._folded(chars)
        return _ALL - chars if is_negated else chars

    def _escaped_char(self) -> str:
        """The character of an escape whose backslash is read."""
        if not self._more():
            raise InvalidExpression("trailing backslash at end of expression")
        char = self._next()
        following = self._text[self._at : self._at + 1]
        if char in string.octdigits and (char == "0" or (following and following in string.octdigits)):
            return self._octal(char)
        if char == "x":
            return self._hexadecimal()
        if char in _CONTROL:
            return _CONTROL[char]
        if char.isascii() and char.isalnum():
            raise InvalidExpression("invalid escape sequence")
        return char

    def _octal(self, digits: str) -> str:
        while len(digits) < 3 and self._more() and self._text[self._at] in string.octdigits:
            digits += self._next()
        return chr(int(digits, 8))

    def _hexadecimal(self) -> str:
        end = self._at + 2
        digits = self._text[self._at : end]
        if digits.startswith("{"):
            end = self._text.find("}", self._at) + 1
            digits = self._text[self._at + 1 : end - 1]
        is_right = digits and set(digits) <= set(string.hexdigits) and self._at < end <= len(self._text)
        if not is_right or int(digits, 16) > _LAST_CODE_POINT:
            raise InvalidExpression("invalid escape sequence")
        self._at = end
        return chr(int(digits, 16))

    # --- classes -----------------------------------------------------------------------------------------------

    def _class(self) -> frozenset[str]:
        is_negated = self._take("^")
        chars: frozenset[str] = frozenset()
        is_first = True
        while is_first or not self._take("]"):
            if not self._more():
                raise InvalidExpression("missing closing ]")
            chars |= self._part_of_class()
            is_first = False
        return _ALL - chars if is_negated else chars

    def _part_of_class(self) -> frozenset[str]:
        """The set of a POSIX class, an escaped class, or a range."""
        end = self._text.find(":]", self._at + 2)
        if self._text.startswith("[:", self._at) and end >= 0:
            name = self._text[self._at + 2 : end]
            named = _POSIX.get(name.removeprefix("^"))
            if named is None:
                raise InvalidExpression("invalid character class range")
            self._at = end + 2
            named = self._folded(named)
            return _ALL - named if name.startswith("^") else named
        if self._text.startswith("\\", self._at) and self._at + 1 < len(self._text):
            self._at += 1
            named = self._named_set()
            if named is not None:
                return named
            self._at -= 1
        low = high = self._char_of_class()
        if self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
            self._at += 1
            high = self._char_of_class()
        if high < low:
            raise InvalidExpression("invalid character class range")
        if self._folds:
            return self._folded(frozenset(map(chr, range(ord(low), ord(high) + 1))))
        return frozenset([char for char in NAME_CHARACTERS if low <= char <= high])

    def _char_of_class(self) -> str:
        if not self._more():
            raise InvalidExpression("missing closing ]")
        return self._escaped_char() if self._take("\\") else self._next()


def _is_count(text: str) -> bool:
    return text.isdecimal() and text.isascii() and (text == "0" or not text.startswith("0"))
