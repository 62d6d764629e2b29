"""Rows of dialects: a wording of a message, its kind, and the releases with this wording.

A wording is a text with ``<field>`` for a value, ``<_>`` for anything, ``{a|b}`` for alternatives and ``{a}`` for an
optional part. A backslash takes the next character as it is. A space stands for white space within a line,
``⏎`` for the end of a line. ``…`` marks a place where a torn record may end: the text before a mark is enough to know
the record.
"""

import functools
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

import attrs

from kemu.tools.logs.wordings import values
from kemu.tools.logs.wrappers.wrappers import Opened

Fields = dict[str, object]
Read = Callable[[Fields, Opened], None]
"""Corrects the fields of a match, which it gets with the record."""

_NUMBERS = [
    *("generation", "old_generation", "members", "static", "n", "ms", "session_ms", "rebalance_ms", "epoch", "broker"),
    *("replica", "previous"),
]
_LONGEST = 4_000
"""Characters of a record without a list that are read."""
_WORDS = ["state", "local_epoch", "leaders", "followers", "protocol"]
_LISTS = ("partitions", "assigned", "owned", "added", "revoked")
_LONG = (*_LISTS, "assignment", "topics", "reason")
"""Fields with a list of any length, also a list within a text."""
_TYPES = {
    **dict.fromkeys(_NUMBERS, r"-?\d+"),
    **dict.fromkeys(_WORDS, r"[\w-]*"),
    "group": r"\S*?",
    "partition": r"\S+?",
    "offsets_partition": r"__consumer_offsets-\d+",
    "isr": r"[\d, \[\]-]*?",
    "from_": r"[\w-]+",
    "to": r"[\w-]+",
}
_ANY = r"[^\n]*?"
_GREEDY = {r"\S*?": r"\S+", r"\S+?": r"\S+", _ANY: r"[^\n]*"}
_FREE = ("reason", "error", "node")
"""Fields of free text: a torn value is a value."""


def _number(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text


_CONVERTERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(_LISTS, values.partitions),
    "assignment": values.assignment,
    "assignors": values.assignors,
    "isr": values.numbers,
}

TOKEN = re.compile(
    r"\\(.)|<([a-z_]+)(?::([^<>]*(?:<[^<>]*>[^<>]*)*))?>|([{}|…])|([\s⏎]+)|([^\\<{}|…⏎\s]+|<)", re.DOTALL
)


