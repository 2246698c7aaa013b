"""What needs a package of the extra says how to install it."""

from __future__ import annotations

import sys

import pytest

from kbroker.errors import ConfigError
from kbroker.security_extra import check_security_extra


@pytest.mark.parametrize("module", ["cryptography", "jwt", "puresasl"])
def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_security_extra(module, "This")  # the tests' extra brings it

    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ConfigError, match=rf"^This needs {module}, .*pip install 'kbroker\[sec"):
        check_security_extra(module, "This")
