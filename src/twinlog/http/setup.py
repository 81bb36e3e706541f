"""Builds the HTTP server of `twinlog serve` and `twinlog run --port` from the command-line options."""

import os
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from twinlog.config.flows import FlowConfig
from twinlog.connect.worker_api import Worker
from twinlog.errors import ConfigError
from twinlog.http import app
from twinlog.http.options import HttpOptions
from twinlog.http.server import Server, is_loopback, tls_context
from twinlog.http.users import read_users
from twinlog.inspect.clusters import plan_flows
from twinlog.inspect.plan_json import as_json
from twinlog.status.flow_board import FlowBoard


def server(
    worker: Worker,
    board: FlowBoard,
    plan: Callable[[], str] | None,
    options: HttpOptions,
    *,
    tls: ssl.SSLContext | None = None,
    mask: str = "true",
    advertised: str = "",
    file_users: Path | None = None,
    admin: bool = True,
) -> Server:
    """Binds the port; call `start` (or use `with`) to serve.

    `tls`, `mask` (see `masks`), `advertised` (the host name), `file_users` (see connect/rest_extensions.py) and `admin`
    (whether `/admin` is served) come from the worker file; the command-line options take precedence.
    """
    users = None
    if options.users:
        users = read_users(options.users)
    elif file_users:
        users = read_users(file_users, of_connect=True)
    context = _tls(options) or tls
    local = is_loopback(options.host)
    if users is not None and context is None and not local and not options.insecure:
        raise ConfigError(
            f"logins on {options.host} without TLS: passwords would be sent in plain text; set --tls-cert, or "
            "--insecure-http if a proxy in front of this port terminates TLS"
        )
    built = app.build(
        worker,
        board,
        plan,
        local=local,
        users=users,
        hosts=[*options.hosts, options.host, *([advertised] if advertised else [])],
        mask=masks(mask, local=local, login=users is not None or is_mutual(context)),
        admin=admin,
    )
    health_file = os.environ.get("TWINLOG_HEALTH_FILE")  # set by the image: see docker/health
    return Server(
        built,
        host=options.host,
        port=options.port,
        tls=context,
        health_file=Path(health_file) if health_file else None,
    )


def _tls(options: HttpOptions) -> ssl.SSLContext | None:
    if options.certificate is None:
        if options.key is not None:
            raise ConfigError("--tls-key requires --tls-cert")
        if options.client_ca is not None:
            raise ConfigError("--tls-client-ca requires --tls-cert")
        return None
    return tls_context(options.certificate, options.key, options.client_ca)


def is_mutual(context: ssl.SSLContext | None) -> bool:
    """Whether clients must present a certificate (mTLS)."""
    return context is not None and context.verify_mode is ssl.CERT_REQUIRED


def masks(setting: str, *, local: bool, login: bool) -> bool:
    """Whether `twinlog.rest.mask.secrets` masks secrets. auto: only on a non-loopback address without a login."""
    if (chosen := setting.strip().lower()) in {"true", "false"}:
        return chosen == "true"
    return not local and not login


def unauthenticated_warning(host: str, *, login: bool) -> str:
    """A warning if other machines can use the REST API without a login; empty otherwise."""
    if is_loopback(host) or login:
        return ""
    return f"REST API on {host} is unauthenticated: any client can change connectors; use --auth-file"


def plan_json(flows: Sequence[FlowConfig]) -> str:
    """The output of `twinlog plan --json` for these flows; takes seconds."""
    return as_json(plan_flows(flows, flows, lambda _step: None))