@attrs.frozen(slots=False)
class Wording:
    """A wording.

    ``releases`` is ``since..until``, either may be empty. ``fields`` are constants. ``logger`` restricts the row to
    records of a logger. ``read`` completes the fields. ``inferred`` names fields that the last record of the same
    dialect states. ``halves``: the next record of this kind and group tells the same event. A row without kind knows a
    text that states no fact. ``number`` is the place in the dialect. ``whole``: only
    fields may be before or after the wording.
    """

    kind: str | None
    text: str
    releases: str = ""
    fields: Mapping[str, object] = attrs.field(factory=dict)
    logger: str = ""
    read: Read | None = None
    inferred: tuple[str, ...] = ()
    halves: bool = False
    number: int = 0
    whole: bool = False

    @functools.cached_property
    def words(self) -> tuple[frozenset[str], ...]:
        """Words of letters that a complete record of this row contains: one set for each of the first alternatives."""
        text = self.text.partition("…")[0].replace("\\<", "(").replace(r"<_:\W*>", " ")
        text = re.sub(r"<(?:[^<>\\]|\\.|<[^<>]*>)*>", "\1", text)
        first = re.search(r"(?<!\\)\{([^{}]*\|[^{}]*)(?<!\\)\}", text)
        texts = [text]
        if first is not None:
            texts = [text[: first.start()] + each + text[first.end() :] for each in first[1].split("|")]
        return tuple(frozenset(_WORD_OF_LETTERS.findall(_without_options(each))) for each in texts)

    @functools.cached_property
    def has_list(self) -> bool:
        """Whether the wording has a list of any length."""
        return any(field in _LONG for _, field, *_ in TOKEN.findall(self.text))

    @functools.cached_property
    def logger_pattern(self) -> re.Pattern[str]:
        """The pattern of the logger."""
        return re.compile(self.logger)

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """The whole wording."""
        text = _compiled(self.text.replace("…", ""))
        return re.compile(rf"^{text}(?=$|;|\s*[{{\t])" if self.whole else text)

    @functools.cached_property
    def torn_patterns(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        """Longest first: the wording up to a mark, and the wording from this mark to the next one."""
        parts = self.text.split("…")
        return tuple(
            (re.compile(_compiled("".join(parts[:count]), end=False)), parts[count])
            for count in range(len(parts) - 1, 0, -1)
        )


_WORD_OF_LETTERS = re.compile(r"(?<![A-Za-z\1])[A-Za-z]{2,}(?![A-Za-z\1])")


def _without_options(text: str) -> str:
    """The text without braces and all within."""
    while True:
        inner = re.sub(r"(?<!\\)\{(?:[^{}\\]|\\.)*(?<!\\)\}", "\1", text)
        if inner == text:
            return text
        text = inner


def _compiled(wording: str, end: bool = True) -> str:
    tokens = TOKEN.findall(wording)
    result: list[str] = []
    depth, lazy_end = 0, False
    for index, (escaped, field, kind, sign, space, literal) in enumerate(tokens):
        depth += (sign == "{") - (sign == "}")
        if field:
            pattern = kind or _TYPES.get(field, _ANY)
            if all(later[3] == "}" for later in tokens[index + 1 :]):
                pattern = _GREEDY.get(pattern, pattern)
            if depth == 0:
                lazy_end = pattern.endswith("?")
            result.append(f"(?:{pattern})" if field == "_" else f"(?P<{field}>{pattern})")
        elif sign == "}":
            result.append(")" if _has_alternatives(tokens, index) else ")?")
        elif sign:
            result.append("(?:" if sign == "{" else "|")
        else:
            result.append(r"\s*\n\s*" if "⏎" in space else r"[^\S\n]+" if space else re.escape(escaped or literal))
            lazy_end = lazy_end and depth > 0
    if end and lazy_end:
        result.append(r"""(?=[\s"*`]|$)""")
    return "".join(result)


def _has_alternatives(tokens: list[tuple[str, ...]], end: int) -> bool:
    depth = 0
    for token in reversed(tokens[:end]):
        if token[3] == "}":
            depth += 1
        elif token[3] == "{":
            if depth == 0:
                return False
            depth -= 1
        elif token[3] == "|" and depth == 0:
            return True
    return False


def match_of(row: Wording, text: str) -> re.Match[str] | None:
    """The match of a row's pattern in the first characters of a text; without a limit for rows with lists."""
    match = row.pattern.search(text, 0, len(text) if row.has_list else _LONGEST)
    return None if match is None or match.end() == _LONGEST < len(text) else match


def fields_of(row: Wording, match: re.Match[str], opened: Opened, text: str) -> Fields:
    """The fields that ``row`` reads from the match of its pattern in ``text``."""
    end = len(text.rstrip()) if opened.closed is False else None
    fields: Fields = {**row.fields, **stated(match, end)}
    if end is not None and match.end() >= end:
        fields["truncated"] = True
    _complete(fields, row, opened)
    return fields


def torn_fields_of(row: Wording, opened: Opened, text: str) -> tuple[Fields, int, int] | None:
    """The fields of a record that ends within the wording of ``row``."""
    for head, tail in row.torn_patterns if row.has_list or len(text) <= _LONGEST else ():
        match = head.search(text)
        if match is None:
            continue
        rest = text[match.end() :].rstrip()
        torn = _torn_value(tail, rest)
        if torn is None:
            continue
        fields: Fields = {**row.fields, **stated(match, len(text.rstrip())), **torn, "truncated": True}
        _complete(fields, row, opened)
        return fields, match.start(), len(text)
    return None


def _complete(fields: Fields, row: Wording, opened: Opened) -> None:
    """Let ``row.read`` correct the fields. A torn record may lack a field of the wording that the correction needs."""
    try:
        if row.read:
            row.read(fields, opened)
    except KeyError as error:
        if not fields.get("truncated") or error.args[0] not in row.pattern.groupindex:
            raise


def _torn_value(tail: str, rest: str) -> Fields | None:
    """The fields that ``rest`` states if the wording ``tail`` begins so; None if not."""
    literal = re.match(r"(?:\\.|[^<{}|\\])*", tail)
    assert literal is not None
    first = re.sub(r"\\(.)", r"\1", literal[0])
    if first.startswith(rest):
        return {}
    field = re.match(r"<([a-z_]+)", tail[literal.end() :])
    if not rest.startswith(first) or field is None:
        return None
    value = rest[len(first) :]
    return {field[1]: value} if field[1] in _FREE else {}


def stated(match: re.Match[str], torn_at: int | None = None, free: Sequence[str] = _FREE) -> Fields:
    """Values of the groups of a match. A value at the end ``torn_at`` of a torn text is no value, unless ``free``."""
    fields: Fields = {}
    for name, value in match.groupdict().items():
        if value is None or (torn_at is not None and match.end(name) >= torn_at and name not in free):
            continue
        if name != "assignment" or value.count("{") == value.count("}") > 0:
            fields[name] = _CONVERTERS.get(name, str.strip)(value)
    if isinstance(group := fields.get("group"), str):
        fields["group"] = re.sub(r"\.?[,;'\"`\]]+$", "", group)
    return fields


def table(text: str, read: Read | None = None, whole: bool = False, **reads: Read) -> tuple[Wording, ...]:
    """Rows from a text, one for each wording: ``kind [since..until] [field=value ..] | wording``.

    An indented line continues the wording before it. The kind ``-`` is no kind. Besides constants there are
    ``logger=PATTERN``, ``inferred=FIELD,..``, ``halves`` and ``read=NAME``, a function of ``reads``.

    Args:
        text: the table.
        read: the function that reads rows without ``read=NAME``.
        whole: the wordings are whole messages, which only fields may follow.
        reads: functions by name.
    """
    rows: list[Wording] = []
    for line in re.sub(r"\n[ ]{4,}", " ", text).strip().splitlines():
        head, _, wording = line.partition(" | ")
        kind, *options = shlex.split(head)
        known: dict[str, str] = {}
        fields: Fields = {}
        for option in options:
            name, sign, value = option.partition("=")
            if ".." in name:
                known["releases"] = option
            elif not sign or name in ("logger", "inferred", "read"):
                known[name] = value
            else:
                fields[name] = () if value == "()" else value
        rows.append(
            Wording(
                None if kind == "-" else kind,
                wording,
                known.get("releases", ""),
                fields,
                known.get("logger", ""),
                reads[known["read"]] if "read" in known else read,
                tuple(filter(None, known.get("inferred", "").split(","))),
                "halves" in known,
                len(rows),
                whole,
            )
        )
    return tuple(rows)


@attrs.frozen
class Dialect:
    """The wordings of one program.

    ``product`` names the program whose releases the rows state. ``prefixes`` are patterns that read fields anywhere in
    a message. ``marks`` recognises the dialect where another dialect has the same words, in the logger, the thread or
    the begin of the message.
    """

    name: str
    product: str
    rows: tuple[Wording, ...]
    prefixes: tuple[re.Pattern[str], ...] = ()
    marks: re.Pattern[str] | None = None
