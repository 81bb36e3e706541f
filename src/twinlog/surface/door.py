"""The HTTP server of `twinlog serve` and of `twinlog run --port`: all that is served, put together by options."""

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinlog.config.flows import FlowConfig
from twinlog.connect.api import Worker
from twinlog.errors import ConfigError
from twinlog.status.board import Board
from twinlog.surface.http import app
from twinlog.surface.http.guard import read_users
from twinlog.surface.http.server import Server, is_loopback, tls_context
from twinlog.surface.plan import as_json
from twinlog.topology.plan import make, without_loops
from twinlog.upkeep.look import look


@dataclass(frozen=True, slots=True)
class Lock:
    """What the operator's options say about who may come in, and how."""

    certificate: Path | None = None
    key: Path | None = None
    users: Path | None = None

    def tls(self) -> ssl.SSLContext | None:
        if self.certificate is None:
            if self.key is not None:
                raise ConfigError("--tls-key is given without --tls-cert: give both")
            return None
        return tls_context(self.certificate, self.key)


def server(
    worker: Worker,
    board: Board,
    plan: Callable[[], str] | None,
    *,
    host: str,
    port: int,
    lock: Lock,
    tls: ssl.SSLContext | None = None,
) -> Server:
    """It is bound, and does not serve yet. `tls` is what a worker's file says; the options win."""
    users = read_users(lock.users) if lock.users else None
    built = app.build(worker, board, plan, local=is_loopback(host), users=users)
    return Server(built, host=host, port=port, tls=lock.tls() or tls)


def open_to_all(host: str, lock: Lock) -> str:
    """A line for an operator who lets others in without a password; empty if it is not so."""
    if is_loopback(host) or lock.users is not None:
        return ""
    return f"whoever reaches {host} can change connectors: --auth-file asks for a password"


def plan_json(flows: Sequence[FlowConfig]) -> str:
    """What the flows would do, as `twinlog plan --json` has it; takes seconds."""
    seen = [(flow, look(flow, lambda _step: None)) for flow in flows]
    ids = {cluster.alias: cluster.id for _, sight in seen for cluster in (sight.source, sight.target) if cluster.id}
    return as_json([without_loops(make(flow, sight), flows, ids) for flow, sight in seen])
