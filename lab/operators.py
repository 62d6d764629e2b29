"""Mutants of a source file. Each mutant replaces one piece of text inside a function, and the file remains valid
Python.

``mutants_of`` lists all mutants of a file in the order of the text; ``drawn`` takes a sample over rooms and operators.
"""

import ast
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent

ROOMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "catch_up",
        (
            "kemu/protocol/catch_up.py",
            "kemu/actors/consumer/catch_up.py",
            "kemu/actors/consumer/child.py",
            "kemu/actors/coordinator/second_log.py",
        ),
    ),
    ("coordinator", ("kemu/actors/coordinator/",)),
    ("consumer", ("kemu/actors/consumer/",)),
    ("clients", ("kemu/actors/clients/", "kemu/actors/client.py")),
    ("streams", ("kemu/actors/streams/", "kemu/protocol/streams/")),
    ("broker", ("kemu/actors/broker/",)),
    ("controller", ("kemu/actors/controller/",)),
    ("store", ("kemu/actors/store/",)),
    ("assign", ("kemu/protocol/assign/",)),
    ("rebalancing", ("kemu/protocol/rebalancing/",)),
    ("reassign", ("kemu/protocol/reassign/",)),
)
"""(room, prefixes of its files' paths). A file belongs to the first matching room."""

TABLES = (
    "kemu/actors/broker/rules.py",
    "kemu/actors/controller/rules.py",
    "kemu/actors/coordinator/rules.py",
    "kemu/protocol/rebalancing/client_rules.py",
    "kemu/protocol/streams/releases.py",
    "kemu/protocol/streams/registry.py",
    "kemu/protocol/reassign/readings.py",
    "kemu/protocol/reassign/plans.py",
    "kemu/protocol/reassign/waiting.py",
)
"""Files without mutants: settings, values of past bugs, offline commands, and texts of reasons."""
FAULTS = (
    "fail_child",
    "restart_child",
    "_fault",
    "_loss",
    "_one_less",
    "_release",
    "_freeze",
    "_unfreeze",
    "_end_fault",
)
"""Functions without mutants, because these functions apply injected faults, for which Kafka has no rule."""

EFFECTS = ("send", "reply", "answer", "start_timer", "stop_timer", "append", "write", "hang_up", "emit", "ask")
"""Calls with these names, or names that end with ``_`` and such a name, add an effect to a step."""
NOTES = ("note", "_note")
"""Calls that only report. These calls are not removed, and their arguments have no mutants."""
TIMERS = ("start_timer", "_start_timer", "StartTimer")
LARGE = 10
"""A larger constant is doubled, because an increase by one would change little."""
OTHER_SIDE: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
Edit: TypeAlias = tuple[str, ast.expr | ast.stmt, str]
"""(operator, node whose text is replaced, new text)."""


@frozen
class Mutant:
    """A change of one place: the bytes from ``start`` to ``end`` of ``file`` become ``new``.

    ``statement`` is the first line of the innermost statement around the change. A run may reach this line or not.
    """

    file: str
    line: int
    operator: str
    start: int
    end: int
    old: str
    new: str
    room: str = ""
    statement: int = 0

    @property
    def name(self) -> str:
        """The mutant's identity while the file is unchanged."""
        return f"{self.file}:{self.line}:{self.start}-{self.end}:{self.operator}:{self.new}"

    def applied(self, text: str) -> str:
        """The file's text with the change."""
        content = text.encode()
        return (content[: self.start] + self.new.encode() + content[self.end :]).decode()

    def diff(self, text: str) -> str:
        """The change as lines before and after."""
        content = text.encode()
        begin = content.rfind(b"\n", 0, self.start) + 1
        stop = content.find(b"\n", self.end)
        stop = len(content) if stop < 0 else stop
        before = content[begin:stop].decode().splitlines()
        after = (
            (content[begin : self.start] + self.new.rstrip().encode() + content[self.end : stop]).decode().splitlines()
        )
        head = f"{self.file}:{self.line} ({self.operator})"
        return "\n".join([head, *(f"- {line}" for line in before), *(f"+ {line}" for line in after)])


def room_of(file: str) -> str:
    """The room of a file with this path from the root; "" for a file without mutants."""
    if file in TABLES:
        return ""
    return next((room for room, starts in ROOMS if any(file.startswith(start) for start in starts)), "")


def mutants_of(text: str, file: str) -> list[Mutant]:
    """All mutants of one file."""
    return sorted(_found(text, file), key=lambda mutant: (mutant.start, mutant.end, mutant.operator, mutant.new))


def _found(text: str, file: str) -> Iterator[Mutant]:
    starts = [0]
    for row in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(row))

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    content = text.encode()

    def words(node: ast.expr | ast.stmt) -> str:
        begin, end = span(node)
        return content[begin:end].decode()

    room, tree = room_of(file), ast.parse(text)
    fields = _fields(tree)
    seen: set[tuple[int, int, str]] = set()
    for function in _functions(tree):
        around = sorted(
            (each for each in ast.walk(function) if isinstance(each, ast.stmt)), key=lambda each: span(each)[0]
        )
        for operator, node, new in _edits(function, words, fields):
            start, end = span(node)
            if (start, end, new) in seen or content[start:end].decode() == new:
                continue
            seen.add((start, end, new))
            if new == "pass":
                new += "\n" * content[start:end].count(b"\n")
            inner = [each for each in around if span(each)[0] <= start and end <= span(each)[1]][-1]
            old = content[start:end].decode()
            yield Mutant(file, node.lineno, operator, start, end, old, new, room, inner.lineno)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions of the module and methods of its classes; a nested function belongs to the function around it."""
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        for member in members:
            if isinstance(member, ast.FunctionDef) and member.name not in ("__repr__", "__str__", *FAULTS):
                yield member


def _fields(tree: ast.AST) -> dict[str, set[str]]:
    """The attributes that the file reads, by the text of the object and the last word of the name."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in called:
            found[_family(node)].add(node.attr)
    return found


