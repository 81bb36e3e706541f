"""MIT's Kerberos KDC on loopback, for one cluster: principals and their keytabs, removed with the lab.

It is the only component from neither pip nor Ivy, so only tests of GSSAPI need it: krb5-kdc, krb5-admin-server and
krb5-user on Debian and Ubuntu, krb5-server and krb5-workstation on Red Hat.
"""

import os
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from lab.errors import LabError
from lab.ports import HOST, free_port
from lab.process import Process

REALM = "LAB.TEST"
SERVICE = f"kafka/{HOST}"
_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
_TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_MASTER = "lab-master-key"


def missing() -> str | None:
    """Why no KDC can run on this machine; None if one can."""
    absent = [tool for tool in _TOOLS if shutil.which(tool, path=_PATH) is None]
    return f"{', '.join(absent)} not found: install krb5-kdc, krb5-admin-server, krb5-user" if absent else None


class Kdc:
    """A running KDC. `keytab` creates a principal on first use. `config` is the krb5.conf of its clients."""

    def __init__(self, folder: Path) -> None:
        if reason := missing():
            raise LabError(reason)
        folder.mkdir(parents=True)
        self._folder = folder
        self._port = free_port()
        self.config = folder / "krb5.conf"
        self.config.write_text(_CLIENT.format(realm=REALM, host=HOST, port=self._port))
        profile = folder / "kdc.conf"
        profile.write_text(_SERVER.format(realm=REALM, host=HOST, port=self._port, folder=folder))
        self._environment = {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(profile),
            "PATH": _PATH,
        }
        self._run("kdb5_util", "-r", REALM, "-P", _MASTER, "create", "-s")
        self.process = Process("kdc", folder / "kdc.log")
        self.start()

    def start(self) -> None:
        self.process.launch(["krb5kdc", "-n", "-r", REALM], self._environment)
        self.process.wait_until_up(self._is_listening, 30)

    def keytab(self, principal: str) -> Path:
        file = self._folder / f"{principal.replace('/', '-')}.keytab"
        if not file.exists():
            self.admin(f"addprinc -randkey {principal}@{REALM}")
            self.admin(f"ktadd -k {file} {principal}@{REALM}")
        return file

    def admin(self, query: str) -> None:
        """Runs a kadmin command directly on the database."""
        self._run("kadmin.local", "-r", REALM, "-q", query)

    def close(self) -> None:
        self.process.kill()

    def _is_listening(self) -> bool:
        with suppress(OSError), socket.create_connection((HOST, self._port), 1):
            return True
        return False

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, env={**os.environ, **self._environment}, capture_output=True, text=True, check=False, timeout=60
        )
        if done.returncode:
            raise LabError(f"{command[0]} failed (exit code {done.returncode}): {done.stderr.strip()}")


_CLIENT = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  # Principals use the broker's address as given: no name service is involved.
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {realm} = {{
    kdc = {host}:{port}
  }}
"""
_SERVER = """\
[kdcdefaults]
  kdc_listen = {host}:{port}
  kdc_tcp_listen = {host}:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principal
    key_stash_file = {folder}/stash
    acl_file = {folder}/kadm5.acl
    max_life = 1h
  }}
"""
