"""The seed's unchanged `mm2.sh`: it calls localhost:8083, which .curlrc redirects."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from lab.waiting import until

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "connect-rest" / "mm2.sh"
SEEDS = ROOT / "tests" / "config" / "seeds" / "connectors"
NEEDED = {"bash": "bash", "curl": "curl", "jq": "jq"}


def missing() -> str:
    absent = [package for command, package in NEEDED.items() if shutil.which(command) is None]
    return f"the script needs Debian's {', '.join(absent)}" if absent else ""


class Script:
    """Runs in its own folder, with the seed's files and the test's addresses."""

    def __init__(self, folder: Path, url: str, topic: str, settings: dict[str, str]) -> None:
        self._folder = folder
        (folder / "mm2").mkdir(parents=True)
        for file in SEEDS.glob("mm2-*.json"):
            config = json.loads(file.read_text())
            of_topics = {"topics": topic} if "topics" in config else {}
            (folder / "mm2" / file.name).write_text(json.dumps(config | settings | of_topics))
        (folder / ".curlrc").write_text(f'connect-to = "localhost:8083:{url.removeprefix("http://")}"\n')

    def wait_until_all_run(self) -> None:
        running = [f'{each} connector: "RUNNING"' for each in ("Checkpoint", "Heartbeat", "Source")]
        until(lambda: self.run("status", "source-0") == running, "the script should print RUNNING", seconds=120)

    def run(self, *arguments: str) -> list[str]:
        """Returns the output."""
        done = subprocess.run(
            ["bash", str(SCRIPT), *arguments],
            cwd=self._folder, env={**os.environ, "CURL_HOME": str(self._folder)},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return re.sub(r"[ \t]+\n", "\n", done.stdout + done.stderr).splitlines()
