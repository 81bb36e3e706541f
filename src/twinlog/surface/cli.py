"""The command `twinlog`. Commands fetch data and print it; its look is made in the other modules of this room."""

import io
import os
import sys
from pathlib import Path

import click

import twinlog
from twinlog.config import Config, InvalidConfigError, load
from twinlog.errors import ConfigError, TwinlogError
from twinlog.surface import config_show


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(twinlog.__version__, prog_name="twinlog")
def cli() -> None:
    """Twinlog keeps a Kafka cluster's twin: replication that reads MirrorMaker 2's configuration."""


@cli.group()
def config() -> None:
    """Look at a configuration: mm2.properties, Connect JSON, or Strimzi's KafkaMirrorMaker2."""


@config.command()
@click.argument("paths", metavar="CONFIG...", nargs=-1, required=True)
@click.option("--flow", metavar="SOURCE->TARGET", help="Only this flow (quote it: your shell knows > too).")
@click.option("--set", "only_set", is_flag=True, help="Only what the files set, without the defaults.")
@click.option("--json", "as_json", is_flag=True, help="For scripts; mistakes and warnings are in it too.")
@click.option(
    "--secrets", metavar="DIR", type=click.Path(path_type=Path), help="Mounted Kubernetes secrets: DIR/<secret>/<key>."
)
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
@click.argument("paths", metavar="CONFIG...", nargs=-1, required=True)
@click.option("--once", is_flag=True, help="Copy what is there now, then exit.")
@click.option("--flow", "flows", metavar="SOURCE->TARGET", multiple=True, help="Only this flow; may be repeated.")
@click.option("--clusters", metavar="ALIAS[,ALIAS...]", multiple=True, help="Only flows into these clusters, as MM2's.")
@click.option(
    "--master", metavar="URL", help="Where Spark runs: spark://host:7077, yarn, k8s://... (default: embedded)."
)
@click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A setting for Spark; may be repeated.")
@click.option(
    "--secrets", metavar="DIR", type=click.Path(path_type=Path), help="Mounted Kubernetes secrets: DIR/<secret>/<key>."
)
def run(
    paths: tuple[str, ...],
    once: bool,
    flows: tuple[str, ...],
    clusters: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
    secrets: Path | None,
) -> None:
    """Replicate: run every enabled flow of CONFIG until it is stopped (Ctrl-C, SIGTERM).

    Exit codes: 0 stopped, or all copied (--once); 2 the configuration or the call is wrong; 1 anything else.
    """
    from twinlog.surface import run as runner  # noqa: PLC0415  # Spark takes a second to import; other commands need it not

    settings = dict(each.partition("=")[::2] for each in conf)
    if "" in settings or not all("=" in each for each in conf):
        raise click.UsageError("--conf takes KEY=VALUE, such as spark.ui.enabled=true")
    if "-" in paths:
        raise click.UsageError("twinlog run reads its configuration from files: Spark's processes must read it, too")
    aliases = [alias for text in clusters for alias in text.replace(",", " ").split()]
    runner.run(paths, flows=flows, clusters=aliases, once=once, master=master, secrets=secrets, conf=settings)


@cli.group()
def offsets() -> None:
    """Consumer groups' offsets on the other cluster."""


@offsets.command()
@click.argument("paths", metavar="CONFIG...", nargs=-1, required=True)
@click.option("--from", "source", metavar="ALIAS", required=True, help="The cluster where the groups are now.")
@click.option("--to", "target", metavar="ALIAS", required=True, help="The cluster where they shall go on.")
@click.option("--group", metavar="GROUP", help="This group.")
@click.option("--group-pattern", "pattern", metavar="REGEX", help="Every group whose whole name matches.")
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(min=0), default=30.0, help="Default: 30.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@click.option(
    "--reset-command", "as_csv", is_flag=True, help="Lines for kafka-consumer-groups --reset-offsets --from-file."
)
@click.option(
    "--secrets", metavar="DIR", type=click.Path(path_type=Path), help="Mounted Kubernetes secrets: DIR/<secret>/<key>."
)
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
@click.argument("paths", metavar="CONFIG...", nargs=-1, required=True)
@click.option("--cluster", metavar="ALIAS", required=True, help="The cluster that is asked.")
@click.option("--from", "source", metavar="ALIAS", help="Read names as the flow from there writes them.")
@click.option("--json", "as_json", is_flag=True, help="For scripts; with the names of the remote topics.")
@click.option(
    "--secrets", metavar="DIR", type=click.Path(path_type=Path), help="Mounted Kubernetes secrets: DIR/<secret>/<key>."
)
def upstream(paths: tuple[str, ...], cluster: str, source: str | None, as_json: bool, secrets: Path | None) -> None:
    """From which clusters records arrive, over how many hops, and how old their newest heartbeats are."""
    from twinlog.surface import offsets as view  # noqa: PLC0415  # its clients take time to import

    found = view.upstreams(load(paths, secrets), cluster, source)
    _print(view.upstreams_as_json(found, cluster) if as_json else view.upstreams_as_text(found, cluster))


@cli.command()
@click.argument("paths", metavar="CONFIG...", nargs=-1, required=True)
@click.option("--flow", metavar="SOURCE->TARGET", help="Only this flow (quote it: your shell knows > too).")
@click.option("--json", "as_json", is_flag=True, help="For scripts; with every name.")
@click.option(
    "--secrets", metavar="DIR", type=click.Path(path_type=Path), help="Mounted Kubernetes secrets: DIR/<secret>/<key>."
)
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
@click.argument("paths", metavar="CONFIG...", nargs=-1, required=True)
@click.argument("name", metavar="TOPIC_OR_GROUP")
@click.option("--flow", metavar="SOURCE->TARGET", help="Only this flow (quote it: your shell knows > too).")
@click.option("--look", is_flag=True, help="Look at the clusters, too: what of that name there is.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@click.option(
    "--secrets", metavar="DIR", type=click.Path(path_type=Path), help="Mounted Kubernetes secrets: DIR/<secret>/<key>."
)
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
@click.argument("paths", metavar="CONFIG...", nargs=-1, required=True)
@click.option("--flow", metavar="SOURCE->TARGET", help="Only this flow (quote it: your shell knows > too).")
@click.option("--cluster", "clusters", metavar="ALIAS", multiple=True, help="Only this cluster; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@click.option(
    "--secrets", metavar="DIR", type=click.Path(path_type=Path), help="Mounted Kubernetes secrets: DIR/<secret>/<key>."
)
def doctor(
    paths: tuple[str, ...], flow: str | None, clusters: tuple[str, ...], as_json: bool, secrets: Path | None
) -> int:
    """Try each cluster from this machine, and say what is wrong, or would be, and what to do. Changes nothing.

    Names, connections, TLS, logins, versions, advertised listeners, clocks, permissions, and limits of the source
    against those of the target.

    Exit codes: 0 nothing is worse than a warning; 2 the configuration or the call is wrong; 1 anything else.
    """
    from twinlog.surface import doctor as view  # noqa: PLC0415  # its clients take time to import

    read = load(paths, secrets)
    found = view.doctor(read, read.flows if flow is None else _only(read, flow).flows, clusters)
    _print(view.as_json(found) if as_json else view.as_text(found))
    return view.exit_code(found)


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
