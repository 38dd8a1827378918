"""A forward proxy on loopback that writes down what goes through it, and can refuse to let it."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, ClassVar
from urllib.parse import urlsplit

from tests.hub_server.server import _Listener

_HOP = {"proxy-connection", "proxy-authorization", "connection", "keep-alive", "transfer-encoding"}


class _Handler(BaseHTTPRequestHandler):
    proxy: ClassVar[ForwardProxy]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_CONNECT(self) -> None:
        self.proxy.seen.append(self.path)
        self._refuse(self.proxy.refusal or 403)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.proxy.seen.append(self.path)
        if self.proxy.refusal and self.proxy.refused_part in self.path:
            self._refuse(self.proxy.refusal)
            return
        parts = urlsplit(self.path)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        behind = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=20)
        try:
            behind.request(self.command, f"{parts.path}?{parts.query}".rstrip("?"), headers=headers)
            answer = behind.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP | {"server", "date"}:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while data := answer.read(1 << 16):
                self.wfile.write(data)
        finally:
            behind.close()
            self.close_connection = True

    def _refuse(self, status: int) -> None:
        self.send_response(status)
        if status == 407:
            self.send_header("Proxy-Authenticate", 'Basic realm="test"')
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True


class ForwardProxy:
    """``with ForwardProxy() as proxy:`` then set HTTP_PROXY to ``proxy.url``."""

    def __init__(self, refusal: int = 0, refused_part: str = "") -> None:
        """``refusal`` is the status for requests whose address holds ``refused_part``; 0 lets all through."""
        self.refusal = refusal
        self.refused_part = refused_part
        self.seen: list[str] = []
        """Addresses asked for, in order; ``host:port`` for a tunnel."""
        self._listener = _Listener(("127.0.0.1", 0), type("Proxy", (_Handler,), {"proxy": self}))
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.02,), name="test-proxy", daemon=True
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def __enter__(self) -> ForwardProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join(5)
