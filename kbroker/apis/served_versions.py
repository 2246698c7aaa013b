"""The versions of APIs that were asked for so far, with all that is known of them beforehand."""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.apis.context import Services
from kbroker.apis.registry import Api
from kbroker.apis.request_counters import RequestStats
from kbroker.apis.served_api import Served
from kbroker.errors import ProtocolError
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.header import API_VERSIONS_KEY, RequestHeader
from kbroker.unserved import UnservedError, unserved_api, unserved_version


class ServedVersions(dict[tuple[int, int], Served]):
    """By API key and version; those that are there answer with the services in force."""

    __slots__ = ("_apis", "_services", "_stats")

    def __init__(self, apis: Mapping[int, Api], stats: RequestStats) -> None:
        super().__init__()
        self._apis = apis
        self._stats = stats
        self._services: Services | None = None

    def use(self, services: Services) -> None:
        """Forget what was worked out for other services."""
        for served in self.values():
            served.is_in_force = False
        self.clear()
        self._services = services

    def serve(self, header: RequestHeader) -> Served:
        """Work out what is known of the version that a request asks for. Raises UnservedError."""
        key, version = header.api_key, header.api_version
        api = self._apis.get(key)
        if api is None:
            raise UnservedError(unserved_api(ApiKey(key).api_name), header.client_id)
        if version not in api.versions:
            text = unserved_version(api.name, version, str(api.versions))
            raise UnservedError(text, header.client_id)
        served = self[key, version] = self._made(api, version)
        return served

    def asks_for_newer_versions(self, header: RequestHeader) -> bool:
        """Whether a client asks for the served versions in a version that is not served."""
        api = self._apis.get(header.api_key)
        is_served = api is not None and header.api_version in api.versions
        return header.api_key == API_VERSIONS_KEY and not is_served

    def of_unknown_client(self) -> tuple[Api, Served]:
        """ApiVersions in version 0, although the request was newer: an unknown client can read only
        that, and learns our range from it (KIP-511). Raises ProtocolError.
        """
        api = self._apis.get(API_VERSIONS_KEY)
        if api is None:
            raise ProtocolError("ApiVersions is not served")
        return api, self._made(api, 0)

    def _made(self, api: Api, version: int) -> Served:
        assert self._services is not None, "they are given before the first request"
        return Served(api, version, self._services, self._stats.of(api.key, version))
