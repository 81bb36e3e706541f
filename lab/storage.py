"""Formats a broker's data folder like Kafka's StorageTool, without starting a JVM for each broker.

`meta.properties` is written here. `bootstrap.checkpoint` contains the features of a new cluster: without it a 4.x
broker starts with the new group protocol and the new transactions disabled, unlike any cluster that an operator
formats. It is the same for all clusters of a release line, so StorageTool creates it once per machine.
"""

import base64
import os
import shutil
from pathlib import Path

from lab import jars, java_process
from lab.process import temporary_folder
from twinlog.cache import cache_folder
from twinlog.config.properties import properties_text


def new_cluster_id() -> str:
    """16 bytes in base64url, random but for the first: a leading dash would look like an option to the tools."""
    return base64.urlsafe_b64encode(b"\x00" + os.urandom(15)).decode().rstrip("=")


def format_folder(folder: Path, line: str, cluster_id: str, node: int) -> None:
    folder.mkdir(parents=True)
    meta = {"version": "1", "cluster.id": cluster_id, "node.id": str(node), "directory.id": new_cluster_id()}
    (folder / "meta.properties").write_text(properties_text(meta))
    shutil.copyfile(bootstrap_checkpoint(line), folder / "bootstrap.checkpoint")


def bootstrap_checkpoint(line: str) -> Path:
    cached = cache_folder() / f"bootstrap-{jars.fetch(line).name}.checkpoint"
    if not cached.is_file():
        with temporary_folder() as folder:
            partial = cached.with_suffix(f".{os.getpid()}")
            shutil.copyfile(_run_storage_tool(line, folder), partial)
            partial.replace(cached)  # another process may create the same file; either is valid
    return cached


def _run_storage_tool(line: str, folder: Path) -> Path:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "0",
        "controller.quorum.voters": "0@localhost:1",
        "listeners": "PLAINTEXT://localhost:2,CONTROLLER://localhost:1",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
    }
    file = folder / "server.properties"
    file.write_text(properties_text(settings))
    arguments = ["format", "-t", new_cluster_id(), "-c", str(file)]
    java_process.run(line, "kafka.tools.StorageTool", arguments, name="Kafka's tool storage")
    return folder / "data" / "bootstrap.checkpoint"
