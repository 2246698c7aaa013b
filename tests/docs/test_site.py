"""The site that is made of the pages: its first page, its search and its copy buttons, as its own scripts have them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

from tests.docs.pages import DOCS, ROOT, headings, text_of

SITE = ROOT / "build" / "docs"
# Sphinx's own search without a window to show results in, as the page `search.html` loads it.
SEARCH = """
const fs = require("fs"), vm = require("vm");
const none = () => null;
const document = {
  getElementById: none, querySelector: none, addEventListener: none, readyState: "loading", documentElement: {dataset: {}},
};
const context = vm.createContext({document, localStorage: {setItem: none}, URL, URLSearchParams});
context.window = context;
const scripts = ["doctools", "sphinx_highlight", "searchtools", "language_data"].map(name => `_static/${name}.js`);
for (const name of [...scripts, "searchindex.js"]) vm.runInContext(fs.readFileSync(name, "utf8"), context, name);
context.queries = JSON.parse(process.argv[1]);
vm.runInContext("found = queries.map(query => Search._performSearch(...Search._parseQuery(query)))", context);
console.log(JSON.stringify(context.found.map(results => results.map(each => each[0]).reverse())));
"""
COPY = """
import("data:text/javascript," + encodeURIComponent(require("fs").readFileSync("_static/copybutton_funcs.js", "utf8"))).then(
  ({formatCopyText}) => {
    const call = require("fs").readFileSync("_static/copybutton.js", "utf8").match(/return formatCopyText\\(text, (.*)\\)/)[1];
    process.stdout.write(new Function("copy", "text", `return copy(text, ${call})`)(formatCopyText, process.argv[1]));
  });
"""


@pytest.fixture(scope="module", autouse=True)
def site() -> None:
    """Bring it up to date, which is nothing to do where no page has changed."""
    pytest.importorskip("sphinx")
    subprocess.run(["make", "--no-print-directory", "build/docs/.built"], cwd=ROOT, check=True)


def said_by_node(script: str, argument: str) -> str:
    if (node := shutil.which("node")) is None:
        pytest.skip("no node on PATH (install Node.js 20 or newer)")
    command = [node, "-e", script, argument]
    return subprocess.run(command, cwd=SITE, capture_output=True, text=True, check=True).stdout


def page(name: str) -> str:
    return (SITE / f"{name}.html").read_text(encoding="utf-8")


def test_the_first_page_begins_as_the_readme_begins_and_goes_on_with_the_pages() -> None:
    body = page("index").partition("<article")[2].partition("</article>")[0]
    titles = [
        unescape(re.sub(r"<a.*?</a>|<.*?>", "", t)) for t in re.findall(r"<h\d>.*?</h\d>", body)
    ]
    readme = headings(text_of("README"))
    first = readme[: readme.index("What works")]
    text = unescape(re.sub(r"<.*?>", "", body))

    assert titles == [
        *first,
        *headings(text_of("index"))[1:],
    ]
    assert "kbroker topic create orders" in text
    assert "pipx install" in text
    assert 'href="clusters.html#replicas"' in body


def test_every_page_is_in_the_side_bar_of_the_first() -> None:
    side_bar = page("index").partition("sidebar-tree")[2].partition("</aside>")[0]

    linked = set(re.findall(r'href="([\w-]+)\.html"', side_bar))
    assert linked == {path.stem for path in DOCS.glob("*.md")} - {"index"}


def test_a_search_finds_the_page() -> None:
    wanted = {
        "min.insync.replicas": "configuration",
        "hanging transaction": "troubleshooting",
        "pytest fixture": "testing",
        "pipx": "index",
        "first five minutes": "start",
    }

    found = json.loads(said_by_node(SEARCH, json.dumps(list(wanted))))

    for query, pages in zip(wanted, found, strict=True):
        assert wanted[query] in pages[:6], (query, pages)


def test_a_copy_button_copies_the_commands_and_not_what_they_print() -> None:
    console = "$ kbroker topic create \\\n    orders\norders: created\n\n$ seq 3 | kbroker produce orders\n3 records\n"

    copied = said_by_node(COPY, console)
    assert copied == "kbroker topic create \\\n    orders\nseq 3 | kbroker produce orders"
    assert said_by_node(COPY, "import kafka\n\nx = 1\n") == "import kafka\n\nx = 1"


@pytest.mark.parametrize("name", ["index", "start", "commands"])
def test_pages_with_code_load_the_copy_buttons(name: str) -> None:
    assert "_static/copybutton.js" in page(name)
