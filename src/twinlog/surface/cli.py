"""The command `twinlog`. Commands fetch data and print it; its look is made in the other modules of this room."""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import click

import twinlog
from twinlog.config import Config, InvalidConfigError, load
from twinlog.errors import ConfigError, TwinlogError
from twinlog.surface import config_show

# What several commands take.
_CONFIG = click.argument("paths", metavar="CONFIG...", nargs=-1, required=True)
_FLOW = click.option("--flow", metavar="SOURCE->TARGET", help="Only this flow (quote it: your shell knows > too).")
_JSON = click.option("--json", "as_json", is_flag=True, help="For scripts.")
_SECRETS = click.option(
    "--secrets", metavar="DIR", type=click.Path(path_type=Path), help="Mounted Kubernetes secrets: DIR/<secret>/<key>."
)
_CONF = click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A setting for Spark; may be repeated.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(twinlog.__version__, prog_name="twinlog")
def cli() -> None:
    """Twinlog keeps a Kafka cluster's twin: replication that reads MirrorMaker 2's configuration."""


def _door_options(command: Callable[..., None]) -> Callable[..., None]:
    """What `run` and `serve` have in common: who may come in, and how it is told what happens."""
    file = click.Path(path_type=Path)
    for option in (
        click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="Lines, or JSON."),
        click.option("--auth-file", metavar="FILE", type=file, help="Ask for a password: lines of user: password."),
        click.option("--tls-key", metavar="PEM", type=file, help="Its private key, if that is in another file."),
        click.option("--tls-cert", metavar="PEM", type=file, help="Serve https, by this certificate."),
    ):
        command = option(command)
    return command


@cli.group()
def config() -> None:
    """Look at a configuration: mm2.properties, Connect JSON, or Strimzi's KafkaMirrorMaker2."""


@config.command()
@_CONFIG
@_FLOW
@click.option("--set", "only_set", is_flag=True, help="Only what the files set, without the defaults.")
@click.option("--json", "as_json", is_flag=True, help="For scripts; mistakes and warnings are in it too.")
@_SECRETS
def show(paths: tuple[str, ...], flow: str | None, only_set: bool, as_json: bool, secrets: Path | None) -> None:
    """Every effective setting of each flow, and where it came from.

    CONFIG is one mm2.properties, one or more Strimzi YAML files, or the JSON files of MM2's connectors (or a folder of
    them, with the Connect worker's .properties beside them if there is one); - reads standard input. Secrets are never
    shown.

    Exit codes: 0 it can be run, 2 it has mistakes (all are listed) or the call was wrong, 1 anything else.
    """
    try:
        read = load(paths, secrets)
    except InvalidConfigError as error:
        if as_json:
            _print(config_show.problems_as_json(error.problems))
        raise
    if flow is not None:
        read = _only(read, flow)
    _print(config_show.as_json(read) if as_json else config_show.as_text(read, defaults=not only_set))


