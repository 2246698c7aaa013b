"""QuorumConfig: controller requests, and KRaft's settings, which only say how a node was meant."""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, config_group, define
from kbroker.errors import ConfigError, Trouble

_ONE_CLUSTER = (
    "Run the brokers of one cluster in one process (`kbroker start --brokers 3`), or give each of "
    "them zookeeper.connect"
)


@config_group
class QuorumConfig(ConfigGroup):
    """Controller requests, and the KRaft settings, which only say how a node was meant."""

    controller_socket_timeout_ms: int = define(
        30_000, "Time limit of the controller's requests to brokers."
    )
    process_roles: tuple[str, ...] = define(
        (),
        "KRaft roles. There is no quorum here: a broker is one of the cluster at "
        "zookeeper.connect, else alone, and a controller does not start.",
        list_of=("broker", "controller"),
        importance="high",
    )
    controller_listener_names: str | None = define(
        None, "KRaft: listeners of the controller, which are left out.", importance="high"
    )
    controller_quorum_voters: tuple[str, ...] = define(
        (),
        "KRaft: controllers as id@host:port; several need kbroker.quorum=alone or "
        "zookeeper.connect.",
        importance="high",
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = define(
        (), "KRaft: controllers as host:port; several as with the voters.", importance="high"
    )
    metadata_log_dir: str | None = define(
        None, "KRaft: directory of the metadata log.", importance="high", support="accepted"
    )

    def listeners(self) -> list[str]:
        """The names of a controller's listeners, in capitals."""
        names = (self.controller_listener_names or "").upper().split(",")
        return [name.strip() for name in names if name.strip()]

    def other_nodes(self) -> str | None:
        """Say by what this node was made to be one of several; None for a node that would be the
        whole quorum, for it is alone here too.
        """
        for key, servers in (
            ("controller.quorum.voters", self.controller_quorum_voters),
            ("controller.quorum.bootstrap.servers", self.controller_quorum_bootstrap_servers),
        ):
            if len(servers) > 1:
                return f"{key} names {len(servers)} nodes"
        if self.process_roles == ("broker",):
            return "process.roles=broker leaves the controller to another node"
        return None

    def check(self) -> None:
        """Raises ConfigError for a node that would serve nobody."""
        if self.process_roles == ("controller",):
            raise ConfigError(
                "process.roles=controller makes a node without clients, and kbroker has no KRaft "
                f"controllers: leave this node out. {_ONE_CLUSTER}",
                Trouble.KRAFT,
            )

    def refusal(self) -> str | None:
        """Say why this node must not start by itself, and what to do instead; None if it may."""
        others = self.other_nodes()
        if others is None:
            return None
        return (
            f"{others}, and kbroker has no KRaft quorum: each node would be a cluster of its own. "
            f"{_ONE_CLUSTER}, or start this node by itself with kbroker.quorum=alone"
        )

    def warning(self, place: str) -> str | None:
        """Say what becomes of a node that was made to be one of several; None for any other.

        `place`: what it does instead, as in "starts as a cluster of its own".
        """
        if self.other_nodes() is None:
            return None
        return f"kbroker has no KRaft quorum: this broker {place}"
