"""`twinlog serve`: a Connect worker whose connectors come and go by its REST API."""

import contextlib
import shutil
import socket
from pathlib import Path

from twinlog.config.problems import Problems
from twinlog.config.providers import declared_providers
from twinlog.connect.check import Checker
from twinlog.connect.generations import Generations
from twinlog.connect.store import StatusWriter, Store
from twinlog.connect.worker import ServeWorker
from twinlog.connect.worker_file import Listening, WorkerFile, listening, read_worker, tls_of
from twinlog.errors import ConfigError
from twinlog.kafka.client import Client
from twinlog.kafka.groups import Groups
from twinlog.runtime.scratch import scratch
from twinlog.runtime.supervisor import Runtime
from twinlog.surface import door as doors
from twinlog.surface.logs import Format, Log
from twinlog.surface.numbers import counted
from twinlog.surface.run import Watch, stopped_by_signals

_ALIAS = "worker"  # what messages call the worker's own cluster
_LIVE = ("Stable", "PreparingRebalance", "CompletingRebalance")


def serve(
    path: Path | None,
    *,
    bootstrap: str | None,
    host: str | None,
    port: int | None,
    master: str | None,
    conf: dict[str, str],
    lock: doors.Lock,
    log_format: Format = "text",
) -> int:
    file = read_worker(path, bootstrap)
    where = listening(file.values, host, port)
    tls = tls_of(file.values) if where.secure and lock.certificate is None else None
    client = Client(_ALIAS, file.client, "twinlog-serve")
    with Log(log_format) as log, scratch() as folder, contextlib.ExitStack() as stack:
        stack.callback(client.close)
        for problem in file.problems:
            log.line(str(problem), level="WARN" if problem.level == "warning" else "INFO")
        refuse_beside_connect(client, file.settings.group_id)
        store = Store(client, file.settings)
        store.open()
        generations = Generations(folder / "connectors", file.content)
        stack.callback(shutil.rmtree, folder / "connectors", ignore_errors=True)  # also where Spark's log stays
        runtime = Runtime([], paths=[], master=master, conf=conf, serving=folder)
        providers = declared_providers(file.values, Problems())
        status = StatusWriter(Client(_ALIAS, file.client, "twinlog-serve-status"), file.settings.status_storage_topic)
        worker = ServeWorker(
            runtime, store, generations, Checker(providers, generations.wrong), status, where.worker_id
        )
        stack.callback(worker.close)
        server = doors.server(
            worker,
            runtime.board,
            lambda: doors.plan_json(worker.flows),
            host=where.host,
            port=where.port,
            lock=lock,
            tls=tls,
        )
        if not where.port:
            worker.known_as(f"{where.host}:{server.port}")
        worker.begin()
        stack.enter_context(stopped_by_signals(runtime))
        stack.enter_context(server)
        _greet(log, where, server.url, file, len(worker.names()), lock)
        watch = Watch(log, runtime)

        def tick() -> None:
            worker.tick(watch.events)
            watch.tick()

        runtime.run(watch.events, tick)
        log.line("stopped")
    return 0


def refuse_beside_connect(client: Client, group: str) -> None:
    """Workers of Connect share the connectors of their group; none of them would know that we run them as well."""
    found = Groups(client).describe_groups([group]).get(group)
    if found in _LIVE:
        raise ConfigError(
            f"group.id {group}: a Kafka Connect worker of this group runs (its state is {found}): stop it first, "
            "or both would run the same connectors"
        )


def _greet(log: Log, where: Listening, url: str, file: WorkerFile, connectors: int, lock: doors.Lock) -> None:
    log.line(f"Connect's API at {url}, group {file.settings.group_id}: {counted(connectors, 'connector')}")
    if where.host == "127.0.0.1" and socket.gethostname() != "localhost":
        log.line("only this machine is served: --host 0.0.0.0 serves others, too")
    if warning := doors.open_to_all(where.host, lock):
        log.line(warning, level="WARN")