@cli.command()
@_CONFIG
@click.option("--once", is_flag=True, help="Copy what is there now, then exit.")
@click.option("--flow", "flows", metavar="SOURCE->TARGET", multiple=True, help="Only this flow; may be repeated.")
@click.option("--clusters", metavar="ALIAS[,ALIAS...]", multiple=True, help="Only flows into these clusters, as MM2's.")
@click.option(
    "--master", metavar="URL", help="Where Spark runs: spark://host:7077, yarn, k8s://... (default: embedded)."
)
@_CONF
@_SECRETS
@click.option("--port", type=click.IntRange(0, 65535), help="Serve a page, /metrics and Connect's API here.")
@click.option("--host", help="Where; only this machine is served if it is not given.")
@_door_options
def run(
    paths: tuple[str, ...],
    once: bool,
    flows: tuple[str, ...],
    clusters: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
    secrets: Path | None,
    port: int | None,
    host: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    auth_file: Path | None,
    log_format: Literal["text", "json"],
) -> None:
    """Replicate: run every enabled flow of CONFIG until it is stopped (Ctrl-C, SIGTERM).

    With --port a page shows how it goes, and Kafka Connect's API can look and pause; to make and change connectors by
    that API, use twinlog serve.

    Exit codes: 0 stopped, or all copied (--once); 2 the configuration or the call is wrong; 1 anything else.
    """
    from twinlog.surface import run as runner  # noqa: PLC0415  # Spark takes a second to import; other commands need it not

    settings = _spark_settings(conf)
    if port is None and (host or tls_cert or tls_key or auth_file):
        raise click.UsageError(
            "--host, --tls-cert, --tls-key and --auth-file are about what --port serves: give it, too"
        )
    if "-" in paths:
        raise click.UsageError("twinlog run reads its configuration from files: Spark's processes must read it, too")
    aliases = [alias for text in clusters for alias in text.replace(",", " ").split()]
    door = None if port is None else runner.Door(port, host or "127.0.0.1", tls_cert, tls_key, auth_file)
    runner.run(
        paths,
        flows=flows,
        clusters=aliases,
        once=once,
        master=master,
        secrets=secrets,
        conf=settings,
        door=door,
        log_format=log_format,
    )


@cli.command()
@click.argument("worker", metavar="[WORKER.properties]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Where Connect's API is served (default: the file's, 8083)."
)
@click.option(
    "--host", help="On which address; only this machine is served if neither this nor the file's listeners say more."
)
@click.option(
    "--bootstrap-servers", metavar="HOST:PORT,...", help="The cluster of the worker's topics; beats the file's."
)
@click.option(
    "--master", metavar="URL", help="Where Spark runs: spark://host:7077, yarn, k8s://... (default: embedded)."
)
@_CONF
@_door_options
def serve(
    worker: Path | None,
    port: int | None,
    host: str | None,
    bootstrap_servers: str | None,
    master: str | None,
    conf: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    auth_file: Path | None,
    log_format: Literal["text", "json"],
) -> None:
    """Serve Kafka Connect's REST API for MM2's connectors, and run those that it is given.

    WORKER.properties is a Connect worker's file (connect-distributed.properties). Connectors are kept in its config
    topic, as Connect keeps them: those of a Connect cluster that was stopped go on here, and back. One place at a
    time: a second twinlog serve with the same group takes the connectors over from the first.

    Exit codes: 0 stopped; 2 the configuration or the call is wrong; 1 anything else.
    """
    from twinlog.surface import door  # noqa: PLC0415  # Spark and HTTP take a second to import
    from twinlog.surface import serve as server  # noqa: PLC0415

    server.serve(
        worker,
        bootstrap=bootstrap_servers,
        host=host,
        port=port,
        master=master,
        conf=_spark_settings(conf),
        lock=door.Lock(tls_cert, tls_key, auth_file),
        log_format=log_format,
    )


def _spark_settings(conf: tuple[str, ...]) -> dict[str, str]:
    settings = dict(each.partition("=")[::2] for each in conf)
    if "" in settings or not all("=" in each for each in conf):
        raise click.UsageError("--conf takes KEY=VALUE, such as spark.ui.enabled=true")
    return settings


@cli.group()
def offsets() -> None:
    """Consumer groups' offsets on the other cluster."""


