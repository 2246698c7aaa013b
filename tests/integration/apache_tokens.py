"""`python -m tests.integration.apache_tokens`: asks Apache Kafka 3.9.2 which of the tokens in
`tests/fakes/tokens` it takes, and writes its verdicts down.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from compat_tests.running.apache_kafka import ZOOKEEPER_LINE, broker, free_port
from kbroker.client.broker_link import BrokerLink
from kbroker.client.client_error import ClientError
from kbroker.client.connection_settings import ConnectionSettings
from kbroker.sasl.login import Login
from kbroker.sasl.oauthbearer import BearerLogin
from tests.fakes.tokens.token_cases import AUDIENCES, ISSUER, KEYS, TokenCases

VERDICTS = Path(__file__).parents[1] / "golden" / "tokens" / "apache-3.9.2.tsv"
_TAKEN, _REFUSED, _CLOSED, _NOT_SENT = "taken", "refused", "closed", "cannot be sent"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_LISTENER = "listener.name.sasl_plaintext."


def verdicts_in(text: str) -> dict[str, str]:
    """Verdicts by the name of the token."""
    return dict(line.split("\t") for line in text.splitlines())


def settings_of(keys: Path) -> dict[str, str]:
    """The settings of a listener SASL_PLAINTEXT that takes tokens signed by these keys."""
    return {
        f"{_LISTENER}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{_LISTENER}oauthbearer.sasl.jaas.config": f"{_PACKAGE}OAuthBearerLoginModule required;",
        f"{_LISTENER}oauthbearer.sasl.server.callback.handler.class": f"{_PACKAGE}"
        "OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": ",".join(AUDIENCES),
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }


def allow(urls: str) -> None:
    """Have brokers of Apache Kafka that start from now on fetch keys and tokens there."""
    os.environ["JAVA_TOOL_OPTIONS"] = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}"


def verdict_on(port: int, token: str) -> str:
    """The verdict of the broker at this port of 127.0.0.1."""
    login = Login(mechanism="OAUTHBEARER", tokens=lambda: BearerLogin(token))
    try:
        BrokerLink("127.0.0.1", port, 10, ConnectionSettings(login=login)).close()
    except ClientError:
        return _REFUSED
    except OSError:
        return _CLOSED
    except ValueError:
        return _NOT_SENT
    return _TAKEN


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys.json"
        keys.write_text(json.dumps({"keys": KEYS}))
        allow(keys.as_uri())
        port = free_port()
        listeners = {"SASL_PLAINTEXT": port}
        with broker(ZOOKEEPER_LINE, settings_of(keys), listeners):
            names = [*TokenCases(0).good(), *TokenCases(0).bad()]
            lines = []
            for name in names:
                now = TokenCases(int(time.time()))  # each with a whole minute before it
                text, _ = (now.good() | now.bad())[name]
                lines.append(f"{name}\t{verdict_on(port, text)}\n")
    VERDICTS.write_text("".join(lines))
    sys.stdout.writelines(lines)


if __name__ == "__main__":
    main()
