"""An issuer of tokens: keys, tokens signed by them, and a web server on this machine that gives
both, and can misbehave.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

NAME, AUDIENCE = "https://issuer.example", "kafka"


class Issuer:
    """`asked` are the requests so far, as method and path; `forms` what was posted."""

    def __init__(self) -> None:
        self._keys = {"first": ec.generate_private_key(ec.SECP256R1())}
        self.kid = "first"
        self.secrets = {"ann": "ann+secret/%"}
        self.lifetime_s = 300.0
        self.asked: list[str] = []
        self.forms: list[dict[str, list[str]]] = []
        self.failing: tuple[int, bytes] | None = None  # a status and what comes with it
        self.answering = threading.Event()  # while it is not set, nobody gets an answer
        self.answering.set()

    def change_key(self, kid: str) -> None:
        self._keys[kid] = ec.generate_private_key(ec.SECP256R1())
        self.kid = kid

    def key_set(self) -> bytes:
        to_jwk = jwt.get_algorithm_by_name("ES256").to_jwk
        keys = [
            {**to_jwk(key.public_key(), as_dict=True), "kid": kid}
            for kid, key in self._keys.items()
        ]
        return json.dumps({"keys": keys}).encode()

    def token(self, user: str = "ann", **claims: Any) -> str:
        now_s = time.time()
        whole = {
            "iss": NAME, "aud": AUDIENCE, "sub": user, "iat": now_s, "exp": now_s + self.lifetime_s,
            **claims,
        }  # fmt: skip
        key = self._keys[self.kid]
        return jwt.encode(whole, key, algorithm="ES256", headers={"kid": self.kid})

    def answer(self, handler: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        """Answer a request for keys, or one for a token by the grant of client credentials."""
        self.asked.append(f"{handler.command} {handler.path}")
        form = handler.rfile.read(int(handler.headers.get("Content-Length", 0))).decode()
        self.answering.wait()
        if self.failing is not None:
            return self.failing
        if handler.command == "GET":
            return 200, self.key_set()
        self.forms.append(parse_qs(form))
        known = {
            f"Basic {b64encode(f'{name}:{secret}'.encode()).decode()}": name
            for name, secret in self.secrets.items()
        }
        user = known.get(handler.headers.get("Authorization", ""))
        if user is None or self.forms[-1].get("grant_type") != ["client_credentials"]:
            return 401, b'{"error": "invalid_client", "error_description": "who are you?"}'
        answer = {"access_token": self.token(user), "token_type": "Bearer", "expires_in": 300}
        return 200, json.dumps(answer).encode()


@contextmanager
def served(issuer: Issuer, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Yield the address of its web server, which answers to any path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = issuer.answer(self)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815  http.server's name

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    finally:
        issuer.answering.set()
        server.shutdown()
        thread.join()
        server.server_close()
