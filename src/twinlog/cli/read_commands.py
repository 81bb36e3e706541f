"""The read-only commands: they query clusters, topics and files, and print what they find."""

import sys
from pathlib import Path

import click

from twinlog.cli import config_show
from twinlog.cli.options import CONFIG, FLOW, JSON, SECRETS, only_flow, output
from twinlog.config import InvalidConfigError, load


@click.group(short_help="Show and check a configuration.")
def config() -> None:
    """Show and check a configuration: mm2.properties, Connect JSON, or Strimzi's KafkaMirrorMaker2."""


@config.command(short_help="Show every effective setting and its origin.")
@CONFIG
@FLOW
@click.option("--set", "only_set", is_flag=True, help="Only settings from the files, without defaults.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON, including errors and warnings.")
@SECRETS
def show(paths: tuple[str, ...], flow: str | None, only_set: bool, as_json: bool, secrets: Path | None) -> None:
    """Show every effective setting of each flow, and its origin.

    CONFIG is one mm2.properties, one or more Strimzi YAML files, or the JSON files of MM2's connectors (or a directory
    of them, optionally with the Connect worker's .properties); - reads standard input. Secrets are masked.

    Exit codes: 0 valid; 2 errors in the configuration (all are listed) or in the command line; 1 any other error.
    """
    try:
        read = load(paths, secrets)
    except InvalidConfigError as error:
        if as_json:
            output(config_show.problems_as_json(error.problems))
        raise
    read = only_flow(read, flow)
    output(config_show.as_json(read) if as_json else config_show.as_text(read, defaults=not only_set))


@click.group(short_help="Translate consumer group offsets.")
def offsets() -> None:
    """Offsets of consumer groups on the other cluster."""


@offsets.command(short_help="Translate committed offsets of groups.")
@CONFIG
@click.option(
    "--from", "source", metavar="ALIAS", required=True, help="The cluster with the groups' committed offsets."
)
@click.option("--to", "target", metavar="ALIAS", required=True, help="The cluster to move to.")
@click.option("--group", metavar="GROUP", help="One group.")
@click.option("--group-pattern", "pattern", metavar="REGEX", help="Every group whose full name matches.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=30.0,
    help="To read the checkpoints (default: 30).",
)
@JSON
@click.option(
    "--reset-command", "as_csv", is_flag=True, help="Output CSV for kafka-consumer-groups --reset-offsets --from-file."
)
@SECRETS
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
    """Translate offsets of consumer groups, by the newest checkpoints. Read-only.

    Exit codes: 0 at least one group has checkpoints; 2 error in the configuration or command line; 1 any other error.
    """
    if (group is None) == (pattern is None):
        raise click.UsageError("set either --group or --group-pattern")
    if as_csv and (as_json or group is None):
        raise click.UsageError("--reset-command requires --group, and excludes --json")
    from twinlog.cli import offsets as view  # noqa: PLC0415  # imports clients, which is slow

    found = view.translate(load(paths, secrets), source, target, group=group, pattern=pattern, timeout=timeout)
    if as_csv:
        output(view.as_csv(found, group or ""), exact=not sys.stdout.isatty())
    else:
        output(view.as_json(found, source, target) if as_json else view.as_text(found))


@click.command(short_help="List upstream clusters and their heartbeats.")
@CONFIG
@click.option("--cluster", metavar="ALIAS", required=True, help="The cluster to query.")
@click.option("--from", "source", metavar="ALIAS", help="Use the replication policy of the flow from this cluster.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON, with the names of the remote topics.")
@SECRETS
def upstream(paths: tuple[str, ...], cluster: str, source: str | None, as_json: bool, secrets: Path | None) -> None:
    """List the clusters upstream of a cluster, with hops and the age of their newest heartbeats. Read-only.

    Exit codes: 0 done, whatever was found; 2 error in the configuration or command line; 1 any other error.
    """
    from twinlog.cli import offsets as view  # noqa: PLC0415  # imports clients, which is slow

    found = view.upstreams(load(paths, secrets), cluster, source)
    output(view.upstreams_as_json(found, cluster) if as_json else view.upstreams_as_text(found, cluster))


@click.command(short_help="Preview what `run` would create and change.")
@CONFIG
@FLOW
@click.option("--json", "as_json", is_flag=True, help="Output JSON, with every name.")
@SECRETS
def plan(paths: tuple[str, ...], flow: str | None, as_json: bool, secrets: Path | None) -> None:
    """Preview what `twinlog run` would create, copy, change and grant, and list missing permissions. Read-only.

    Both clusters of every flow are inspected. Topics that one flow would create are not visible to the others.

    Exit codes: 0 done, whatever was found; 2 error in the configuration or command line; 1 any other error.
    """
    from twinlog.cli import plan as view  # noqa: PLC0415  # imports clients, which is slow
    from twinlog.inspect.plan_json import as_json as plan_json  # noqa: PLC0415

    read = load(paths, secrets)
    planned = view.plan(read, only_flow(read, flow).flows)
    output(plan_json(planned) if as_json else view.as_text(planned))


