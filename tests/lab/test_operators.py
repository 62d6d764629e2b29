"""Each operator makes the mutants it is for, and nothing where there is nothing to break."""

import textwrap

import pytest

from lab.operators import ROOMS, ROOT, all_mutants, drawn, mutants_of, room_of

PLACE = "kemu/actors/store/f.py"


def found(source: str, operator: str) -> list[tuple[str, str]]:
    """(old, new) of an operator's mutants in the body of a function."""
    text = "def f(self, x, y):\n" + textwrap.indent(textwrap.dedent(source), "    ")
    return [(each.old, each.new.rstrip()) for each in mutants_of(text, PLACE) if each.operator == operator]


@pytest.mark.parametrize(
    ("operator", "source", "expected"),
    [
        ("condition negated", "if x:\n    y()", [("x", "(not (x))")]),
        ("operand dropped", "return x and y", [("x and y", "((x))"), ("x and y", "((y))")]),
        ("boundary", "return x < y", [("x < y", "((x) <= (y))")]),
        ("constant", "return 7", [("7", "0"), ("7", "8")]),
        ("constant", "return 0", [("0", "1")]),
        ("constant", "return 1000", [("1000", "0"), ("1000", "2000")]),
        ("statement removed", "self.x = y", [("self.x = y", "pass")]),
        ("statement removed", "x.clear()", [("x.clear()", "pass")]),
        ("effect removed", "self.send(x)", [("self.send(x)", "pass")]),
        ("effect removed", "return [x, y]", [("[x, y]", "[x]"), ("[x, y]", "[y]")]),
        ("early return removed", "if x:\n    return\ny()", [("return", "pass")]),
        ("None flipped", "return x is None", [("x is None", "((x) is not None)")]),
        (
            "wrong field",
            "x.end_us = y\nreturn x.end_us - x.start_us",
            [("x.end_us", "x.start_us"), ("x.start_us", "x.end_us")],
        ),
        ("early timer", "self.start_timer(x, y)", [("y", "((y) // 2)")]),
        ("late timer", "self.start_timer(x, y)", [("y", "((y) * 2)")]),
    ],
)
def test_an_operator_changes_one_place(operator, source, expected):
    assert found(source, operator) == expected


def test_asserts_texts_of_notes_and_docstrings_have_no_mutants():
    text = 'def f(self):\n    """7"""\n    assert self.x == 7\n    raise ValueError(7)\n'

    assert mutants_of(text, PLACE) == []
    assert found("self.note(x < 7)", "boundary") == []
    assert found("self.note(x)", "effect removed") == []


def test_a_delay_that_is_drawn_and_an_injected_fault_have_no_mutants():
    assert found("self.start_timer(x, self.draws.us(DrawName.RTT, y))", "late timer") == []
    assert found("us = self.draws.us(DrawName.RTT, y)\nself.start_timer(x, us)", "early timer") == []
    assert mutants_of("def _loss(self):\n    self.x.clear()\n", "kemu/actors/store/f.py") == []


def test_a_removed_statement_of_several_lines_moves_no_other_line():
    text = "def f(x):\n    x.clear(\n        1,\n    )\n    x.go()\n"
    removed = next(each for each in mutants_of(text, PLACE) if each.operator == "statement removed")

    assert removed.applied(text).splitlines()[4] == "    x.go()"
    assert removed.diff(text).splitlines()[-1] == "+     pass"


def test_a_mutant_knows_the_statement_around_it_also_in_the_head_of_a_case():
    text = "def f(x, y):\n    match x:\n        case 1:\n            y()\n        case 2 if x < y:\n            x()\n"
    of_guard = next(each for each in mutants_of(text, PLACE) if each.operator == "boundary")

    assert (of_guard.line, of_guard.statement) == (5, 2)


@pytest.fixture(scope="module")
def everything():
    return all_mutants()


def test_every_room_has_mutants(everything):
    assert {each.room for each in everything} == {room for room, _ in ROOMS}
    assert room_of("kemu/actors/coordinator/rules.py") == room_of("kemu/protocol/config.py") == ""


def test_a_sample_is_the_seeds_own_spread_over_rooms_and_the_beginning_of_a_larger_one(everything):
    small, large = drawn(everything, 22, 5), drawn(everything, 66, 5)

    assert large[:22] == small
    assert drawn(everything, 22, 6) != small
    assert {each.room for each in small} == {room for room, _ in ROOMS}


def test_a_mutant_is_valid_python_but_for_a_few(everything):
    sample, bad = drawn(everything, 220, 7), 0
    for each in sample:
        try:
            compile(each.applied((ROOT / each.file).read_text(encoding="utf-8")), each.file, "exec")
        except SyntaxError:
            bad += 1

    assert bad <= 2
