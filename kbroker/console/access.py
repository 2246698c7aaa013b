"""Access rules, users with their mechanisms, and quotas, as lists of a console."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kbroker.acl.acl_filter import EVERYTHING
from kbroker.acl.rule_words import AclRule, word_of
from kbroker.client.access_rules import described_rules
from kbroker.client.client_error import ClientError
from kbroker.client.client_quotas import EntityQuotas, described_quotas
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.quota_words import TYPES, entity_words
from kbroker.client.scram_users import described_users
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.gaps import Gaps
from kbroker.console.pages import Page, Wanted, page_of

RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """A rule of access, in the words of `kbroker acl`."""

    principal: str
    host: str
    permission: str
    operation: str
    resource: str
    name: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRow:
    """A user of the cluster, with the iterations of its credentials by mechanism."""

    name: str
    mechanisms: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """Quotas by Kafka's names, and who has them: names by `user`, `client-id` and `ip`; null stands
    for all without quotas of their own.
    """

    entity: Mapping[str, str | None]
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePage:
    """A page of rules, sorted by what they are about."""

    page: Page[RuleRow]
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPage:
    """A page of users, sorted by name. Those that are in settings files are not known."""

    page: Page[UserRow]
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaPage:
    """A page of quotas: users first, then client ids and addresses."""

    page: Page[QuotaRow]
    gaps: tuple[str, ...]


async def rules(cluster: ConsoledCluster, wanted: Wanted) -> RulePage:
    """List rules that hold the text in any of their words. Raises ClientError."""
    page, gaps = await _listed(cluster, wanted, "access rules", _rules, _words)
    return RulePage(page=page, gaps=gaps)


async def users(cluster: ConsoledCluster, wanted: Wanted) -> UserPage:
    """List users who log in by SCRAM. Raises ClientError."""
    page, gaps = await _listed(cluster, wanted, "users", _users, _name)
    return UserPage(page=page, gaps=gaps)


async def quotas(cluster: ConsoledCluster, wanted: Wanted) -> QuotaPage:
    """List quotas. Raises ClientError."""
    page, gaps = await _listed(cluster, wanted, "quotas", _quotas, _whose)
    return QuotaPage(page=page, gaps=gaps)


async def _listed(
    cluster: ConsoledCluster,
    wanted: Wanted,
    what: str,
    found: Callable[[ClusterLinks], Sequence[RowT]],
    words: Callable[[RowT], str],
) -> tuple[Page[RowT], tuple[str, ...]]:
    """Return a page of what is found, and what is missing of it."""

    def ask(work: Work) -> tuple[Page[RowT], tuple[str, ...]]:
        gaps = Gaps()
        listed = _known(gaps, what, lambda: found(work.links))
        return page_of(listed, wanted, words), gaps.sentences()

    return await cluster.ask(ask)


def _known(gaps: Gaps, what: str, ask: Callable[[], Sequence[RowT]]) -> Sequence[RowT]:
    """The rows that a question finds; none if it is refused."""
    with gaps.around(what):
        try:
            return ask()
        except ClientError as error:
            gaps.tell(str(error))  # a whole sentence: there is no authorizer
    return ()


def _rules(links: ClusterLinks) -> list[RuleRow]:
    return [_row(each) for each in described_rules(links, [EVERYTHING])]


def _row(rule: AclRule) -> RuleRow:
    pattern, acl = rule
    return RuleRow(
        principal=acl.principal,
        host=acl.host,
        permission=word_of(acl.permission),
        operation=word_of(acl.operation),
        resource=word_of(pattern.type),
        name=pattern.name,
        pattern=word_of(pattern.pattern_type),
    )


def _words(row: RuleRow) -> str:
    return f"{row.permission} {row.principal} {row.operation} {row.resource} {row.name} {row.host}"


def _users(links: ClusterLinks) -> list[UserRow]:
    found = described_users(links)
    return [UserRow(name=name, mechanisms=found[name]) for name in sorted(found)]


def _name(row: UserRow) -> str:
    return row.name


def _quotas(links: ClusterLinks) -> list[QuotaRow]:
    return [_quota(each) for each in described_quotas(links, {})]


def _quota(found: EntityQuotas) -> QuotaRow:
    entity = {kind: found.entity[kind] for kind in TYPES if kind in found.entity}
    return QuotaRow(entity=entity, values={key: found.values[key] for key in sorted(found.values)})


def _whose(row: QuotaRow) -> str:
    return entity_words(row.entity)
