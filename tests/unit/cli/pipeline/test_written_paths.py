from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.pipeline.written_paths import make_parents, prepare_directory, prepare_file
from kbroker.client.exit_code import ExitCode


def test_directories_on_the_way_are_made_and_nothing_is_left_in_them(tmp_path: Path) -> None:
    prepare_file(tmp_path / "a" / "b" / "lag.svg", "--plot")
    prepare_directory(tmp_path / "c" / "d", "--findings")
    make_parents(tmp_path / "e" / "metrics", "--metrics")

    assert not list((tmp_path / "a" / "b").iterdir())
    assert not list((tmp_path / "c" / "d").iterdir())
    assert not list((tmp_path / "e").iterdir())


def test_a_file_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "lag.svg").write_text("old")

    prepare_file(tmp_path / "lag.svg", "--plot")

    assert (tmp_path / "lag.svg").read_text() == "old"


@pytest.mark.parametrize("name", ["file/lag.svg", "."])
def test_what_cannot_be_written_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(CommandError, match=r"^cannot write --plot .*: [A-Z]") as refused:
        prepare_file(tmp_path / name, "--plot")

    assert refused.value.code is ExitCode.ITEM_FAILED


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(CommandError, match=r"^cannot write --findings .*: [A-Z]"):
        prepare_directory(tmp_path / "file" / "tables", "--findings")
    with pytest.raises(CommandError, match=r"^cannot write --metrics .*: [A-Z]"):
        make_parents(tmp_path / "file" / "m", "--metrics")


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(CommandError, match="not an ordinary file"):
        prepare_file(tmp_path / "pipe", "--report")
