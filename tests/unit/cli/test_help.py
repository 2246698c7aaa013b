"""`kbroker help` prints what the line below an error promises, from the page itself."""

from __future__ import annotations

import pytest

from kbroker.cli.__main__ import main
from kbroker.cli.help_page import help_topics
from kbroker.errors import Trouble

PAGE = """# Page

First words.

## What a start says

### Disk full

**`the disk
is full`, `no space`.** Free some space, see [sizes](storage.md#sizes), or [stop](#stop-it).

```sh
df -h .
```

Then start again.

### Stop it

Ctrl-C.

## What a log says

### Odd lines

**`odd`.** No harm.
"""


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_sections_are_topics_with_their_part_and_the_first_sentence_that_they_explain() -> None:
    found = help_topics(PAGE)

    assert [(t.name, t.part, t.line) for t in found.values()] == [
        ("disk-full", "What a start says", "the disk is full"),
        ("stop-it", "What a start says", "Stop it"),
        ("odd-lines", "What a log says", "odd"),
    ]


def test_a_topic_is_text_without_marks_whose_code_is_not_folded() -> None:
    assert "\n".join(help_topics(PAGE)["disk-full"].lines(50)).splitlines() == [
        "disk-full",
        "",
        "`the disk is full`, `no space`. Free some space,",
        "see sizes (docs/storage.md), or stop (`kbroker",
        "help stop-it`).",
        "",
        "    df -h .",
        "",
        "Then start again.",
    ]


@pytest.mark.parametrize("trouble", Trouble, ids=lambda trouble: trouble.value)
def test_the_command_that_an_error_names_prints_its_section(
    trouble: Trouble, capsys: pytest.CaptureFixture[str]
) -> None:
    see, program, *arguments = trouble.advice.split()

    assert (see, program) == ("See", "kbroker")
    code, out, err = said(capsys, *arguments)
    assert (code, err) == (0, "")
    assert out.startswith(f"{trouble.value}\n\n`")
    assert "](" not in out
    assert "**" not in out


def test_without_a_name_all_are_listed_by_what_says_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = said(capsys, "help")

    assert code == 0
    assert "What a start says:\n  port-in-use " in out
    assert "  a-setting-without-effect  " in out
    assert [trouble for trouble in Trouble if f"\n  {trouble.value} " not in out] == []


@pytest.mark.parametrize("words", [("directory-full",), ("Directory", "full"), ("DIRECTORY-FULL",)])
def test_a_name_may_be_given_as_its_heading_is(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said(capsys, "help", *words)

    assert (code, out.splitlines()[0]) == (0, "directory-full")


def test_the_words_of_a_command_print_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "help", "topic", "trim") == said(capsys, "topic", "trim", "--help")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("port",), "port-in-use"),
        (("cannot", "listen"), "port-in-use"),
        (("Address", "already"), "port-in-use"),
        (("zookeeper", "no"), "no-zookeeper"),
    ],
)
def test_words_that_only_one_name_or_sentence_has_print_its_section(
    words: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "help", *words) == said(capsys, "help", name)


def test_words_that_several_names_have_list_them(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, "help", "directory")

    assert code == 0
    assert "What a start says:\n  directory-in-use " in out
    assert "What a broker writes in its log:\n  directory-offline " in out
    assert "port-in-use" not in out
    assert err == "\n`kbroker help NAME` says more, `kbroker --help` lists the commands\n"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("adpot",), "no help on adpot, did you mean adopt?"),
        (("no", "ansewr"), "no help on no ansewr, did you mean no-answer?"),
        (("prodcue",), "no help on prodcue, did you mean produce?"),
        (("xyzzy",), "no help on xyzzy: `kbroker help` lists the names"),
    ],
)
def test_a_wrong_name_is_refused_with_the_nearest(
    words: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "help", *words) == (2, "", f"Error: {hint}\n")
