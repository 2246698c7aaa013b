"""kafka-storage: ids for clusters, and the users that a cluster begins with; a broker here formats
its directory by itself.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets

import click

from kbroker.cli.kafka_tools.tool_options import Given, Option, Tool, ToolError
from kbroker.cli.shown.output import say
from kbroker.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest

_ACTIONS = ("random-uuid", "format")
_USER = re.compile(r"(?P<mechanism>[^=]+)=\[(?P<fields>.*)\]", re.DOTALL)
_FIELD = re.compile(r'(?P<name>\w+)=(?:"(?P<quoted>[^"]*)"|(?P<plain>[^,]*))(?:,|$)')


def _run(given: Given) -> int:
    if given.words == ("random-uuid",):
        from kbroker.server.metadata_tree.broker_identity import new_cluster_id

        click.echo(new_cluster_id())
        return 0
    if given.words != ("format",):
        raise ToolError(f"give one of {' and '.join(_ACTIONS)}")
    if given.has("add-scram"):
        _add_users(given.needed("config"), given.all("add-scram"))
        return 0
    say(
        "nothing to format: a broker makes its directory at its first start, with the cluster id "
        "in CLUSTER_ID, or one of its own"
    )
    return 0


def _add_users(file: str, texts: list[str]) -> None:
    """Give the data directory of a settings file its first users; as in Kafka, one that has been
    formatted, which here is one with users, stays as it is.
    """
    from kbroker.errors import ConfigError
    from kbroker.log.disk.file_system import RealFileSystem
    from kbroker.server.metadata_tree.tree_users import alter_users_in, users_in
    from kbroker.server.start.launch import UsageError, properties_in
    from kbroker.server.start.settings_sources import SettingSources, load_settings
    from kbroker.server.start_error import StartError

    users = [user for text in texts for user in _user(text).upsertions]
    try:
        sources = SettingSources(properties=properties_in(file), environment=os.environ)
        config = load_settings(sources).config
        if config.zk.zookeeper_connect:
            raise ToolError("users are in the ZooKeeper: add them with kafka-configs")
        directory = config.log.data_directories()[0]
        disk = RealFileSystem()
        there = asyncio.run(users_in(disk, directory))
        if there:
            say(f"{directory} has users already: {', '.join(there)}")
            return
        request = AlterUserScramCredentialsRequest(upsertions=users)
        refusals = asyncio.run(alter_users_in(disk, directory, request)).items()
    except (ConfigError, UsageError, StartError) as error:
        raise ToolError(str(error)) from error
    for user, refusal in refusals:
        if refusal is not None:
            raise ToolError(f"{user}: {refusal.reason}")


def _user(text: str) -> AlterUserScramCredentialsRequest:
    """Read `SCRAM-SHA-256=[name=ann,password=secret]`, also with `iterations` and `salt`, and with
    `saltedpassword` in place of the password.
    """
    from kbroker.client.scram_users import Upsertion
    from kbroker.sasl.scram_keys import (
        ITERATIONS_MAX,
        ITERATIONS_MIN,
        KAFKAS_SALT_BITS,
        MECHANISM_NUMBERS,
        decoded,
        kafkas_salt,
    )

    match = _USER.fullmatch(text)
    name = match["mechanism"] if match is not None else ""
    fields = {
        each["name"]: each["plain"] if each["quoted"] is None else each["quoted"]
        for each in _FIELD.finditer(match["fields"] if match is not None else "")
    }
    numbers = [n for n, mechanism in MECHANISM_NUMBERS.items() if mechanism.sasl_name == name]
    is_salted = "saltedpassword" in fields
    has_secret = is_salted or bool(fields.get("password"))
    if (
        not numbers
        or not has_secret
        or not fields.get("name")
        or (is_salted and "salt" not in fields)
    ):
        raise ToolError(
            "--add-scram takes SCRAM-SHA-256=[name=NAME,password=PASSWORD], or SCRAM-SHA-512; also "
            "with iterations, salt and saltedpassword"
        )
    try:
        iterations = int(fields.get("iterations", ITERATIONS_MIN))
        drawn = kafkas_salt(secrets.randbits(KAFKAS_SALT_BITS))
        salt = decoded(fields["salt"]) if "salt" in fields else drawn
        salted = decoded(fields["saltedpassword"]) if is_salted else None
    except ValueError:
        raise ToolError(
            "--add-scram: iterations is a number; salt and saltedpassword are base64"
        ) from None
    if salted is None and 0 < iterations <= ITERATIONS_MAX:  # else it is refused below
        salted = MECHANISM_NUMBERS[numbers[0]].salted(fields["password"], salt, iterations)
    return AlterUserScramCredentialsRequest(
        upsertions=[
            Upsertion(
                name=fields["name"],
                mechanism=numbers[0],
                iterations=iterations,
                salt=salt,
                salted_password=salted or b"",
            )
        ]
    )


TOOL = Tool(
    summary="draws ids of clusters (random-uuid), and adds first users (format).",
    options={
        "config": Option("The broker's settings: where its data is; needed for users.", "FILE"),
        "cluster-id": Option("Taken, without effect: the broker reads CLUSTER_ID.", "ID"),
        "ignore-formatted": Option("Taken, without effect."),
        "standalone": Option("Taken, without effect."),
        "add-scram": Option(
            "A first user: SCRAM-SHA-256=[name=NAME,password=TEXT].",
            "USER",
        ),
    },
    run=_run,
    takes="random-uuid|format",
    short={
        "-c": "config",
        "-t": "cluster-id",
        "-g": "ignore-formatted",
        "-s": "standalone",
        "-S": "add-scram",
    },
)
