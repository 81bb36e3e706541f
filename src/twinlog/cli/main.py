"""The command `twinlog`, and how it ends: with an exit code, and one line for an error that an operator can fix."""

import io
import sys

import click

import twinlog
from twinlog.cli import read_commands, run_commands
from twinlog.config import InvalidConfigError
from twinlog.errors import TwinlogError
from twinlog.text import counted, visible


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    commands=[
        run_commands.run,
        run_commands.serve,
        run_commands.hash_password,
        read_commands.config,
        read_commands.status,
        read_commands.plan,
        read_commands.doctor,
        read_commands.compare,
        read_commands.why,
        read_commands.upstream,
        read_commands.offsets,
    ],
)
@click.version_option(twinlog.__version__, prog_name="twinlog")
def cli() -> None:
    """Geo-replication between Kafka clusters, compatible with MirrorMaker 2's configuration.

    CONFIG is the configuration of MM2: an mm2.properties, the JSON files of its connectors (or a directory of them), or
    Strimzi's KafkaMirrorMaker2 as YAML. Before the first run, use doctor and plan, which are read-only.
    """


def main() -> None:
    """Errors that an operator can fix end in one line and an exit code, never in a stack trace."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a lone surrogate in a value must not fail the output
    try:
        if code := cli(standalone_mode=False):  # returned by the command, or the code of an Exit
            sys.exit(code)
    except InvalidConfigError as error:
        for problem in error.problems:
            click.echo(visible(str(problem)), err=True)
        errors = sum(problem.level == "error" for problem in error.problems)
        click.echo(f"twinlog: {counted(errors, 'error')} in the configuration", err=True)
        sys.exit(error.exit_code)
    except TwinlogError as error:
        click.echo(visible(f"twinlog: {error}"), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except (OSError, UnicodeDecodeError) as error:
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        click.echo(visible(f"twinlog: {where}{getattr(error, 'strerror', None) or error}"), err=True)
        sys.exit(1)
