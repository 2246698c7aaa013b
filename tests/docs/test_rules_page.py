"""The page of rules does what it shows, with the rules that it shows."""

from __future__ import annotations

import shutil
import sys

import pytest

from compat_tests.spark.quick_java import quick_java
from tests.docs.pages import Shown, blocks, shown_commands, text_of
from tests.docs.terminals import Terminals

PAGE = text_of("rules")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_first_rules_of_the_page_give_what_it_shows(terminals: Terminals) -> None:
    if shutil.which("java") is None:
        pytest.skip("no java on PATH (Spark needs Java 17 or 21)")
    terminals.settings = {"PYSPARK_PYTHON": sys.executable, **quick_java()}
    (terminals.directory / "errors.toml").write_text(blocks("toml", PAGE)[0])

    terminals.play(Shown("kbroker start", f"listening on {terminals.address}"))
    for shown in shown_commands(PAGE):
        terminals.play(shown)
