"""The commands and outputs of README and docs, checked as a reader would use them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.docs.pages import ROOT as CHECKOUT
from lab.docs.pages import Block, blocks, name_of, pages
from lab.docs.running import outputs

pytest_plugins = ("pytester",)

README = CHECKOUT / "README.md"
MOST_LINES = 150


def runs(path: Path) -> bool:
    """Whether a page has a block that is run."""
    return any("run" in block.flags for block in blocks(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", [path for path in pages() if runs(path)], ids=name_of)
def test_the_outputs_of_a_page_are_what_its_commands_print(path: Path) -> None:
    """``python -m lab.docs --write`` rewrites them; a command with another exit code than stated fails here, too."""
    for shown in outputs(path.read_text(encoding="utf-8")):
        assert shown.block.text == shown.expected, f"{name_of(path)}: run python -m lab.docs --write"


def examples() -> Iterator[tuple[str, Block]]:
    """The blocks that are test files, each with the name of its page."""
    for path in pages():
        for block in blocks(path.read_text(encoding="utf-8")):
            if block.options.get("file", "").startswith("test_"):
                yield name_of(path), block


EXAMPLES = list(examples())


@pytest.mark.parametrize(("page", "block"), EXAMPLES, ids=[page for page, _ in EXAMPLES])
def test_the_example_tests_of_a_page_pass(
    page: str, block: Block, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a project of their own, with the plugin."""
    monkeypatch.syspath_prepend(str(CHECKOUT))
    pytester.makeconftest('pytest_plugins = ("kemu.tools.testkit.plugin",)')
    pytester.makepyfile(**{block.options["file"].removesuffix(".py"): block.text})

    results = pytester.runpytest("-p", "no:asyncio").parseoutcomes()

    assert set(results) == {"passed"}
    assert results["passed"] >= 3


def test_the_readme_opens_with_the_two_commands() -> None:
    """Nothing stands between a reader and a running demo."""
    first = next(blocks(README.read_text(encoding="utf-8")))

    assert first.text == "$ python3 bootstrap.py demo\n$ python3 bootstrap.py test\n"


def test_the_readme_fits_three_screens() -> None:
    """Details belong into docs/."""
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
