"""Expressions of RE2/J match, and are refused, as by RE2/J itself."""

import json
from pathlib import Path
from time import process_time

import pytest

from kemu.protocol.re2j import InvalidExpression, NotEmulated, Re2jExpression

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "re2j.json").read_text(encoding="utf-8"))
NAMES = VECTORS["names"]


def answer(text: str, version: str) -> object:
    try:
        expression = Re2jExpression(text, names_groups=version == "1.8")
    except InvalidExpression as refused:
        return str(refused)
    return [name for name in NAMES if expression.fullmatch(name)]


@pytest.mark.parametrize("version", ["1.7", "1.8"])
def test_the_answers_are_those_of_re2j(version: str) -> None:
    rows = VECTORS["answers"][version]
    differing = [(text, wanted, answer(text, version)) for text, wanted in rows if answer(text, version) != wanted]

    assert len(rows) > 100
    assert differing == []


@pytest.mark.parametrize("text", ["((a*)*)*b", "(a|a|aa)*b", "((((a{1000}){1000}){1000}){1000})*", "(a?){1000}a{1000}"])
def test_no_expression_takes_exponential_time(text: str) -> None:
    """RE2/J promises linear time; Python's own expressions would take years for some of these."""
    began = process_time()

    assert not Re2jExpression(text).fullmatch("a" * 60)
    assert process_time() - began < 2


def test_an_expression_that_kemu_does_not_know_is_not_taken_for_an_invalid_expression() -> None:
    with pytest.raises(NotEmulated, match="script Greek"):
        Re2jExpression(r"\p{Greek}+")


def test_an_expression_nested_too_deeply_is_refused_before_it_exhausts_the_stack() -> None:
    assert Re2jExpression("(" * 100 + "a" + ")" * 100 + "(?i)" * 200 + "(b)" * 200).fullmatch("a" + "B" * 200)
    with pytest.raises(NotEmulated, match="nest deeper than 100"):
        Re2jExpression("(?:" * 5000 + "a" + ")" * 5000)
