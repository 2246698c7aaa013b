"""Sphinx makes a site of these pages: `make docs`. They read well without it, too."""

from __future__ import annotations

import re
from typing import Any

project = "kbroker"
extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 4  # as repository pages have them
copybutton_prompt_text = "$ "  # of a console block the commands are copied, and not what they print
copybutton_line_continuation_character = "\\"
copybutton_copy_empty_lines = False
html_theme = "furo"
html_title = "kbroker"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_static_path = html_css_files = ["site.css"]

# What README says first, in place of the one sentence that the first page has in the repository.
_PITCH = """```{include} ../README.md
:start-after: "# kbroker"
:end-before: "## What works"
:relative-docs: docs/
:relative-images:
```
"""


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _make_first_page)


def _make_first_page(_: Any, page: str, source: list[str]) -> None:
    """Begin the first page as README begins, and give the sidebar the pages that it links, under
    its headings.
    """
    if page != "index":
        return
    title, _, rest = source[0].partition("\n\n")
    _, *parts = rest.split("\n## ")
    source[0] = f"{title}\n\n{_PITCH}"
    for part in parts:
        names = "\n".join(re.findall(r"\]\(([\w-]+)\.md\)", part))
        caption = part.partition("\n")[0]
        contents = f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{names}\n```\n"
        source[0] += f"\n## {part}\n{contents}"
