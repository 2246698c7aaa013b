"""Addresses that let our client in not at all, or not by every address of their name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kbroker.cli.doctor.finding import Finding, Severity
from kbroker.cli.doctor.observations import Door, Heard, Observations, Speech
from kbroker.protocol.api_keys import ApiKey
from kbroker.wording import named

_SHOWN_BYTES = 60


class Cause(NamedTuple):
    """The part of a finding about a door that does not depend on how the door is known."""

    code: str
    seen: str
    means: str
    mends: str


def closed_doors(seen: Observations) -> Iterator[Finding]:
    """Find the given addresses that do not let us in; a warning if another one does."""
    is_usable = any(door.lets_in for door in seen.doors)
    for door in seen.doors:
        cause = cause_of(door, seen.protocol)
        if cause is not None:
            severity = Severity.WARNING if is_usable else Severity.ERROR
            yield Finding(severity=severity, subject=door.name, **cause._asdict())


def half_reached_names(seen: Observations) -> Iterator[Finding]:
    """Find names of which some addresses take no connection. That of the loopback is left out: it
    has two addresses everywhere, and most programs listen on one.
    """
    for door in seen.doors:
        if door.unreached and door.is_reached and not door.is_loopback:
            reasons = "; ".join(f"{at}: {why}" for at, why in door.unreached.items())
            yield Finding(
                code="address-half-reached",
                severity=Severity.WARNING,
                subject=door.name,
                seen=f"{door.host} is {named(door.addresses)}, of which some do not answer "
                f"({reasons})",
                means="Clients that try one address, or try them in turn with long time-outs, fail "
                "or connect slowly.",
                mends="Take the addresses out of the name's entries, or let the broker listen on "
                "them.",
            )


def mixed_clusters(seen: Observations) -> Iterator[Finding]:
    """Find given addresses of several clusters."""
    ids = {door.name: door.cluster_id for door in seen.doors if door.cluster_id is not None}
    if len(set(ids.values())) > 1:
        yield Finding(
            code="mixed-clusters",
            severity=Severity.ERROR,
            subject=", ".join(ids),
            seen="the addresses belong to different clusters: "
            + ", ".join(f"{name} to {cluster_id}" for name, cluster_id in ids.items()),
            means="Each client works with the cluster that happens to answer it first: records go "
            "now here, now there.",
            mends="Give the addresses of one cluster.",
        )


def cause_of(door: Door, protocol: str) -> Cause | None:
    """Return why a door is closed to a client of this `security.protocol`; None if it is open."""
    if door.unknown is not None:
        return _unknown_name(door)
    if not door.is_reached:
        return _unreached(door)
    if door.heard is None:
        return None if door.refusal is None else _refused(str(door.refusal))
    return _BY_SPEECH[door.heard.speech](door, door.heard, protocol)


def _unknown_name(door: Door) -> Cause:
    return Cause(
        "name-unknown",
        f"the name {door.host} stands for no address here ({door.unknown})",
        "Nobody on this machine can connect by that name. Names of containers are known inside "
        "their network only.",
        "Use a name that this machine knows, or make it known: in DNS, or with a line in "
        "/etc/hosts.",
    )


def _unreached(door: Door) -> Cause:
    reasons = set(door.unreached.values())
    tried = ", ".join(door.unreached)
    if reasons == {"Connection refused"}:
        return Cause(
            "port-closed",
            f"nothing listens at port {door.port} of {tried} (connection refused)",
            "No broker runs there, it listens at another port, or only on another address of that "
            "machine.",
            "Start the broker, or give its port; a broker with `listeners` on 127.0.0.1 or "
            "localhost can be reached from its own machine only.",
        )
    return Cause(
        "unreachable",
        f"no connection to port {door.port} of {tried} ({'; '.join(sorted(reasons))})",
        "The machine is off, in another network, or a firewall drops what is sent to it.",
        "Check the address and the way to it: routes, firewalls, security groups, the published "
        "ports of a container.",
    )


def _refused(refusal: str) -> Cause:
    return Cause(
        "not-let-in",
        refusal,
        "A broker listens there, and does not let this client use it.",
        "Do what the sentence says, or ask whoever runs the broker for the security settings of "
        "this port.",
    )


def _kafka(door: Door, heard: Heard, protocol: str) -> Cause:
    if protocol.endswith("SSL"):
        return Cause(
            "tls-on-plain-port",
            f"a broker answers there without TLS, and security.protocol is {protocol}",
            "The handshake fails: clients see an unexpected end of the connection.",
            f"Give the port that speaks TLS, or {_security(heard, protocol, 'PLAINTEXT')}.",
        )
    return _login(door, heard, protocol, "PLAINTEXT")


def _kafka_over_tls(door: Door, heard: Heard, protocol: str) -> Cause:
    if not protocol.endswith("SSL"):
        return Cause(
            "plain-on-tls-port",
            f"a broker answers there over TLS, and security.protocol is {protocol}",
            "Clients without TLS see connections that end, or answers of impossible sizes.",
            f"Give {_security(heard, protocol, 'SSL')}, and ssl.ca.location=FILE if its "
            "certificate is from an authority of your own.",
        )
    return _login(door, heard, protocol, "SSL")


def _security(heard: Heard, protocol: str, transport: str) -> str:
    """Properties for a port of this transport, with a login if one is asked for or was given."""
    if heard.mechanisms:
        login = f" with a login (sasl.mechanism={' or '.join(heard.mechanisms)})"
        return f"security.protocol=SASL_{transport}{login}"
    is_for_login = protocol.startswith("SASL_") and heard.mechanisms is None
    return f"security.protocol={'SASL_' if is_for_login else ''}{transport}"


def _login(door: Door, heard: Heard, protocol: str, transport: str) -> Cause:
    if "certificate" in (door.refusal or ""):
        return _tls(door, heard, protocol)
    wants, gives = bool(heard.mechanisms), protocol.startswith("SASL_")
    if ApiKey.METADATA not in door.serves and door.serves:
        return _no_clients()
    if wants and not gives:
        return Cause(
            "login-wanted",
            f"a broker answers there and asks for a login by {named(heard.mechanisms or ())}",
            "It ends connections without a login at their first request.",
            f"Give security.protocol=SASL_{transport}, sasl.mechanism, sasl.username and "
            "sasl.password in a file for --command-config.",
        )
    if gives and heard.mechanisms == ():
        return Cause(
            "no-login-there",
            f"a broker answers there and takes no login, and security.protocol is {protocol}",
            "The login fails before anything is asked.",
            f"Give the port that takes logins, or security.protocol={transport}.",
        )
    refusal = door.refusal or "the broker ends the connection"
    return _unanswered(refusal) if heard.mechanisms == () else _refused(refusal)


def _unanswered(refusal: str) -> Cause:
    return Cause(
        "no-answer",
        refusal,
        "A broker listens there with the security that was given, and does not answer: it is "
        "overloaded, or is just starting or stopping.",
        "Try again; if it stays so, look at the broker's log.",
    )


def _no_clients() -> Cause:
    return Cause(
        "controller-port",
        "what listens there speaks Kafka's protocol without requests for clients (no Metadata)",
        "That is the port of a controller of KRaft, which talks to brokers only.",
        "Give the port of a broker: that of `listeners` which is not in "
        "`controller.listener.names`.",
    )


def _tls(door: Door, _heard: Heard, protocol: str) -> Cause:
    if protocol.endswith("SSL"):
        return Cause(
            "tls-refused",
            door.refusal or "the TLS handshake fails",
            "TLS is spoken there: one side does not accept the other, or another program listens.",
            "Renew a certificate that is out of date. Else give the authority of the broker's "
            "certificate (ssl.ca.location) and, if it asks for one, a certificate of your own "
            "(ssl.certificate.location, ssl.key.location).",
        )
    return Cause(
        "plain-on-tls-port",
        f"TLS is spoken there, and security.protocol is {protocol}",
        "Clients without TLS see connections that end, or answers of impossible sizes.",
        f"Give security.protocol={protocol.replace('PLAINTEXT', 'SSL')} and, if its certificate is "
        "from an authority of your own, ssl.ca.location=FILE.",
    )


def _http(_door: Door, heard: Heard, _protocol: str) -> Cause:
    return Cause(
        "web-server",
        f"a web server answers there ({_first_line(heard)})",
        "That is the port of a web page, a proxy or a REST interface, not that of a broker.",
        "Give the broker's own port, which is 9092 unless it was changed.",
    )


def _zookeeper(_door: Door, _heard: Heard, _protocol: str) -> Cause:
    return Cause(
        "zookeeper",
        "a ZooKeeper answers there",
        "Clients ask brokers; only brokers ask ZooKeeper.",
        "Give the port of a broker, which is 9092 unless it was changed.",
    )


def _other(_door: Door, heard: Heard, _protocol: str) -> Cause:
    return Cause(
        "not-a-broker",
        f"something else answers there ({_first_line(heard)})",
        "Another program has this port.",
        "Give the broker's own port, which is 9092 unless it was changed.",
    )


def _closed(_door: Door, _heard: Heard, _protocol: str) -> Cause:
    return Cause(
        "connection-closed",
        "connections are taken there and ended without an answer",
        "A proxy or a published port has nothing behind it, or another program listens.",
        "Check that the broker runs behind the proxy or the published port, and that its own port "
        "is the one that is forwarded to.",
    )


def _silence(_door: Door, _heard: Heard, _protocol: str) -> Cause:
    return Cause(
        "silence",
        "connections are taken there and nothing is answered",
        "The broker is stopped or overloaded, still recovers its logs, or another program listens "
        "there.",
        "Look at the broker's log; if it says nothing of this client, check who has the port.",
    )


def _first_line(heard: Heard) -> str:
    text = heard.first_bytes[:_SHOWN_BYTES].decode("latin-1").splitlines()
    return f"it says {text[0].strip()!r}" if text and text[0].strip() else "without words"


_BY_SPEECH: dict[Speech, Callable[[Door, Heard, str], Cause]] = {
    Speech.KAFKA: _kafka,
    Speech.KAFKA_OVER_TLS: _kafka_over_tls,
    Speech.TLS: _tls,
    Speech.HTTP: _http,
    Speech.ZOOKEEPER: _zookeeper,
    Speech.OTHER: _other,
    Speech.CLOSED: _closed,
    Speech.SILENCE: _silence,
}
