"""Generated web access logs in the format of the SEC's EDGAR log files, as sample records."""

import random
import time
from collections.abc import Iterator

HEADER = "ip,date,time,zone,cik,accession,extention,code,size,idx,norefer,noagent,find,crawler,browser"

_EXTENSIONS = (".htm", "-index.htm", ".txt", ".xml", "-index-headers.htm", ".pdf")
_CODES = (200,) * 17 + (304, 404, 301)
_BROWSERS = ("", "", "", "win", "mac", "lin", "iph")


def access_log(seed: int = 0, start: float | None = None, rate: float = 200) -> Iterator[tuple[str, str]]:
    """Endless (visitor, line) pairs; the same seed and start give the same lines. Visitors recur.

    `rate` is the number of lines per second of the log's own clock.
    """
    rng = random.Random(seed)  # noqa: S311  (a sample, not a secret)
    visitors = [f"{rng.randint(1, 223)}.{rng.randint(0, 255)}.{rng.randint(0, 255)}.{_tail(rng)}" for _ in range(500)]
    now = time.time() if start is None else start
    while True:
        now += rng.expovariate(rate)
        day = time.strftime("%Y-%m-%d,%H:%M:%S", time.gmtime(now))
        visitor = rng.choice(visitors)
        company = rng.randint(1_000, 1_800_000)
        accession = f"{company:010d}-{rng.randint(10, 26)}-{rng.randint(0, 999_999):06d}"
        size = int(rng.lognormvariate(9, 1.5))
        flags = ",".join("1.0" if rng.random() < share else "0.0" for share in (0.3, 0.6, 0.05))
        crawler = "1.0" if rng.random() < 0.4 else "0.0"
        line = (
            f"{visitor},{day},0.0,{company}.0,{accession},{rng.choice(_EXTENSIONS)},{rng.choice(_CODES)}.0,{size}.0,"
            f"{flags},{rng.randint(0, 10)}.0,{crawler},{rng.choice(_BROWSERS)}"
        )
        yield visitor, line


def _tail(rng: random.Random) -> str:
    """The last part of an address, which EDGAR's data set replaces by letters."""
    return "".join(rng.choices("abcdefghij", k=3))