@offsets.command()
@_CONFIG
@click.option("--from", "source", metavar="ALIAS", required=True, help="The cluster where the groups are now.")
@click.option("--to", "target", metavar="ALIAS", required=True, help="The cluster where they shall go on.")
@click.option("--group", metavar="GROUP", help="This group.")
@click.option("--group-pattern", "pattern", metavar="REGEX", help="Every group whose whole name matches.")
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(min=0), default=30.0, help="Default: 30.")
@_JSON
@click.option(
    "--reset-command", "as_csv", is_flag=True, help="Lines for kafka-consumer-groups --reset-offsets --from-file."
)
@_SECRETS
def translate(
    paths: tuple[str, ...],
    source: str,
    target: str,
    group: str | None,
    pattern: str | None,
    timeout: float,
    as_json: bool,
    as_csv: bool,
    secrets: Path | None,
) -> None:
    """Where groups of one cluster go on in the other, by its newest checkpoints. Nothing is changed.

    Exit codes: 0 at least one group is known; 2 the configuration or the call is wrong; 1 anything else.
    """
    if (group is None) == (pattern is None):
        raise click.UsageError("give one of --group and --group-pattern")
    if as_csv and (as_json or group is None):
        raise click.UsageError("--reset-command is for one --group, without --json")
    from twinlog.surface import offsets as view  # noqa: PLC0415  # its clients take time to import

    found = view.translate(load(paths, secrets), source, target, group=group, pattern=pattern, timeout=timeout)
    if as_csv:
        _print(view.as_csv(found, group or ""))
    else:
        _print(view.as_json(found, source, target) if as_json else view.as_text(found))


@cli.command()
@_CONFIG
@click.option("--cluster", metavar="ALIAS", required=True, help="The cluster that is asked.")
@click.option("--from", "source", metavar="ALIAS", help="Read names as the flow from there writes them.")
@click.option("--json", "as_json", is_flag=True, help="For scripts; with the names of the remote topics.")
@_SECRETS
def upstream(paths: tuple[str, ...], cluster: str, source: str | None, as_json: bool, secrets: Path | None) -> None:
    """From which clusters records arrive, over how many hops, and how old their newest heartbeats are."""
    from twinlog.surface import offsets as view  # noqa: PLC0415  # its clients take time to import

    found = view.upstreams(load(paths, secrets), cluster, source)
    _print(view.upstreams_as_json(found, cluster) if as_json else view.upstreams_as_text(found, cluster))


@cli.command()
@_CONFIG
@_FLOW
@click.option("--json", "as_json", is_flag=True, help="For scripts; with every name.")
@_SECRETS
def plan(paths: tuple[str, ...], flow: str | None, as_json: bool, secrets: Path | None) -> None:
    """What `twinlog run` would create, copy, change and grant, and which permissions are missing. Changes nothing.

    Both clusters of every flow are looked at. What one flow has yet to create is not seen by the next one.

    Exit codes: 0 looked at, whatever was found; 2 the configuration or the call is wrong; 1 anything else.
    """
    from twinlog.surface import plan as view  # noqa: PLC0415  # its clients take time to import

    read = load(paths, secrets)
    planned = view.plan(read, read.flows if flow is None else _only(read, flow).flows)
    _print(view.as_json(planned) if as_json else view.as_text(planned))


@cli.command()
@_CONFIG
@click.argument("name", metavar="TOPIC_OR_GROUP")
@_FLOW
@click.option("--look", is_flag=True, help="Look at the clusters, too: what of that name there is.")
@_JSON
@_SECRETS
def why(paths: tuple[str, ...], name: str, flow: str | None, look: bool, as_json: bool, secrets: Path | None) -> None:
    """Which rule decides that a topic, or a consumer group, is replicated or not, and under which name.

    For each flow the name is taken for that of a topic of the source, of a remote topic on the target, and of a group.
    No cluster is asked, unless --look says so.

    Exit codes: 0 answered; 2 the configuration or the call is wrong; 1 anything else.
    """
    from twinlog.surface import why as view  # noqa: PLC0415  # its clients take time to import

    if not name:
        raise click.UsageError("an empty name is no topic and no group: is a variable not set?")
    read = load(paths, secrets)
    found = view.why(read if flow is None else _only(read, flow), name, look=look)
    _print(view.as_json(name, found) if as_json else view.as_text(name, found))