@click.command(short_help="List the differences from MirrorMaker 2.")
@CONFIG
@FLOW
@JSON
@SECRETS
def compare(paths: tuple[str, ...], flow: str | None, as_json: bool, secrets: Path | None) -> None:
    """List the differences from MirrorMaker 2 that apply to this configuration and these clusters. Read-only.

    Both clusters of every flow are inspected, as by twinlog plan. docs/coming-from-mm2.md has all differences.

    Exit codes: 0 done, whatever was found; 2 error in the configuration or command line; 1 any other error.
    """
    from twinlog.cli import compare as view  # noqa: PLC0415  # imports clients, which is slow
    from twinlog.cli import plan as planner  # noqa: PLC0415

    read = load(paths, secrets)
    found = view.compare(planner.plan(read, only_flow(read, flow).flows))
    output(view.as_json(found) if as_json else view.as_text(found))


@click.command(short_help="Explain why a topic or group is replicated or not.")
@CONFIG
@click.argument("name", metavar="TOPIC_OR_GROUP")
@FLOW
@click.option("--look", is_flag=True, help="Also look up the name on the clusters.")
@JSON
@SECRETS
def why(paths: tuple[str, ...], name: str, flow: str | None, look: bool, as_json: bool, secrets: Path | None) -> None:
    """Explain which rule decides whether a topic or consumer group is replicated, and under which name.

    For each flow, the name is checked as a topic of the source, as a remote topic on the target, and as a group. The
    clusters are contacted only with --look.

    Exit codes: 0 done; 2 error in the configuration or command line; 1 any other error.
    """
    from twinlog.cli import why as view  # noqa: PLC0415  # imports clients, which is slow

    if not name:
        raise click.UsageError("TOPIC_OR_GROUP is empty: is a shell variable not set?")
    read = load(paths, secrets)
    found = view.why(only_flow(read, flow), name, look=look)
    output(view.as_json(name, found) if as_json else view.as_text(name, found))


@click.command(short_help="Check clusters, connections and permissions.")
@CONFIG
@FLOW
@click.option("--cluster", "clusters", metavar="ALIAS", multiple=True, help="Only this cluster. Repeatable.")
@click.option("--log", metavar="FILE", type=click.Path(path_type=Path), help="Also explain errors in a log of MM2.")
@JSON
@SECRETS
def doctor(
    paths: tuple[str, ...],
    flow: str | None,
    clusters: tuple[str, ...],
    log: Path | None,
    as_json: bool,
    secrets: Path | None,
) -> int:
    """Check each cluster from this machine, and print problems with a remedy for each. Read-only.

    Checks host names, connections, TLS, authentication, versions, advertised listeners, clocks, permissions, and the
    topic limits of source and target.

    Exit codes: 0 nothing worse than a warning; 1 errors found, or any other error; 2 error in the configuration or
    command line.
    """
    from twinlog.cli import doctor as view  # noqa: PLC0415  # imports clients, which is slow

    read = load(paths, secrets)
    found = view.doctor(read, only_flow(read, flow).flows, clusters, log)
    output(view.as_json(found) if as_json else view.as_text(found))
    return view.exit_code(found)


@click.command(short_help="Show the health and lag of each flow.")
@CONFIG
@FLOW
@click.option("--topic", metavar="NAME", help="Show the partitions of this topic, with offsets on both clusters.")
@click.option("--topics", is_flag=True, help="List every topic, not only those that have not caught up.")
@click.option("--groups", is_flag=True, help="Show consumer group offsets on both clusters, and checkpoints.")
@click.option("--watch", is_flag=True, help="Update about once a second, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON; with --watch, one document per line.")
@click.option(
    "--max-lag-seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=60.0,
    help="A flow that is further behind is lagging (default: 60).",
)
@SECRETS
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
    """Show the health and lag of each flow, from any machine that can reach its clusters. Read-only.

    The status of a running flow comes from its journal on the target, about a second late. For a flow that is not
    running, both clusters are inspected for its backlog.

    Exit codes: 0 healthy; 3 lagging (more than --max-lag-seconds behind); 4 broken (not running, stopped, or in need of
    an operator); the worst flow counts. 2 error in the configuration or command line; 1 any other error.
    """
    from twinlog.cli import status as view  # noqa: PLC0415  # imports clients, which is slow

    read = load(paths, secrets)
    wanted = view.chosen(read, only_flow(read, flow).flows)
    shown = view.StatusOptions(max_lag_seconds, topic, topics, groups, paths)
    if watch:
        return view.watch(wanted, shown, as_lines=as_json)
    found = view.observe(wanted, shown)
    output(view.as_json(found, shown) if as_json else view.as_text(found, shown))
    return view.exit_code(found, shown)
