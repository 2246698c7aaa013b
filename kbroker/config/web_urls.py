"""Addresses of keys and tokens on the web: `https:`, `file:`, and `http:` on this machine only.
Pure.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from kbroker.config.config_values import invalid_value
from kbroker.config.http_addresses import is_loopback


def check_web_url(name: str, url: str) -> None:
    """Refuse an address that nothing is fetched from. Raises ConfigError; `name` is its setting."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise invalid_value(name, url, "it is not an address of the web") from None
    if parts.scheme == "file":
        if not parts.path.startswith("/") or host not in (None, "localhost"):
            raise invalid_value(name, url, "write file:///PATH, with the whole path")
        return
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise invalid_value(name, url, "write https://HOST/PATH or file:///PATH")
    if parts.scheme == "http" and not is_loopback(host):
        raise invalid_value(
            name, url, "whoever is on the way could change what comes over http: write https://"
        )
