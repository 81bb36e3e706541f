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
        cli(standalone_mode=False)
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
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except (OSError, UnicodeDecodeError) as error:
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        click.echo(f"twinlog: {where}{getattr(error, 'strerror', None) or error}", err=True)
        sys.exit(1)
