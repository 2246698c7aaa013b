"""Completion in shells: `kbroker completion` prints the script that a shell loads; the broker is
asked for names of topics and groups.

Law: a person who pressed a key waits, so a broker that does not answer at once adds nothing, and no
completion prints an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from kbroker.cli.arguments.connection import DEFAULT_BOOTSTRAP, cluster_links
from kbroker.client.client_error import ClientError

if TYPE_CHECKING:
    from kbroker.client.cluster_links import ClusterLinks

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_KBROKER_COMPLETE"
_PATIENCE_S = 0.5


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that lets a shell complete commands, options, topics and groups.

    For bash, put `eval "$(kbroker completion bash)"` into ~/.bashrc; for zsh, put
    `eval "$(kbroker completion zsh)"` into ~/.zshrc; for fish, run
    `kbroker completion fish > ~/.config/fish/completions/kbroker.fish`.
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None, "click knows these shells"
    click.echo(script(ctx.find_root().command, {}, "kbroker", _VARIABLE).source())


def topic_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics that begin like this; Kafka's own if two underscores are typed."""

    def names(bootstrap: str) -> list[str]:
        with cluster_links(bootstrap) as links:
            topics = links.describe(None).topics
        return [
            str(topic.name)
            for topic in topics
            if not topic.is_internal or incomplete.startswith("__")
        ]

    return _asked(ctx, names, incomplete)


def group_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the groups that begin like this."""

    def names(bootstrap: str) -> list[str]:
        from kbroker.client.consumer_groups import listed_groups

        with cluster_links(bootstrap) as links:
            return [str(group.group_id) for group in listed_groups(links)]

    return _asked(ctx, names, incomplete)


def user_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the users that begin like this."""

    def names(bootstrap: str) -> list[str]:
        from kbroker.client.scram_users import described_users

        with cluster_links(bootstrap) as links:
            return list(described_users(links))

    return _asked(ctx, names, incomplete)


def principals(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the users that begin like this, and the principals of rules."""

    def names(bootstrap: str) -> list[str]:
        from kbroker.acl.acl_filter import EVERYTHING
        from kbroker.client.access_rules import described_rules
        from kbroker.client.scram_users import described_users

        with cluster_links(bootstrap) as links:
            found = set(described_users(links))
            with suppress(ClientError):  # brokers without an authorizer
                found |= {rule.acl.principal for rule in described_rules(links, [EVERYTHING])}
            return sorted(found)

    return _asked(ctx, names, incomplete)


def quota_users(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the users with quotas or credentials that begin like this."""

    def names(bootstrap: str) -> list[str]:
        from kbroker.client.scram_users import described_users

        with cluster_links(bootstrap) as links:
            return [*_names_with_quotas(links, "user"), *described_users(links)]

    return _asked(ctx, names, incomplete)


def quota_client_ids(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the client ids with quotas that begin like this."""

    def names(bootstrap: str) -> list[str]:
        with cluster_links(bootstrap) as links:
            return _names_with_quotas(links, "client-id")

    return _asked(ctx, names, incomplete)


def _names_with_quotas(links: ClusterLinks, kind: str) -> list[str]:
    from kbroker.client.client_quotas import described_quotas

    found = (each.entity.get(kind) for each in described_quotas(links, {}))
    return [name for name in found if name is not None]


def token_ids(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the delegation tokens that begin like this."""

    def names(bootstrap: str) -> list[str]:
        from kbroker.client.delegation_tokens import described_tokens

        with cluster_links(bootstrap) as links:
            return [each.token_id for each in described_tokens(links)]

    return _asked(ctx, names, incomplete)


def transactional_ids(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the transactional ids that begin like this."""

    def names(bootstrap: str) -> list[str]:
        from kbroker.client.transactions import listed_transactions

        with cluster_links(bootstrap) as links:
            return [each.transactional_id for each in listed_transactions(links)]

    return _asked(ctx, names, incomplete)


def setting_names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the settings that begin like this: of topics if one is named, else of brokers."""
    from kbroker.client.setting_changes import broker_settings, topic_settings

    names = topic_settings() if ctx.params.get("topics") else broker_settings()
    return sorted(name for name in names if name.startswith(incomplete))


def _asked(ctx: click.Context, names: Callable[[str], list[str]], incomplete: str) -> list[str]:
    """Ask the broker of the command line for names; return none if it is late. The thread that
    asks ends with the process.
    """
    found: list[str] = []

    def ask() -> None:
        try:
            found.extend(name for name in names(_bootstrap(ctx)) if name.startswith(incomplete))
        except click.ClickException:
            return  # no broker, no names

    thread = threading.Thread(target=ask, name="names", daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    return sorted(set(found))


def _bootstrap(ctx: click.Context) -> str:
    """Return address and settings as the command would have them: a completion parses options, but
    sets no defaults.
    """
    from kbroker.cli.arguments.bootstrap_reading import CLUSTER_OPTIONS, bootstrap_of

    for option in ctx.command.params:
        if option.name in CLUSTER_OPTIONS and not ctx.params.get(option.name):
            ctx.params[option.name] = option.value_from_envvar(ctx) or ()
    ctx.params["bootstrap"] = ctx.params["bootstrap"] or DEFAULT_BOOTSTRAP
    return bootstrap_of(ctx)
