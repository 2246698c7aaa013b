"""`kafka-storage format --add-scram` gives a cluster its first users, as in published examples."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kbroker.cli.kafka_tools.storage import TOOL
from kbroker.cli.kafka_tools.tool_options import ToolError, read
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.server.metadata_tree.tree_users import users_in


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path}/data\n")
    return file


def add(settings: Path, *users: str) -> dict[str, dict[str, int]]:
    options = [word for user in users for word in ("--add-scram", user)]
    assert TOOL.run(read(TOOL, ["format", "-t", "id", "-c", str(settings), *options])) == 0
    return asyncio.run(users_in(RealFileSystem(), str(settings.parent / "data")))


def test_users_are_there_for_the_first_start_and_stay_at_the_next_format(settings: Path) -> None:
    first = add(
        settings,
        "SCRAM-SHA-256=[name=ann,password=se=cret]",
        'SCRAM-SHA-512=[name="ann",iterations=8192,salt="N3E=",saltedpassword="YCE="]',
        "SCRAM-SHA-512=[name=bo,iterations=5000,password=x]",
    )
    assert first == {
        "ann": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 8192},
        "bo": {"SCRAM-SHA-512": 5000},
    }
    assert add(settings, "SCRAM-SHA-256=[name=carl,password=x]") == first


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        ("ann", "takes SCRAM-SHA-256="),
        ("SCRAM-SHA-1=[name=ann,password=hush]", "takes SCRAM-SHA-256="),
        ("SCRAM-SHA-256=[password=hush]", "takes SCRAM-SHA-256="),
        ("SCRAM-SHA-256=[name=ann,saltedpassword=YCE=]", "takes SCRAM-SHA-256="),
        ("SCRAM-SHA-256=[name=ann,iterations=many,password=hush]", "iterations is a number"),
        ("SCRAM-SHA-256=[name=ann,iterations=1,password=hush]", "ann: Too few iterations"),
        ("SCRAM-SHA-256=[name=ann,iterations=99999,password=hush]", "ann: Too many iterations"),
    ],
)
def test_a_user_that_cannot_be_is_refused_without_the_password(
    settings: Path, user: str, sentence: str
) -> None:
    with pytest.raises(ToolError, match=sentence) as refusal:
        add(settings, user)
    assert "hush" not in str(refusal.value)


def test_users_of_a_zookeeper_are_not_written_to_a_directory(settings: Path) -> None:
    settings.write_text(settings.read_text() + "zookeeper.connect=127.0.0.1:2181\n")
    with pytest.raises(ToolError, match="users are in the ZooKeeper"):
        add(settings, "SCRAM-SHA-256=[name=ann,password=x]")
    assert not (settings.parent / "data").exists()
