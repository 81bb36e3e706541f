"""The commands that run flows: `run` and `serve`; and `hash-password`, for the users of their HTTP port."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from twinlog.cli.options import CONFIG, SECRETS, http_options, output
from twinlog.http.options import HttpOptions

_MASTER = click.option(
    "--master", metavar="URL", help="Spark master: spark://host:7077, yarn, k8s://... (default: embedded)."
)
_CONF = click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A Spark setting. Repeatable.")
_LOG_FORMAT = click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="Format of the log (default: text)."
)


@click.command(short_help="Run all enabled flows.")
@CONFIG
@click.option("--once", is_flag=True, help="Copy the records that exist now, then exit.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Start even if the instance that runs a flow has itself just replaced another one.",
)
@click.option("--flow", "flows", metavar="SOURCE->TARGET", multiple=True, help="Only this flow. Repeatable.")
@click.option(
    "--clusters", metavar="ALIAS [ALIAS...]", multiple=True, help="Only flows into these clusters, as in MM2."
)
@_MASTER
@_CONF
@SECRETS
@click.option(
    "--port", metavar="PORT", type=click.IntRange(0, 65535), help="Serve the web UI, /metrics and the Connect REST API."
)
@click.option("--host", metavar="ADDRESS", help="Bind address (default: 127.0.0.1).")
@http_options
@_LOG_FORMAT
def run(
    paths: tuple[str, ...],
    once: bool,
    take_over: bool,
    flows: tuple[str, ...],
    clusters: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
    secrets: Path | None,
    port: int | None,
    host: str | None,
    http: HttpOptions,
    log_format: Literal["text", "json"],
) -> None:
    """Run every enabled flow of CONFIG until stopped (Ctrl-C, SIGTERM).

    With --port, a web UI shows the status, and the Connect REST API can query, pause and resume connectors. To create
    and change connectors by REST, use twinlog serve.

    Exit codes: 0 stopped, or everything copied (--once); 2 error in the configuration or command line; 1 any other
    error.
    """
    from twinlog.cli import run as runner  # noqa: PLC0415  # Spark takes a second to import; other commands skip it

    settings = _spark_settings(conf)
    if port is None and (host or http != HttpOptions()):
        raise click.UsageError("--host, --tls-*, --auth-file, --insecure-http and --allowed-host require --port")
    if "-" in paths:
        raise click.UsageError("CONFIG cannot be - here: Spark's processes must read the files, too")
    # As in MM2, several words may follow --clusters: those that are not files are aliases.
    words = [path for path in paths if clusters and not Path(path).exists()]
    if 0 < len(words) < len(paths):
        paths, clusters = tuple(path for path in paths if path not in words), (*clusters, *words)
    aliases = [alias for text in clusters for alias in text.replace(",", " ").split()]
    runner.run(
        paths,
        flows=flows,
        clusters=aliases,
        once=once,
        master=master,
        secrets=secrets,
        conf=settings,
        http=None if port is None else replace(http, host=host or http.host, port=port),
        take_over=take_over,
        log_format=log_format,
    )


@click.command(short_help="Serve the Connect REST API and run its connectors.")
@click.argument("worker", metavar="[WORKER.properties]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Port of the REST API and the web UI (default: the file's, or 8083).",
)
@click.option("--host", metavar="ADDRESS", help="Bind address (default: the file's listeners, or 127.0.0.1).")
@click.option(
    "--bootstrap-servers", metavar="HOST:PORT,...", help="The cluster of the worker's topics; overrides the file."
)
@_MASTER
@click.option(
    "--plugin",
    "plugins",
    metavar="MODULE:CLASS",
    multiple=True,
    help="A Python class that connectors may use as policy, filter or admin. Repeatable.",
)
@_CONF
@http_options
@_LOG_FORMAT
def serve(
    worker: Path | None,
    port: int | None,
    host: str | None,
    bootstrap_servers: str | None,
    plugins: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
    http: HttpOptions,
    log_format: Literal["text", "json"],
) -> None:
    """Serve Kafka Connect's REST API for MM2's connectors, and run them.

    WORKER.properties is a Connect worker file (connect-distributed.properties). Connectors are stored in its config
    topic in Connect's format, so those of a stopped Connect cluster continue here, and vice versa. Only one instance
    runs at a time: a second twinlog serve with the same group takes the connectors over.

    Exit codes: 0 stopped; 2 error in the configuration or command line; 1 any other error.
    """
    from twinlog.cli import serve as server  # noqa: PLC0415  # Spark and HTTP take a second to import

    server.serve(
        worker,
        bootstrap=bootstrap_servers,
        host=host,
        port=port,
        master=master,
        conf=_spark_settings(conf),
        plugins=plugins,
        http=http,
        log_format=log_format,
    )


@click.command("hash-password", short_help="Print a line for --auth-file.")
@click.argument("user")
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator"]),
    default="operator",
    help="Permissions of the user (default: operator).",
)
def hash_password(user: str, role: Literal["viewer", "operator"]) -> None:
    """Print a line for --auth-file: USER with a hashed password, from a prompt or standard input.

    A viewer can see the web UI, metrics and status, without secrets; an operator can also change connectors.
    """
    from twinlog.http.users import line_of  # noqa: PLC0415

    if not user or ":" in user:
        raise click.UsageError("USER must not be empty or contain a colon (HTTP Basic authentication)")
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("empty password: enter one, or pass it on standard input")
    output(line_of(user, password, role))


def _spark_settings(conf: tuple[str, ...]) -> dict[str, str]:
    settings = dict(each.partition("=")[::2] for each in conf)
    if "" in settings or not all("=" in each for each in conf):
        raise click.UsageError("--conf must be KEY=VALUE, such as spark.ui.enabled=true")
    return settings
