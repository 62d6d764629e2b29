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


def _add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """Append a table of contents to the index, from its own headings and links; GitHub would show one as code."""
    if name != "index":
        return
    for section in source[0].split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        pages = "\n".join(re.findall(r"\]\((\w[\w/.-]*)\.md\)", body))
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_navigation)
