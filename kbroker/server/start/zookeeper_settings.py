"""The way into a ZooKeeper as a broker has it, for commands that go there themselves."""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.config.zk_access import ZkAccess, zk_access
from kbroker.errors import ConfigError, trouble_of
from kbroker.server.start.launch import UsageError, logins_in, properties_in
from kbroker.server.start.settings_sources import JAVA_OPTIONS, SettingSources, load_settings
from kbroker.zk.ensemble.kazoo_tree import check_access

_OURS = ("zookeeper.", "kbroker.zookeeper.")


def zookeeper_access(properties: str | None, environment: Mapping[str, str]) -> ZkAccess:
    """The access that the file of a broker's settings and KAFKA_OPTS give: of both only what is of
    ZooKeeper counts. Raises UsageError.
    """
    named = {} if properties is None else properties_in(properties)
    sources = SettingSources(
        properties={name: text for name, text in named.items() if name.startswith(_OURS)},
        environment={name: environment[name] for name in (JAVA_OPTIONS,) if name in environment},
        logins=logins_in(environment),
    )
    try:
        access = zk_access(load_settings(sources).config)
        check_access(access)
    except ConfigError as error:
        raise UsageError(str(error), trouble_of(error)) from error
    return access
