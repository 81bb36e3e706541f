"""Runs the Ivy that PySpark ships: jars by Maven coordinates, with nothing installed but Java."""

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

from twinlog import java
from twinlog.errors import LabError

_PASSWORD = "changeit"  # what Java calls every such store's password; it guards nothing


def retrieve(modules: Iterable[tuple[str, ...]], into: Path, cache: Path, *, deep: bool = False) -> Iterator[str]:
    """Brings modules (organisation, name, version), with all that they need if `deep`, into a folder.

    Yields the name of each jar as its download begins. An operator's `ivysettings.xml` is honoured.
    """
    cache.mkdir(parents=True, exist_ok=True)
    wanted = cache / "ivy.xml"
    wanted.write_text(
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
        "-ivy", str(wanted), "-confs", "default", "-types", "jar", "bundle",
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
        raise LabError(f"could not fetch {_complaint(log.read_text())}; Ivy's log is {log}")


def _complaint(log: str) -> str:
    """What is missing, and why, in a few words."""
    names = sorted(set(re.findall(r":: ([\w.]+#[\w.-]+;[\w.-]+): ", log)))
    which = (
        ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "") if names else "Kafka's jars"
    )
    why = re.search(r"Server access error at url \S+ \((?:[\w.]+\.)?(\w+: .*)\)", log)
    return f"{which} ({why[1]}): check the network" if why else which


def _trust(cache: Path) -> list[str]:
    """For a Java that came by pip: the certificates that this system trusts, a company's own among them.

    It brings a list of its own and never looks at the system's, unlike every other Java, and unlike pip.
    """
    if java.find().origin in ("JAVA_HOME", "PATH"):
        return []
    entries = []
    for number, der in enumerate(ssl.create_default_context().get_ca_certs(binary_form=True)):
        with warnings.catch_warnings(), contextlib.suppress(ValueError):
            warnings.simplefilter("ignore")  # systems still carry a few certificates that break a rule or two
            entries.append(pkcs12.PKCS12Certificate(x509.load_der_x509_certificate(der), str(number).encode()))
    if not entries:
        return []
    store = cache / "trust.p12"
    store.write_bytes(pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(_PASSWORD.encode())))
    return [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}"]


def pyspark_jar(name: str) -> Path:
    """One of the jars that PySpark ships. It is looked for, not imported: the jar is all that is needed."""
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob(f"jars/{name}-*.jar")) if spec and spec.origin else []
    if not found:
        raise LabError(f"PySpark is not installed in this environment, and its {name} is needed: run make setup")
    return found[-1]
