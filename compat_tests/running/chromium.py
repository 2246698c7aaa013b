"""A headless Chromium, driven as a person drives it: pages, keys, sizes of a screen; and what the
browser has to say about a page.
"""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from compat_tests.running.apache_kafka import free_port, wait_for_port
from compat_tests.running.prerequisites import npm_packages, require_program

AXE: Final = Path(__file__).parents[1] / "axe"
TAB: Final = "\ue004"
ENTER: Final = "\ue007"
ESCAPE: Final = "\ue00c"
_PATIENCE_S: Final = 30.0
_PAUSE_S: Final = 0.02
_OPTIONS: Final = {
    "browserName": "chrome",
    "acceptInsecureCerts": True,  # as a person who goes on past the warning
    "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    "goog:chromeOptions": {
        "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    },
}
_RUN_AXE: Final = """
const done = arguments[arguments.length - 1];
axe.run({ resultTypes: ["violations"] }).then((found) => done(found.violations.map((each) =>
    `${each.impact}: ${each.id}: ${each.nodes.map((node) => node.html.slice(0, 100)).slice(0, 3)}`)));
"""


class Chromium:
    """One window of a browser."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": _OPTIONS}})
        self._url = f"{self._url}/session/{made['sessionId']}"

    def go(self, url: str) -> None:
        self._call("POST", "/url", {"url": url})

    def script(self, code: str) -> Any:
        """The value that a piece of JavaScript returns."""
        return self._call("POST", "/execute/sync", {"script": code, "args": []})

    def until(self, expression: str) -> None:
        """Return as soon as an expression is true in the page; a page that changes has none."""
        ends_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < ends_s:
            try:
                if self.script(f"return {expression}"):
                    return
            except HTTPError:  # the page is just being left
                pass
            time.sleep(_PAUSE_S)  # to ask without end is work for the browser
        said = self.script("return location.href + ' ' + document.body.innerText")
        raise AssertionError(f"{expression}: {said}")

    def type(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        actions = [
            {"type": kind, "value": key}
            for text in keys
            for key in text
            for kind in ("keyDown", "keyUp")
        ]
        self._call(
            "POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]}
        )

    def look(self, width: int, *, is_dark: bool) -> None:
        """Have a screen of this width, and this colour scheme."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self._devtools("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._devtools("Emulation.setEmulatedMedia", {"features": [scheme]})

    def screenshot(self) -> bytes:
        """The page as far as the screen shows it, as PNG."""
        return base64.b64decode(self._devtools("Page.captureScreenshot", {})["data"])

    def messages(self) -> list[str]:
        """The lines that the browser has written to its console since it was last asked."""
        return [each["message"] for each in self._call("POST", "/se/log", {"type": "browser"})]

    def requested(self) -> list[str]:
        """The addresses that pages have asked for since they were last asked after."""
        entries = self._call("POST", "/se/log", {"type": "performance"})
        events = [json.loads(each["message"])["message"] for each in entries]
        return [
            each["params"]["request"]["url"]
            for each in events
            if each["method"] == "Network.requestWillBeSent"
        ]

    def findings(self) -> list[str]:
        """The findings of axe-core: whatever in the page somebody could not use."""
        if not self.script("return 'axe' in window"):
            self.script((npm_packages(AXE) / "node_modules/axe-core/axe.min.js").read_text())
        found: list[str] = self._call("POST", "/execute/async", {"script": _RUN_AXE, "args": []})
        return found

    def end(self) -> None:
        self._call("DELETE", "")

    def _devtools(self, command: str, parameters: Mapping[str, Any]) -> Any:
        asked = {"cmd": command, "params": parameters}
        return self._call("POST", "/goog/cdp/execute", asked)

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = Request(f"{self._url}{path}", data, headers, method=method)
        with urlopen(request, timeout=2 * _PATIENCE_S) as answer:
            return json.load(answer)["value"]


@contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser while the block lasts. Raises NotAvailableError if there is none here."""
    driver = require_program("chromedriver", "install Debian's chromium-driver")
    npm_packages(AXE)
    port = free_port()
    with subprocess.Popen([driver, f"--port={port}", "--silent"]) as process:
        try:
            wait_for_port(port, process)
            browser = Chromium(port)
            try:
                yield browser
            finally:
                browser.end()
        finally:
            process.terminate()


def foreign(urls: Iterable[str], base: str) -> list[str]:
    """Those of the addresses that lead elsewhere."""
    return [url for url in urls if not url.startswith((base, "data:", "about:"))]