def _family(node: ast.Attribute) -> str:
    return f"{ast.unparse(node.value)} {node.attr.rpartition('_')[2]}"


def _edits(
    function: ast.FunctionDef, words: Callable[[ast.expr | ast.stmt], str], fields: dict[str, set[str]]
) -> Iterator[Edit]:
    pending: list[ast.AST] = list(reversed(function.body))
    called: set[int] = set()
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.arguments):
            continue
        if isinstance(node, ast.Call):
            called.add(id(node.func))
        if isinstance(node, ast.stmt):
            yield from _of_statement(node, function, words)
        elif isinstance(node, ast.expr):
            yield from _of_expression(node, words, fields, id(node) in called)
            if isinstance(node, ast.Call) and _called(node) in TIMERS and node.args:
                yield from _of_timer(node.args[-1], function, words)
        if isinstance(node, ast.Call) and _called(node) in NOTES:
            continue
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.AnnAssign):
            children.remove(node.annotation)
        pending.extend(reversed(children))


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _of_statement(
    node: ast.stmt, function: ast.FunctionDef, words: Callable[[ast.expr | ast.stmt], str]
) -> Iterator[Edit]:
    if isinstance(node, ast.If | ast.While):
        yield "condition negated", node.test, f"(not ({words(node.test)}))"
    if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return | ast.Continue):
        yield "early return removed", node.body[-1], "pass"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = _called(node.value)
        if name in NOTES:
            return
        effect = any(name == each or name.endswith(f"_{each}") for each in EFFECTS)
        yield "effect removed" if effect else "statement removed", node, "pass"
    if isinstance(node, ast.Assign | ast.AugAssign) and function.name != "__init__":
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(isinstance(target, ast.Attribute) for target in targets):
            yield "statement removed", node, "pass"
    if isinstance(node, ast.Return | ast.Expr):
        value = node.value
        if isinstance(value, ast.Yield):
            value = value.value
        if isinstance(value, ast.List) and value.elts:
            for left_out in value.elts:
                yield "effect removed", value, _list([words(each) for each in value.elts if each is not left_out])


def _list(items: Sequence[str]) -> str:
    return f"[{', '.join(items)}]"


def _of_expression(
    node: ast.expr, words: Callable[[ast.expr | ast.stmt], str], fields: dict[str, set[str]], called: bool
) -> Iterator[Edit]:
    if isinstance(node, ast.IfExp):
        yield "condition negated", node.test, f"(not ({words(node.test)}))"
    elif isinstance(node, ast.BoolOp):
        word = " and " if isinstance(node.op, ast.And) else " or "
        for dropped in node.values:
            left = [f"({words(each)})" for each in node.values if each is not dropped]
            yield "operand dropped", node, f"({word.join(left)})"
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        kind, left_text, right_text = type(node.ops[0]), words(node.left), words(node.comparators[0])
        if kind in OTHER_SIDE:
            yield "boundary", node, f"(({left_text}) {OTHER_SIDE[kind]} ({right_text}))"
        elif kind is ast.Is and right_text == "None":
            yield "None flipped", node, f"(({left_text}) is not None)"
        elif kind is ast.IsNot and right_text == "None":
            yield "None flipped", node, f"(({left_text}) is None)"
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "constant", node, str(node.value + 1 if node.value < LARGE else node.value * 2)
        if node.value:
            yield "constant", node, "0"
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and not called:
        for other in sorted(fields.get(_family(node), set()) - {node.attr}):
            yield "wrong field", node, f"{words(node.value)}.{other}"


def _of_timer(
    delay: ast.expr, function: ast.FunctionDef, words: Callable[[ast.expr | ast.stmt], str]
) -> Iterator[Edit]:
    """Mutants of a timer's delay; none for drawn delays and for durations of faults (``for_us``), which Kafka does not
    bound.
    """
    if words(delay).rpartition(".")[2] == "for_us":
        return
    drawn_names = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and "DrawName." in words(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if "DrawName." not in words(delay) and not (isinstance(delay, ast.Name) and delay.id in drawn_names):
        yield "early timer", delay, f"(({words(delay)}) // 2)"
        yield "late timer", delay, f"(({words(delay)}) * 2)"


def all_mutants() -> list[Mutant]:
    """All mutants of the machines and of the protocol."""
    found: list[Mutant] = []
    for package in ("kemu/actors", "kemu/protocol"):
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if room_of(file):
                found += mutants_of(path.read_text(encoding="utf-8"), file)
    return found


def drawn(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """A sample without repetition that alternates between rooms, and within a room between operators, in a drawn order.

    A smaller sample of the same seed is the beginning of a larger sample.
    """
    chance = random.Random(seed)
    by_room: dict[str, dict[str, list[Mutant]]] = defaultdict(lambda: defaultdict(list))
    for mutant in mutants:
        by_room[mutant.room][mutant.operator].append(mutant)
    queues: list[list[Mutant]] = []
    for room in sorted(by_room):
        kinds = [by_room[room][operator] for operator in sorted(by_room[room])]
        for kind in kinds:
            chance.shuffle(kind)
        chance.shuffle(kinds)
        longest = max(map(len, kinds))
        queues.append([kind[turn] for turn in range(longest) for kind in kinds if turn < len(kind)])
    longest = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)][:count]
