"""The trust of a fetch over https: `ssl.truststore.*` among the options of a JAAS entry, as Kafka's
own classes for OAUTHBEARER read them there, else that of the system.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from kbroker.config.pem_text import certificates_in
from kbroker.config.tls_settings import VERSIONS, ClientTls, Pem
from kbroker.errors import ConfigError
from kbroker.tls.tls_context import client_context

_FILE, _TYPE = "ssl.truststore.location", "ssl.truststore.type"
_TEXT = "ssl.truststore.certificates"


def web_trust(options: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the context for these options of JAAS, None for the system's.

    Raises ConfigError if the certificates cannot be read.
    """
    file, text = options.get(_FILE), options.get(_TEXT)
    if file is None and text is None:
        return None
    if file is not None and options.get(_TYPE, "JKS").upper() != "PEM":
        raise ConfigError(
            f"the option {_FILE} of OAUTHBEARER is read as PEM only: convert the store with "
            f"`keytool -list -rfc -keystore {file}`, and add {_TYPE}=PEM"
        )
    try:
        pem = None if text is None else certificates_in(text)
    except ValueError as error:
        raise ConfigError(f"{_TEXT} cannot be used: {error}") from error
    trusted = Pem(setting=_FILE if text is None else _TEXT, file=file, certificates=pem)
    return client_context(
        ClientTls(
            own=None,
            key_password=None,
            key_password_setting="",
            trusted=trusted,
            checks_host_name=True,
            versions=VERSIONS,
            suites_of_1_2=(),
            suites_of_1_3=(),
        )
    )
