"""The short form of the hunts: copies in transactions while brokers and copiers are killed, and very
many aborted transactions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.transactions.aborts import run as run_aborts
from compat_tests.transactions.copier_rounds import run_alone, run_cluster
from compat_tests.transactions.copiers import first_difference


@pytest.fixture
def only_kbroker(target: str) -> None:
    if target != "kbroker":
        pytest.skip("starts brokers of its own")


@pytest.mark.java
@pytest.mark.usefixtures("only_kbroker")
def test_copies_are_exact_while_the_only_broker_is_killed(tmp_path: Path) -> None:
    copying = run_alone(tmp_path, 4, kinds=["java", "librdkafka", "aiokafka"], seed=3)

    assert copying.faults.total() == 4
    assert all(copier.told["aborted"] for copier in copying.copiers)


@pytest.mark.java
@pytest.mark.usefixtures("only_kbroker")
def test_copies_are_exact_while_brokers_of_a_cluster_are_killed(tmp_path: Path) -> None:
    copying = run_cluster(tmp_path, 2, kinds=["java", "librdkafka"], seed=5)

    assert copying.faults.total() == 2
    assert all(copier.told["committed"] for copier in copying.copiers)


@pytest.mark.usefixtures("only_kbroker")
def test_aborted_transactions_are_never_seen_and_forgotten_when_the_log_is_cleaned(
    tmp_path: Path,
) -> None:
    assert run_aborts(tmp_path, 100).startswith("100 transactions aborted and 12 committed in ")


def test_values_that_differ_are_named() -> None:
    assert first_difference([1, 2, 3], [1, 2, 3]) == ""
    assert first_difference([1, 2, 3], [1, 3]) == ("3 and 2 values, from 1 on [1, 2, 3] and [1, 3]")
    assert first_difference([1, 2], [1, 2, 2]).startswith("2 and 3 values, from 2 on ")
