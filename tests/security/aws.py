"""A fake AWS on 127.0.0.1: STS, a container's agent, an instance metadata service."""

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

Reply = tuple[int, bytes]


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class FakeAws:
    """Answers by `METHOD path`, and keeps what it was asked."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply | Callable[[Asked], Reply]] = {}
        self.asked: list[Asked] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def _reply(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, body)
                fake.asked.append(asked)
                reply = fake.replies.get(f"{self.command} {self.path}", (404, b""))
                status, content = reply(asked) if callable(reply) else reply
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"{fake.url}/elsewhere")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self) -> None:
                self._reply()

            def do_POST(self) -> None:
                self._reply()

            def do_PUT(self) -> None:
                self._reply()

            def do_PATCH(self) -> None:
                self._reply()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def assumed(key_id: str, expiration: str = "2999-01-01T00:00:00Z", action: str = "AssumeRole") -> Reply:
    """As STS answers."""
    return 200, (
        f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><AssumedRoleUser>'
        f"<Arn>arn:aws:sts::1:assumed-role/r/s</Arn></AssumedRoleUser><Credentials><AccessKeyId>{key_id}</AccessKeyId>"
        f"<SecretAccessKey>{key_id}-secret&amp;</SecretAccessKey><SessionToken>{key_id}-token</SessionToken>"
        f"<Expiration>{expiration}</Expiration></Credentials></{action}Result></{action}Response>"
    ).encode()


def refused(code: str, message: str) -> bytes:
    return (
        f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
    ).encode()
