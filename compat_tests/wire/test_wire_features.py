"""Features of the cluster: what is said of one that nobody knows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.wire.wire_client import WireClient, code

UPDATE_FEATURES = 57
UPGRADE, SAFE_DOWNGRADE, UNHEARD_OF = 1, 2, 9


def update(wire: WireClient, version: int, feature: str, level: int, kind: int) -> list[str]:
    """The code of the answer, then those of its features."""
    wanted = {"feature": feature, "max_version_level": level, "upgrade_type": kind}
    answer = wire.call(UPDATE_FEATURES, version, feature_updates=[wanted])
    rows = [answer, *getattr(answer, "results", ())]
    return [code(row.error_code, row.error_message) for row in rows]


@pytest.mark.row(226)
@pytest.mark.usefixtures("only_kbroker")
@pytest.mark.parametrize(
    ("feature", "level", "kind", "words"),
    [
        (
            "nope",
            1,
            UPGRADE,
            "Could not apply finalized feature update because the provided feature is not supported.",
        ),
        ("nope", 0, SAFE_DOWNGRADE, "Can not delete non-existing finalized feature."),
        ("nope", 1, UNHEARD_OF, "Received unknown upgrade type."),
        ("", 1, UPGRADE, "Feature name can not be empty."),
    ],
)
def test_a_feature_that_nobody_knows_is_refused_as_with_zookeeper(
    wire: WireClient, feature: str, level: int, kind: int, words: str
) -> None:
    assert update(wire, 1, feature, level, kind) == ["0", f"42 INVALID_REQUEST ({words})"]


def test_from_version_2_on_the_answer_has_one_code(
    wire: WireClient, either: Callable[[str, str], str]
) -> None:
    (found,) = update(wire, 2, "nope", 1, UPGRADE)

    assert found.startswith(
        either("42 INVALID_REQUEST (", "95 INVALID_UPDATE_VERSION (")
        + "The update failed for all features since the following feature had an error: "
    )
