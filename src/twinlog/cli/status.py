"""`twinlog status`: the status of flows, as text or JSON, once or continuously."""

import shutil
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Final

from twinlog.cli import status_text
from twinlog.cli.progress import Progress
from twinlog.cli.status_screen import screen_lines, wrapped
from twinlog.cli.status_text import StatusOptions, as_json, worst
from twinlog.config import Config
from twinlog.config.flows import FlowConfig
from twinlog.errors import ConfigError
from twinlog.status.flow import FlowStatus
from twinlog.status.observer import Observer
from twinlog.text import visible

__all__ = ["StatusOptions", "as_json", "as_text", "chosen", "exit_code", "observe", "watch"]

EXIT_CODES: Final = {"healthy": 0, "lagging": 3, "broken": 4}
_REDRAW: Final = 1.0  # seconds
_FIRST_OUTPUT: Final = 20.0  # seconds after which something is shown, even if a cluster does not answer


def chosen(config: Config, flows: Sequence[FlowConfig]) -> list[FlowConfig]:
    """Flows that copy records, or would if they were not paused."""
    found = [flow for flow in flows if flow.source is not None and flow.source.settings.enabled]
    if not found:
        raise ConfigError(f"{', '.join(config.files)}: no flow replicates; set <source>-><target>.enabled = true")
    return found


def observe(flows: Iterable[FlowConfig], view: StatusOptions) -> list[FlowStatus]:
    """Once, all flows in parallel."""
    with ExitStack() as stack, Progress("twinlog status") as progress:
        progress.step("reading journals and inspecting the clusters")
        observers = [Observer(flow, groups=view.groups) for flow in flows]
        for each in observers:
            stack.callback(each.close)
        threads = [
            threading.Thread(target=each.observe, name=f"status {each.config}", daemon=True) for each in observers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [each.status for each in observers]


def as_text(flows: Sequence[FlowStatus], view: StatusOptions) -> str:
    """Wrapped for a terminal; a pipe gets the same output at any width."""
    text = status_text.as_text(flows, view)
    return "\n".join(wrapped(text, shutil.get_terminal_size().columns)) if sys.stdout.isatty() else text


def watch(flows: Iterable[FlowConfig], view: StatusOptions, *, as_lines: bool) -> int:
    """Until Ctrl-C; the exit code is that of the last output. `as_lines`: one JSON document per line."""
    stop = threading.Event()
    observers = [Observer(flow, groups=view.groups) for flow in flows]
    threads = [
        threading.Thread(target=each.follow, args=(stop,), name=f"status {each.config}", daemon=True)
        for each in observers
    ]
    terminal = sys.stdout.isatty()
    live = terminal and not as_lines
    code = EXIT_CODES["broken"]
    for thread in threads:
        thread.start()
    try:
        for each in observers:
            each.ready.wait(_FIRST_OUTPUT)
        if live:
            print("\033[2J", end="")
        while True:
            found = [each.status for each in observers]
            code = exit_code(found, view)
            if live:
                print(_drawn(visible(status_text.as_text(found, view, live=True))), end="", flush=True)
            else:
                text = as_json(found, view, line=True) if as_lines else status_text.as_text(found, view)
                print(visible(text), flush=True)
            time.sleep(_REDRAW)
    except KeyboardInterrupt:
        if terminal:
            print(flush=True)  # the terminal has printed ^C; the prompt belongs on the next line
        return code
    except BrokenPipeError:
        sys.stderr.close()  # or Python reports the broken pipe again at exit
        return code
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=2)


def _drawn(text: str) -> str:
    """Overwrites the last output line by line: clearing the screen first would flicker. The last row and column stay
    free, or the terminal scrolls. No alternate screen: a killed process could not leave it.
    """
    width, height = shutil.get_terminal_size()
    lines = screen_lines(text, time.strftime("%H:%M:%S"), width - 1, height - 1)
    return "\033[H" + "".join(f"{line}\033[K\n" for line in lines) + "\033[J"


def exit_code(flows: Iterable[FlowStatus], view: StatusOptions) -> int:
    return EXIT_CODES[worst(flows, view.max_lag_seconds)]
