"""The trust of a fetch over https: `ssl.truststore.*` among the options of a JAAS entry, as Kafka's
own classes for OAUTHBEARER read them there, else that of the system.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from kbroker.errors import ConfigError

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
        return ssl.create_default_context(cafile=file, cadata=text)
    except (OSError, ValueError) as error:  # ssl's own errors are OSErrors
        is_content = isinstance(error, ssl.SSLError | ValueError)
        reason = "they are not PEM" if is_content else getattr(error, "strerror", None)
        named = f"{_FILE} {file}" if file is not None else _TEXT
        raise ConfigError(f"the certificates of {named} cannot be used: {reason}") from error
