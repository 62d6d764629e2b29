"""Settings of Sphinx; ``python -m lab.docs --site`` builds the site."""

import re
from importlib import metadata

from sphinx.application import Sphinx

project = "kemu"
release = metadata.version("kemu")
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "kemu"
exclude_patterns = ["_build"]
myst_heading_anchors = 4


def _adapt(app: Sphinx, name: str, source: list[str]) -> None:
    """Change what only GitHub or only Sphinx understands.

    A link to a page at the root of the checkout becomes its text. The index gets a table of contents, made from its own
    headings and links: GitHub would show one as code.
    """
    source[0] = re.sub(r"\[([^\]]+)\]\((?:\.\./)+[A-Z]+\.md\)", r"\1", source[0])
    if name != "index":
        return
    for section in source[0].split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        pages = "\n".join(re.findall(r"\]\((\w[\w/.-]*)\.md\)", body))
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _adapt)