@cli.command()
@_CONFIG
@_FLOW
@click.option("--cluster", "clusters", metavar="ALIAS", multiple=True, help="Only this cluster; may be repeated.")
@click.option("--log", metavar="FILE", type=click.Path(path_type=Path), help="Explain what stands in MM2's log, too.")
@_JSON
@_SECRETS
def doctor(
    paths: tuple[str, ...],
    flow: str | None,
    clusters: tuple[str, ...],
    log: Path | None,
    as_json: bool,
    secrets: Path | None,
) -> int:
    """Try each cluster from this machine, and say what is wrong, or would be, and what to do. Changes nothing.

    Names, connections, TLS, logins, versions, advertised listeners, clocks, permissions, and limits of the source
    against those of the target.

    Exit codes: 0 nothing is worse than a warning; 2 the configuration or the call is wrong; 1 anything else.
    """
    from twinlog.surface import doctor as view  # noqa: PLC0415  # its clients take time to import

    read = load(paths, secrets)
    found = view.doctor(read, read.flows if flow is None else _only(read, flow).flows, clusters, log)
    _print(view.as_json(found) if as_json else view.as_text(found))
    return view.exit_code(found)


@cli.command()
@_CONFIG
@_FLOW
@click.option("--topic", metavar="NAME", help="The partitions of this topic, with their offsets on both sides.")
@click.option("--topics", is_flag=True, help="Every topic, not only those that have not caught up.")
@click.option("--groups", is_flag=True, help="Where consumer groups stand on both sides, and their checkpoints.")
@click.option("--watch", is_flag=True, help="Again and again, about once a second, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="For scripts; with --watch one document per line.")
@click.option(
    "--max-lag-seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=60.0,
    help="More than this behind is lagging. Default: 60.",
)
@_SECRETS
def status(
    paths: tuple[str, ...],
    flow: str | None,
    topic: str | None,
    topics: bool,
    groups: bool,
    watch: bool,
    as_json: bool,
    max_lag_seconds: float,
    secrets: Path | None,
) -> int:
    """Have we caught up? How each flow is, from any machine that reaches its clusters. Changes nothing.

    What runs is told by its journal on the target, about a second late. Where nobody runs a flow, both clusters are
    looked at, to tell what waits to be copied.

    Exit codes: 0 healthy, 3 lagging (more than --max-lag-seconds behind), 4 broken (not run, stopped, or it will not
    get better by itself); the worst of all flows counts. 2 the configuration or the call is wrong; 1 anything else.
    """
    from twinlog.surface import status as view  # noqa: PLC0415  # its clients take time to import

    read = load(paths, secrets)
    wanted = view.chosen(read, read.flows if flow is None else _only(read, flow).flows)
    shown = view.View(max_lag_seconds, topic, topics, groups, paths)
    if watch:
        return view.watch(wanted, shown, as_lines=as_json)
    found = view.look(wanted, shown)
    _print(view.as_json(found, shown) if as_json else view.as_text(found, shown))
    return view.exit_code(found, shown)


def _only(config: Config, wanted: str) -> Config:
    flows = tuple(flow for flow in config.flows if wanted.replace(" ", "") in (str(flow.flow), str(flow)))
    if not flows:
        known = ", ".join(str(flow) for flow in config.flows) or "none"
        raise ConfigError(f"--flow {wanted}: no such flow in {', '.join(config.files)}; there is: {known}")
    return Config(config.files, config.clusters, flows, config.problems)


def _print(text: str) -> None:
    """Prints it; a reader that stops early, as in `twinlog ... | head`, is no mistake."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Any error that an operator can mend ends in one line and an exit code, never in a stack trace."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # half a character in a value must not end the report
    try:
        if code := cli(standalone_mode=False):  # what the command returns, or the code of an Exit
            sys.exit(code)
    except InvalidConfigError as error:
        for problem in error.problems:
            click.echo(str(problem), err=True)
        mistakes = sum(problem.level == "error" for problem in error.problems)
        click.echo(
            f"twinlog: {mistakes} mistake{'s' if mistakes > 1 else ''} in the configuration",
            err=True,
        )
        sys.exit(error.exit_code)
    except TwinlogError as error:
        click.echo(f"twinlog: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except (OSError, UnicodeDecodeError) as error:
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        click.echo(f"twinlog: {where}{getattr(error, 'strerror', None) or error}", err=True)
        sys.exit(1)
