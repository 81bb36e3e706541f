"""Which files and token endpoints a connector may use.

Users who can create connectors (by REST, or by writing to the config topic) must not gain access to everything that
Twinlog's account can reach: files on this machine, HTTP services of the internal network. So the worker file lists what
connectors may use; the lists for OAUTHBEARER are the system properties of Kafka 4. Settings in the worker file itself
come from the operator and are not checked.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from twinlog.config.settings import WorkerSettings
from twinlog.config.values import Value
from twinlog.errors import ConfigError
from twinlog.security import jaas

_SETTING: Final = re.compile(r"(?:^|\.)((?:ssl|sasl)\..*)$")
_FILE: Final = re.compile(r"^(?!use).*(?:location|file|keytab|ticketcache)$", re.IGNORECASE)  # useKeyTab is a switch
_URL: Final = re.compile(r"(?:url|uri)$", re.IGNORECASE)
_OAUTH: Final = re.compile(r"sasl\.oauthbearer\.|oauth\.")
FILES: Final = "twinlog.connector.files"
OAUTH_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


@dataclass(frozen=True, slots=True)
class Access:
    files: tuple[str, ...] = ()  # files, and folders with all their content
    oauth_files: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def of(cls, worker: WorkerSettings) -> "Access":
        return cls(worker.twinlog_connector_files, worker.oauth_allowed_files, worker.oauth_allowed_urls)


@dataclass(frozen=True, slots=True)
class _Resource:
    """A file or URL in a setting; `where` (the setting) never contains a secret."""

    where: str
    text: str
    is_url: bool
    oauth: bool


def access_problem(values: Mapping[str, Value], access: Access, worker_file: str) -> str:
    """Why a connector with these (resolved) settings must not run; empty if it may.

    Settings that come from `worker_file` are not checked.
    """
    for key, value in values.items():
        if value.origin.file == worker_file:
            continue
        for resource in _resources(key, value.text):
            if reason := _resource_problem(resource, access):
                return reason
    return ""


def _resources(key: str, text: str) -> Iterator[_Resource]:
    found = _SETTING.search(key)
    if found is None or not text.strip():
        return
    setting = found[1]
    if setting == jaas.KEY:
        try:
            modules = jaas.parse(text)
        except ConfigError:
            return  # rejected when the client is created
        for module in modules:
            for option, its in module.options.items():
                yield from _resources_of(f"{key}: {option}", option, its)
    else:
        yield from _resources_of(key, setting, text)


def _resources_of(where: str, name: str, text: str) -> Iterator[_Resource]:
    if not text.strip():
        return
    oauth = bool(_OAUTH.match(name))
    if _URL.search(name):
        parts = urlsplit(text.strip())
        if parts.scheme.lower() == "file":
            yield _Resource(where, unquote(parts.path), is_url=False, oauth=True)
            yield _Resource(where, parts.path, is_url=False, oauth=True)
        else:
            yield _Resource(where, text.strip(), is_url=True, oauth=True)
    elif _FILE.search(name):
        yield _Resource(where, text.strip(), is_url=False, oauth=oauth)


def _resource_problem(resource: _Resource, access: Access) -> str:
    if resource.is_url:
        if resource.text in access.urls:
            return ""
        return f"{resource.where}: URL not allowed for connectors; add it to {OAUTH_URLS} in the worker file"
    if resource.oauth and resource.text in access.oauth_files:
        return ""
    path = Path(os.path.normpath(resource.text))
    if path.is_absolute() and any(path.is_relative_to(os.path.normpath(each)) for each in access.files):
        return ""
    return f"{resource.where}: file not allowed for connectors; add it, or its directory, to {FILES} in the worker file"
