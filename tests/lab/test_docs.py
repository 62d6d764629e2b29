"""The documentation: generated pages are up to date, links lead somewhere, selections and masks do what they say."""

import pytest

from lab.docs import links, reference
from lab.docs.pages import DOCS, REFERENCE, blocks, name_of, pages
from lab.docs.running import BlockFailed, outputs, rewritten, selected

PRINTED = "one\ntwo in 0.82 s (148 times as fast)\nthree\nfour\n"


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_of_the_reference_is_what_the_declarations_say(name: str) -> None:
    """``python -m lab.docs --write`` makes it."""
    assert (REFERENCE / f"{name}.md").read_text(encoding="utf-8") == reference.PAGES[name]()


def test_the_reference_holds_generated_pages_alone() -> None:
    assert {path.stem for path in REFERENCE.iterdir()} == set(reference.PAGES)


def test_generated_sections_are_what_the_declarations_say() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in pages()}

    assert {name_of(path) for path, text in texts.items() if reference.with_sections(text) != text} == set()
    assert {match["name"] for text in texts.values() for match in reference.SECTION.finditer(text)} == set(
        reference.SECTIONS
    )


def test_links_lead_to_files_and_headings_that_exist() -> None:
    """So do the paths that a page names as code."""
    assert links.broken() == []


def test_the_index_leads_to_every_page() -> None:
    """Or the page has no reader."""
    index = DOCS / "index.md"
    reached = {(DOCS / link.partition("#")[0]).resolve() for link in links.links(index)}

    assert {name_of(path) for path in DOCS.rglob("*.md")} - {name_of(path) for path in reached if path.exists()} <= {
        name_of(index)
    }


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, "one\ntwo in ... s (... times as fast)\nthree\nfour\n"),
        ({"head": "1"}, "one\n...\n"),
        ({"from": "three"}, "...\nthree\nfour\n"),
        ({"from": "^t", "lines": "1"}, "...\ntwo in ... s (... times as fast)\n...\n"),
        ({"grep": "one|four"}, "one\n...\nfour\n"),
    ],
)
def test_an_output_block_shows_a_selection(options: dict[str, str], shown: str) -> None:
    assert selected(PRINTED, options) == shown


def test_a_selection_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(BlockFailed, match="no line of the output"):
        selected(PRINTED, {"from": "five"})


PAGE = """
```toml file=a.toml
summary = "x"
```

```console run
$ cat a.toml
```

```text output
old
```
"""


def test_an_output_block_is_rewritten_in_place() -> None:
    assert rewritten(PAGE) == PAGE.replace("old\n", 'summary = "x"\n')
    assert len(list(blocks(PAGE))) == 3


@pytest.mark.parametrize("command", ["ls", "kemu run no-such-preset"])
def test_a_command_that_does_not_work_is_an_error(command: str) -> None:
    with pytest.raises(BlockFailed):
        outputs(f"```console run\n$ {command}\n```\n")
