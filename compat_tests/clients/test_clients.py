"""Every client of `matrix/` through its scenarios; `make compat` has them all, in all versions."""

from __future__ import annotations

import pytest

from compat_tests.matrix.cells import State
from compat_tests.matrix.client import Client, clients
from compat_tests.matrix.run import run
from compat_tests.matrix.scenarios import SCENARIOS
from compat_tests.matrix.targets import at_address
from compat_tests.running.prerequisites import NotAvailableError

# A restart takes a broker of its own, and clients that wait for it.
ASKED = [name for name in SCENARIOS if name != "restart"]
# The versions that differ most; test_old_formats.py has those before 0.11.
JAVA = ("0.11.0.3", "2.0.1", "2.8.2", "4.3.1")
FIRST_BUILD_TIMEOUT_S = 400


def is_asked(client: Client) -> bool:
    """Spark has tests of its own in spark/; what is compiled first takes minutes."""
    if client.name == "Java":
        return client.version in JAVA
    return client.name != "Spark" and not client.compiles


@pytest.mark.timeout(FIRST_BUILD_TIMEOUT_S)
@pytest.mark.parametrize(
    "client",
    [
        pytest.param(each, id=each.title, marks=[pytest.mark.java] if each.kind == "java" else [])
        for each in clients()
        if is_asked(each)
    ],
)
def test_a_client_does_all_that_it_can(bootstrap: str, client: Client) -> None:
    cells = run([client], ASKED, at_address(bootstrap.partition(",")[0]), told=lambda cell: None)

    if cells[0].state == State.NOT_HERE:
        raise NotAvailableError(cells[0].reason)
    assert [cell for cell in cells if cell.state == State.FAILED] == []
    assert len(cells) == len(ASKED)
