"""`twinlog status`: how flows are, as text and as JSON, once or again and again."""

import shutil
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Final

from twinlog.config import Config
from twinlog.config.flows import FlowConfig
from twinlog.errors import ConfigError
from twinlog.status.flow import FlowStatus
from twinlog.status.observer import Observer
from twinlog.surface import status_view
from twinlog.surface.progress import Progress
from twinlog.surface.status_screen import picture, wrapped
from twinlog.surface.status_view import View, as_json, worst

__all__ = ["View", "as_json", "as_text", "chosen", "exit_code", "look", "watch"]

EXIT_CODES: Final = {"healthy": 0, "lagging": 3, "broken": 4}
_REDRAW: Final = 1.0
_PATIENCE: Final = 20.0  # seconds until something is shown, even if a cluster does not answer


def chosen(config: Config, flows: Sequence[FlowConfig]) -> list[FlowConfig]:
    """Those that copy records, or would if they were not paused."""
    found = [flow for flow in flows if flow.source is not None and flow.source.settings.enabled]
    if not found:
        raise ConfigError(f"{', '.join(config.files)}: no flow replicates: set <source>-><target>.enabled = true")
    return found


def look(flows: Iterable[FlowConfig], view: View) -> list[FlowStatus]:
    """Once, all flows side by side."""
    with ExitStack() as stack, Progress("twinlog status") as progress:
        progress.step("reading journals and looking at the clusters")
        observers = [Observer(flow, groups=view.groups) for flow in flows]
        for each in observers:
            stack.callback(each.close)
        threads = [threading.Thread(target=each.look, name=f"status {each.config}", daemon=True) for each in observers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [each.status for each in observers]


def as_text(flows: Sequence[FlowStatus], view: View) -> str:
    """What a person reads on a terminal fits it; what a script reads is the same at any width."""
    text = status_view.as_text(flows, view)
    return "\n".join(wrapped(text, shutil.get_terminal_size().columns)) if sys.stdout.isatty() else text


def watch(flows: Iterable[FlowConfig], view: View, *, as_lines: bool) -> int:
    """Until Ctrl-C; the exit code is that of the last picture. `as_lines`: a JSON document in each line."""
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
            each.ready.wait(_PATIENCE)
        if live:
            print("\033[2J", end="")
        while True:
            found = [each.status for each in observers]
            code = exit_code(found, view)
            if live:
                print(_drawn(status_view.as_text(found, view, live=True)), end="", flush=True)
            else:
                text = as_json(found, view, line=True) if as_lines else status_view.as_text(found, view)
                print(text, flush=True)
            time.sleep(_REDRAW)
    except KeyboardInterrupt:
        if terminal:
            print(flush=True)  # the terminal has written ^C, and the prompt belongs on a line of its own
        return code
    except BrokenPipeError:
        sys.stderr.close()  # or Python complains once more at the end
        return code
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=2)


def _drawn(text: str) -> str:
    """Over the picture before, line by line: a screen that is wiped first flickers. The last row and column stay free,
    or the terminal scrolls. No alternate screen: a process that is killed could not leave it again.
    """
    width, height = shutil.get_terminal_size()
    lines = picture(text, time.strftime("%H:%M:%S"), width - 1, height - 1)
    return "\033[H" + "".join(f"{line}\033[K\n" for line in lines) + "\033[J"


def exit_code(flows: Iterable[FlowStatus], view: View) -> int:
    return EXIT_CODES[worst(flows, view.max_lag_seconds)]
