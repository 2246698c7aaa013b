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
html_show_copyright = False
html_static_path = html_css_files = ["site.css"]


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_contents)


def _add_contents(_: Any, page: str, source: list[str]) -> None:
    """Give the sidebar the pages that the first page links, under its headings."""
    if page != "index":
        return
    for part in source[0].split("\n## ")[1:]:
        names = "\n".join(re.findall(r"\]\((\w+)\.md\)", part))
        caption = part.partition("\n")[0]
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{names}\n```\n"
