"""Login entries in JAAS form."""

from __future__ import annotations

import pytest

from kbroker.config.jaas import parse_jaas, parse_jaas_file


def test_modules_flags_and_options_are_read_with_quotes_comments_and_lines() -> None:
    text = """
      // the broker's users
      org.x.PlainLoginModule REQUIRED
        username="admin" /* its own */ password = 'a;b"c'
        user_ann="a\\"n\\\\n" user_b@c.d=plain=;
      Other optional;
    """
    plain, other = parse_jaas(text)
    assert (plain.module, plain.class_name, plain.flag) == (
        "org.x.PlainLoginModule",
        "PlainLoginModule",
        "required",
    )
    assert plain.options == {
        "username": "admin",
        "password": 'a;b"c',
        "user_ann": 'a"n\\n',
        "user_b@c.d": "plain=",
    }
    assert (other.module, other.flag, other.options) == ("Other", "optional", {})
    assert "admin" not in repr(plain)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" // none", "it has no login module"),
        ("A", "required is missing after the login module"),
        ("A must;", "after the login module comes one of required"),
        ('A required secret="x"', "the semicolon at the end is missing"),
        ("A required secret;", "an option has no value"),
        ("A required secret=;", "an option has no value"),
        ('A required secret="x;', "an option has no value"),
        ('A required "secret"="x";', "the name of an option is missing"),
        ("A required;;", "a login module is missing"),
    ],
)
def test_what_cannot_be_read_is_named_without_a_part_of_it(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        parse_jaas(text)
    assert "secret" not in str(caught.value)


def test_a_file_has_entries_by_section_and_each_is_text_again() -> None:
    text = """/* as Java reads it */
    Client { org.x.DigestLoginModule required username=zk password="a\\"b\\\\c"; };
    "inside.KafkaServer" { One required; Two optional user_ann='{x}'; };
    """
    sections = parse_jaas_file(text)
    assert list(sections) == ["Client", "inside.KafkaServer"]
    assert sections["Client"][0].options == {"username": "zk", "password": 'a"b\\c'}
    for modules in sections.values():
        assert parse_jaas(" ".join(module.text() for module in modules)) == modules
    assert parse_jaas_file(" // none") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("secret A required;", "{ is missing after the name of section 1"),
        ("secret { A required; } ", "the semicolon after section 1 is missing"),
        ("secret { A required;", "a login module is missing"),
        ('secret { A required x="y" };', "the name of an option is missing"),
        ("A { }; secret { }; secret { };", "section 3 has the name of an earlier one"),
        ("A { }; ;", "the name of section 2 is missing"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_without_a_part_of_it(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        parse_jaas_file(text)
    assert "secret" not in str(caught.value)
