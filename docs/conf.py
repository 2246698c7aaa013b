"""Sphinx makes a site of these pages: `make docs`. They read well without it, too."""

from __future__ import annotations

import re
from typing import Any

project = "kbroker"
extensions = ["myst_parser"]
myst_heading_anchors = 4  # as repository pages have them
html_theme = "furo"
html_title = "kbroker"
html_copy_source = False
html_show_sourcelink = False


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_contents)


def _add_contents(_: Any, page: str, source: list[str]) -> None:
    """The sidebar has the pages that the first one links, in its order."""
    if page == "index":
        names = "\n".join(re.findall(r"\]\((\w+)\.md\)", source[0]))
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"
