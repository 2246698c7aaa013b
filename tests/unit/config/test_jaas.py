"""Login entries in JAAS form."""

from __future__ import annotations

import pytest

from kbroker.config.jaas import parse_jaas


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
