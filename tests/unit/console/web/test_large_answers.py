"""Large answers leave in pieces, and no more than some of them at once."""

from __future__ import annotations

import pytest

from kbroker.console.web.large_answers import LARGE_BYTES, LargeAnswers
from kbroker.console.web.web_request import RefusedError
from kbroker.http.answers import Answer


async def test_a_large_answer_counts_until_it_has_left() -> None:
    answers = LargeAnswers(most_bytes=3 * LARGE_BYTES)
    small = Answer(body=b"x")
    assert answers.in_pieces(small) is small

    body = bytes(range(256)) * (LARGE_BYTES // 128)
    large = answers.in_pieces(Answer(body=body))
    assert ("content-length", str(len(body))) in large.headers
    with pytest.raises(RefusedError, match="on their way") as refused:
        answers.in_pieces(Answer(body=body))
    assert refused.value.status == 503

    assert large.pieces is not None
    assert b"".join([piece async for piece in large.pieces]) == body
    await large.pieces.aclose()
    unread = answers.in_pieces(Answer(body=b"x" * 10 * LARGE_BYTES))  # one alone may be larger
    assert unread.pieces is not None
    await unread.pieces.aclose()
    assert answers.taken_bytes == 0
