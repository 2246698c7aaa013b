"""Operations of the API on rules, users and quotas."""

from __future__ import annotations

from typing import Final

from kbroker.console.access import QuotaPage, RulePage, UserPage, quotas, rules, users
from kbroker.console.web.api.operation import PAGE_PARAMETERS, Given, Operation
from kbroker.console.web.api.topic_operations import wanted_of
from kbroker.console.web.console import Console


async def _rules(console: Console, given: Given) -> RulePage:
    return await rules(console.cluster, wanted_of(given))


async def _users(console: Console, given: Given) -> UserPage:
    return await users(console.cluster, wanted_of(given))


async def _quotas(console: Console, given: Given) -> QuotaPage:
    return await quotas(console.cluster, wanted_of(given))


OPERATIONS: Final = (
    Operation(
        name="listRules",
        path="/rules",
        summary="Rules of access, a page at a time; `q` may be any of their words.",
        answer=RulePage,
        function=_rules,
        parameters=PAGE_PARAMETERS,
    ),
    Operation(
        name="listUsers",
        path="/users",
        summary="Users who log in by SCRAM, with their mechanisms, a page at a time.",
        answer=UserPage,
        function=_users,
        parameters=PAGE_PARAMETERS,
    ),
    Operation(
        name="listQuotas",
        path="/quotas",
        summary="Quotas of users, client ids and addresses, a page at a time.",
        answer=QuotaPage,
        function=_quotas,
        parameters=PAGE_PARAMETERS,
    ),
)
