"""Fetches jars by Maven coordinates, with the Ivy that PySpark ships; needs only Java."""

import contextlib
import importlib.util
import os
import re
import ssl
import subprocess
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import quoteattr

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from lab.errors import LabError
from twinlog import java

_PASSWORD = "changeit"  # Java's default password of truststores


def retrieve(modules: Iterable[tuple[str, ...]], into: Path, cache: Path, *, deep: bool = False) -> Iterator[str]:
    """Copies modules (organisation, name, version) into a folder, with their dependencies if `deep`.

    Yields the name of each jar when its download begins. Uses the operator's `ivysettings.xml`, if there is one.
    """
    cache.mkdir(parents=True, exist_ok=True)
    ivy_file = cache / "ivy.xml"
    ivy_file.write_text(
        '<ivy-module version="2.0"><info organisation="twinlog" module="lab"/>'
        '<configurations><conf name="default"/></configurations><dependencies defaultconf="default->default">'
        + "".join(
            f'<dependency org={quoteattr(o)} name={quoteattr(n)} rev={quoteattr(v)} transitive="{str(deep).lower()}"/>'
            for o, n, v in modules
        )
        + "</dependencies></ivy-module>"
    )
    command = [
        str(java.find().executable), *_trust(cache), "-jar", str(pyspark_jar("ivy")),
        "-cache", str(cache / "ivy"), "-m2compatible",
        "-ivy", str(ivy_file), "-confs", "default", "-types", "jar", "bundle",
        "-retrieve", f"{into}/[organisation]+[artifact]-[revision].[ext]",
    ]  # fmt: skip
    settings = Path(os.environ.get("TWINLOG_IVYSETTINGS") or Path.home() / ".ivy2" / "ivysettings.xml")
    if settings.is_file():
        command += ["-settings", str(settings)]
    log = cache / "ivy.log"
    with (
        log.open("w") as out,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run,
    ):
        for text in run.stdout or ():
            out.write(text)
            if match := re.match(r"downloading \S+/(\S+)\.jar ", text):
                yield match[1]
    if run.returncode:
        raise LabError(f"cannot fetch {_failure(log.read_text())}; see Ivy's log {log}")


def _failure(log: str) -> str:
    """Which modules failed, and why."""
    names = sorted(set(re.findall(r":: ([\w.]+#[\w.-]+;[\w.-]+): ", log)))
    which = (
        ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "") if names else "Kafka's jars"
    )
    reason = re.search(r"Server access error at url \S+ \((?:[\w.]+\.)?(\w+: .*)\)", log)
    return f"{which} ({reason[1]}): check the network" if reason else which


def _trust(cache: Path) -> list[str]:
    """For a Java from pip: a truststore with the system's CA certificates, including a company's own.

    That Java ships its own list and ignores the system's, unlike other Javas, and unlike pip.
    """
    if java.find().origin in ("JAVA_HOME", "PATH"):
        return []
    entries = []
    for number, der in enumerate(ssl.create_default_context().get_ca_certs(binary_form=True)):
        with warnings.catch_warnings(), contextlib.suppress(ValueError):
            warnings.simplefilter("ignore")  # some systems still have certificates that violate RFC 5280
            entries.append(pkcs12.PKCS12Certificate(x509.load_der_x509_certificate(der), str(number).encode()))
    if not entries:
        return []
    store = cache / "trust.p12"
    store.write_bytes(pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(_PASSWORD.encode())))
    return [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}"]


def pyspark_jar(name: str) -> Path:
    """One of the jars that PySpark ships. PySpark itself is not imported."""
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob(f"jars/{name}-*.jar")) if spec and spec.origin else []
    if not found:
        raise LabError(f"PySpark's {name} jar not found: PySpark is not installed here; run make setup")
    return found[-1]
