"""Every method of Kafka's tests has one verdict, and the page of the comparison has the counts."""

import sys
from pathlib import Path

import pytest

from tests.kafka_tests.cases import files, releases, table
from tests.kafka_tests.verdicts import RUNS, main, read, summary

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "conformance.md"


def test_each_method_has_one_verdict_with_a_reason() -> None:
    reasons, rows = read()

    assert len({(row.of_class, row.method) for row in rows}) == len(rows)
    assert {row.key for row in rows} - {RUNS} == reasons.keys()
    assert all(text.startswith(("no: ", "open: ")) for text in reasons.values())


def test_exactly_the_methods_that_run_have_cases_in_their_releases() -> None:
    _, rows = read()
    spans = {(row.of_class, row.method): (row.since, row.until) for row in rows if row.key == RUNS}
    cases = [(table(name)["class"], case) for name in files() for case in table(name)["case"]]

    assert {(of_class, case["method"]) for of_class, case in cases} == spans.keys()
    for of_class, case in cases:
        assert releases(case), f"{case['method']} runs in no release"
        assert of_class in {name.partition("_")[0] for name in files()}


def test_the_page_has_the_counts() -> None:
    """After a change, copy the output of ``python -m tests.kafka_tests.verdicts`` to the page."""
    assert "\n".join(summary()) in PAGE.read_text(encoding="utf-8")


def test_a_class_without_verdicts_is_one_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["verdicts", "NoSuchTest"])
    with pytest.raises(SystemExit) as ended:
        main()

    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.startswith("error: NoSuchTest: no such class; known: ") and "ConsumerGroupTest" in err
