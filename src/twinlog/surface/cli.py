"""The command `twinlog`. Commands fetch data and print it; its look is made in the other modules of this room."""

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
@click.argument("paths", metavar="CONFIG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--flow", metavar="SOURCE->TARGET", help="Only this flow (quote it: your shell knows > too).")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@click.option("--secrets", metavar="DIR", type=click.Path(path_type=Path), help="Folder of mounted Kubernetes secrets.")
def show(paths: tuple[Path, ...], flow: str | None, as_json: bool, secrets: Path | None) -> None:
    """Every effective setting of each flow, and where it came from.

    CONFIG is one mm2.properties, one or more Strimzi YAML files, or the JSON files of MM2's connectors (or a folder of
    them, with the Connect worker's .properties beside them if there is one). Secrets are never shown.
    """
    read = load(paths, secrets)
    if flow is not None:
        read = _only(read, flow)
    print(config_show.as_json(read) if as_json else config_show.as_text(read))
    _say(read)


def _only(config: Config, wanted: str) -> Config:
    flows = tuple(flow for flow in config.flows if wanted.replace(" ", "") in (str(flow.flow), str(flow)))
    if not flows:
        known = ", ".join(str(flow) for flow in config.flows) or "none"
        raise ConfigError(f"--flow {wanted}: no such flow in {', '.join(config.files)}; there is: {known}")
    return Config(config.files, config.clusters, flows, config.problems)


def _say(config: Config) -> None:
    for problem in config.problems:
        click.echo(str(problem), err=True)


def main() -> None:
    """Any error that an operator can mend ends in one line and an exit code, never in a stack trace."""
    try:
        cli(standalone_mode=False)
    except InvalidConfigError as error:
        for problem in error.problems:
            click.echo(str(problem), err=True)
        mistakes = sum(problem.level == "error" for problem in error.problems)
        click.echo(
            f"twinlog: {mistakes} mistake{'s' if mistakes > 1 else ''} in the configuration; nothing was started",
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
    except BrokenPipeError:  # `twinlog ... | head` is no mistake
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (OSError, UnicodeDecodeError) as error:
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        click.echo(f"twinlog: {where}{getattr(error, 'strerror', None) or error}", err=True)
        sys.exit(1)
