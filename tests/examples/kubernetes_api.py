"""A fake Kubernetes API server that accepts and records all requests, for a real Spark driver with a Kubernetes master.

python kubernetes_api.py FOLDER SETTINGS.json      prints a list of (method, path, body) as JSON
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from twinlog.spark import session

DRIVER = "twinlog-0"
NAMESPACE = "twinlog"
UID = "11111111-1111-1111-1111-111111111111"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": DRIVER, "namespace": NAMESPACE, "uid": UID},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}

requests: list[tuple[str, str, Any]] = []


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Disabled: standard output is the result."""

    def do_GET(self) -> None:
        requests.append(("watch" if "watch=true" in self.path else self._read_verb(), self.path, None))
        if "watch=true" in self.path:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            time.sleep(20)
            self.wfile.write(b"0\r\n\r\n")
        elif self.path.endswith(f"/pods/{DRIVER}"):
            self._respond(POD)
        else:
            items = [POD] if DRIVER in self.path else []
            self._respond({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": items})

    def do_POST(self) -> None:
        body = self._body()
        requests.append(("create", self.path, body))
        self._respond({**body, "metadata": {**body["metadata"], "uid": UID}}, 201)

    def do_DELETE(self) -> None:
        self._body()
        requests.append(("deletecollection" if "?" in self.path else "delete", self.path, None))
        self._respond({"kind": "Status", "status": "Success"})

    def do_PATCH(self) -> None:
        body = self._body()
        requests.append(("patch", self.path, None))
        self._respond(body)

    def _read_verb(self) -> str:
        return "list" if "?" in self.path or self.path.endswith("s") else "get"

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    def _respond(self, body: Any, status: int = 200) -> None:
        data = json.dumps({"apiVersion": "v1", **body}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    folder, settings = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    spark = session.start(f"k8s://http://127.0.0.1:{server.server_port}", 2, folder, settings)
    executors = int(settings["spark.executor.instances"])
    deadline = time.monotonic() + 60
    while sum(path.endswith("/pods") for verb, path, _ in requests if verb == "create") < executors:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    session.stop(spark)
    sys.stdout.write(json.dumps(requests))


if __name__ == "__main__":
    main()
