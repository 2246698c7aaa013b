"""kafka-configs for users: their SCRAM credentials, shown and changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kbroker.admin.config_changes import OP_DELETE
from kbroker.cli.kafka_tools.tool_options import ToolError
from kbroker.client.cluster_configs import AlterableConfig
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.scram_users import altered_users, described_users, with_password, without
from kbroker.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kbroker.sasl.scram_keys import ITERATIONS_MIN

_CREDENTIAL = re.compile(r"(?:iterations=(\d+),)?password=(.+)", re.DOTALL)


def described(links: ClusterLinks, user: str | None) -> Iterator[str]:
    """A line for each user that has credentials, or for this one."""
    for name, mechanisms in described_users(links).items():
        if user in (None, name):
            shown = ", ".join(f"{m}=iterations={number}" for m, number in mechanisms.items())
            yield f"SCRAM credential configs for user-principal '{name}' are {shown}"


def alter(links: ClusterLinks, user: str, changes: Sequence[AlterableConfig]) -> None:
    """Change the credentials of a user. ToolError without a password for what cannot be done."""
    gone = {change.name: 0 for change in changes if change.config_operation == OP_DELETE}
    request = AlterUserScramCredentialsRequest(deletions=without({user: gone}).deletions)
    for change in changes:
        if change.config_operation != OP_DELETE:
            iterations, password = _credential(change)
            given = with_password(user, password, [change.name], iterations)
            request.upsertions += given.upsertions
    for refusal in altered_users(links, request).values():
        if refusal is not None:
            raise ToolError(f"Error while executing config command: {refusal.reason}")


def _credential(change: AlterableConfig) -> tuple[int, str]:
    match = _CREDENTIAL.fullmatch(change.value or "")
    if match is None:
        raise ToolError(
            f"Invalid credential property {change.name}: give {change.name}=[iterations=NUMBER,"
            "password=PASSWORD]"
        )
    iterations = int(match[1] or ITERATIONS_MIN)
    if iterations < ITERATIONS_MIN:
        raise ToolError(
            f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for "
            f"{change.name}"
        )
    return iterations, match[2]
