"""Command-line options and output that several commands share."""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from twinlog.config import Config
from twinlog.errors import ConfigError
from twinlog.http.options import HttpOptions
from twinlog.runtime.flow_choice import is_named
from twinlog.text import visible

CONFIG = click.argument("paths", metavar="CONFIG...", nargs=-1, required=True)
FLOW = click.option("--flow", metavar="SOURCE->TARGET", help="Only this flow (quote it, because of the >).")
JSON = click.option("--json", "as_json", is_flag=True, help="Output JSON.")
SECRETS = click.option(
    "--secrets", metavar="DIR", type=click.Path(path_type=Path), help="Mounted Kubernetes secrets: DIR/<secret>/<key>."
)


def http_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of the HTTP port, which the command gets as one argument `http`."""

    @functools.wraps(command)
    def with_http(
        *,
        tls_cert: Path | None,
        tls_key: Path | None,
        tls_client_ca: Path | None,
        auth_file: Path | None,
        insecure_http: bool,
        allowed_hosts: tuple[str, ...],
        **others: object,
    ) -> None:
        http = HttpOptions(
            certificate=tls_cert,
            key=tls_key,
            client_ca=tls_client_ca,
            users=auth_file,
            insecure=insecure_http,
            hosts=allowed_hosts,
        )
        command(http=http, **others)

    file = click.Path(path_type=Path)
    decorated: Callable[..., None] = with_http
    for option in (
        click.option(
            "--auth-file",
            metavar="FILE",
            type=file,
            help="Require authentication by the users in FILE (see twinlog hash-password).",
        ),
        click.option(
            "--insecure-http", is_flag=True, help="Allow authentication without TLS: passwords are sent in plain text."
        ),
        click.option(
            "--allowed-host",
            "allowed_hosts",
            metavar="NAME",
            multiple=True,
            help="Another name of this server, accepted in Host headers; * accepts any. Repeatable.",
        ),
        click.option(
            "--tls-client-ca", metavar="PEM", type=file, help="Require client certificates issued by these CAs (mTLS)."
        ),
        click.option("--tls-key", metavar="PEM", type=file, help="The private key, if not in the file of --tls-cert."),
        click.option("--tls-cert", metavar="PEM", type=file, help="Serve HTTPS with this certificate."),
    ):
        decorated = option(decorated)
    return decorated


def only_flow(config: Config, wanted: str | None) -> Config:
    """The configuration with this flow only; with all of them if `wanted` is None."""
    if wanted is None:
        return config
    flows = tuple(flow for flow in config.flows if is_named(flow, wanted))
    if not flows:
        known = ", ".join(str(flow) for flow in config.flows) or "none"
        raise ConfigError(f"--flow {wanted}: no such flow in {', '.join(config.files)}; configured: {known}")
    return Config(config.files, config.clusters, flows, config.problems)


def output(text: str, *, exact: bool = False) -> None:
    """A reader that stops early, as in `twinlog ... | head`, is not an error. `exact`: unescaped, for a program."""
    try:
        print(text if exact else visible(text), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
