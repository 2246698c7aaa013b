from __future__ import annotations

from kbroker.console.web.html import document, element, exact, joined, visible


def test_text_is_escaped_in_elements_and_attributes() -> None:
    made = element("a", "<b>&", ["'", 3, None], href='"/?a&b"', title="<", class_="x")

    assert (
        made == '<a href="&quot;/?a&amp;b&quot;" title="&lt;" class="x">&lt;b&gt;&amp;&#x27;3</a>'
    )


def test_elements_are_not_escaped_again() -> None:
    assert joined(element("b", "<"), "<") == "<b>&lt;</b>&lt;"


def test_an_attribute_may_have_no_value_or_not_be_there() -> None:
    made = element("input", hidden=True, checked=False, value=None, data_key="k", tabindex=-1)

    assert made == '<input hidden data-key="k" tabindex="-1">'


def test_what_steers_terminals_and_lines_is_shown() -> None:
    assert visible("\x1b[2J\x07\r\x9b\u202e\x00") == "␛[2J␇␍\\x9b\\u202e␀"
    assert visible("a\tb\nc é 語") == "a\tb\nc é 語"
    assert "\x1b" not in element("i", "\x1b", title="\x1b")


def test_a_form_sends_back_what_was_in_it() -> None:
    assert exact("\n<\x1b>") == "\n\n&lt;\x1b&gt;"


def test_half_a_character_does_not_keep_a_page_from_being_sent() -> None:
    assert b"\\udc80" in document(element("p", "\udc80"))


def test_controls_are_shown_wherever_they_stand_in_a_long_text() -> None:
    assert visible("\x07\u202e" * 100_000) == "\u2407\\u202e" * 100_000
