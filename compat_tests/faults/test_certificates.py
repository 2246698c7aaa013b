"""New certificates for a broker under load: the short form of `certificate_rounds`."""

from __future__ import annotations

import pytest

from compat_tests.faults.certificate_rounds import rounds


def test_nobody_is_disturbed_by_new_certificates(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker with certificates of its own")
    assert rounds(2) == []
