"""`twinlog serve`: a Connect worker whose connectors are managed by its REST API."""

import contextlib
import os
import shutil
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from twinlog.cli.run import RunDisplay, stopped_by_signals
from twinlog.config.problems import Problems
from twinlog.config.providers import declared_providers
from twinlog.connect.connector_check import Checker
from twinlog.connect.connector_files import ConnectorFiles
from twinlog.connect.rest_extensions import protection
from twinlog.connect.worker import ServeWorker
from twinlog.connect.worker_file import Listening, WorkerFile, listening, read_worker, tls_of
from twinlog.connect.worker_topics import KeyedWriter, WorkerTopics
from twinlog.errors import ConfigError
from twinlog.http import setup
from twinlog.http.options import HttpOptions
from twinlog.kafka.client import Client
from twinlog.kafka.groups import Groups
from twinlog.logs import Format, Log
from twinlog.runtime.supervisor import Supervisor
from twinlog.runtime.temp_folder import temp_folder
from twinlog.text import counted

_ALIAS = "worker"  # the name of the worker's own cluster in messages
_ACTIVE = ("Stable", "PreparingRebalance", "CompletingRebalance")


def serve(
    path: Path | None,
    *,
    bootstrap: str | None,
    host: str | None,
    port: int | None,
    master: str | None,
    conf: dict[str, str],
    http: HttpOptions,
    plugins: Sequence[str] = (),
    log_format: Format = "text",
) -> int:
    file = read_worker(path, bootstrap)
    where = listening(file.values, host, port)
    protected = protection(file.values, os.environ, login=http.login)
    tls = tls_of(file.values) if where.secure and http.certificate is None else None
    client = Client(_ALIAS, file.client, "twinlog-serve")
    with Log(log_format) as log, temp_folder() as folder, contextlib.ExitStack() as stack:
        stack.callback(client.close)
        for problem in file.problems:
            log.line(str(problem), level="WARN" if problem.level == "warning" else "INFO")
        refuse_running_connect(client, file.settings.group_id)
        store = WorkerTopics(client, file.settings)
        store.open()
        generations = ConnectorFiles(folder / "connectors", file.content, {*plugins, *file.settings.twinlog_plugins})
        stack.callback(shutil.rmtree, folder / "connectors", ignore_errors=True)  # even if Spark's log is kept
        runtime = Supervisor([], paths=[], master=master, conf=conf, serving=folder)
        providers = declared_providers(file.values, Problems())
        status = KeyedWriter(Client(_ALIAS, file.client, "twinlog-serve-status"), file.settings.status_storage_topic)
        offsets = KeyedWriter(Client(_ALIAS, file.client, "twinlog-serve-offsets"), file.settings.offset_storage_topic)
        worker = ServeWorker(
            runtime, store, generations, Checker(providers, generations.problem), status, offsets, where.worker_id
        )
        stack.callback(worker.close)
        server = setup.server(
            worker,
            runtime.board,
            lambda: setup.plan_json(worker.flows),
            replace(http, host=where.host, port=where.port),
            tls=tls,
            mask=file.settings.twinlog_rest_mask_secrets,
            advertised=where.advertised.rpartition(":")[0],
            file_users=protected.users,
            admin=protected.admin,
        )
        if not where.port:
            worker.set_worker_id(f"{where.host}:{server.port}")
        worker.begin()
        stack.enter_context(stopped_by_signals(runtime))
        stack.enter_context(server)
        login = http.login or protected.users is not None or setup.is_mutual(tls)
        _log_start(log, where, server.url, file, len(worker.names()), login=login)
        display = RunDisplay(log, runtime)

        def tick() -> None:
            worker.tick(display.events)
            display.tick()

        runtime.run(display.events, tick)
        log.line("stopped")
    return 0


def refuse_running_connect(client: Client, group: str) -> None:
    """Workers of a Connect group share its connectors; they would not know that this process runs them, too."""
    found = Groups(client).describe_groups([group]).get(group)
    if found in _ACTIVE:
        raise ConfigError(
            f"group.id {group}: a Kafka Connect worker of this group is running (state {found}): both would run "
            "the same connectors; stop it first"
        )


def _log_start(log: Log, where: Listening, url: str, file: WorkerFile, connectors: int, *, login: bool) -> None:
    log.line(f"Connect REST API at {url}, group {file.settings.group_id}: {counted(connectors, 'connector')}")
    if where.host == "127.0.0.1" and socket.gethostname() != "localhost":
        log.line("listening on 127.0.0.1 only; use --host 0.0.0.0 for access from other machines")
    if warning := setup.unauthenticated_warning(where.host, login=login):
        log.line(warning, level="WARN")
