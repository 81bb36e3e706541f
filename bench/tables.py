"""Tables of the results, and their comparison with Twinlog's performance targets."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.far import FAR, LinkUsed
from bench.replicators import REPLICATORS
from bench.steady_load import Many, Steady
from bench.throughput import Copied


@dataclass(frozen=True, slots=True)
class Target:
    what: str
    wanted: str
    measured: str
    met: bool | None  # None: not measured


def copied_table(outcomes: Sequence[Copied]) -> str:
    head = ("records", "replicator", "records/s", "MB/s", "CPU s per GB", "peak MB", "s to first")
    rows = [
        (
            each.load,
            REPLICATORS[each.replicator].name,
            f"{each.records_per_second:,.0f}",
            f"{each.megabytes_per_second:.1f}",
            _number(each.cpu_seconds_per_gigabyte),
            _number(each.peak_pss_megabytes, 0),
            f"{each.seconds_to_first_record:.1f}",
        )
        for each in outcomes
    ]
    return table(head, rows, left=2)


def links_table(used: Sequence[LinkUsed]) -> str:
    head = ("case", "replicator", "link", "conditions", "tasks", "measured round trip ms")
    rows = [
        (
            each.case,
            REPLICATORS[each.replicator].name,
            each.kind,
            each.conditions,
            str(each.tasks),
            f"{each.round_trip_ms:.1f}",
        )
        for each in used
    ]
    return table(head, rows, left=4)


def steady_table(outcomes: Sequence[Steady]) -> str:
    head = (
        "replicator",
        "records",
        "missing",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
        "CPU %",
        "idle CPU %",
        "peak MB",
    )
    rows = [
        (
            REPLICATORS[each.replicator].name,
            f"{each.records:,}",
            f"{each.missing:,}",
            *(_number(value) for value in (each.p50_ms, each.p99_ms, each.p999_ms, each.most_ms)),
            _number(each.cpu_percent),
            _number(each.idle_cpu_percent),
            _number(each.peak_pss_megabytes, 0),
        )
        for each in outcomes
    ]
    return table(head, rows, left=1)


def many_table(outcomes: Sequence[Many]) -> str:
    head = (
        "replicator", "partitions", "records/s", "missing", "p50 ms", "p99 ms", "CPU %", "idle CPU %", "peak MB",
        "s to all",
    )  # fmt: skip
    rows = [
        (
            REPLICATORS[each.replicator].name,
            f"{each.partitions:,}",
            f"{each.records_per_second:,.0f}",
            f"{each.missing:,}",
            _number(each.p50_ms),
            _number(each.p99_ms),
            _number(each.cpu_percent),
            _number(each.idle_cpu_percent),
            _number(each.peak_pss_megabytes, 0),
            f"{each.seconds_to_all_partitions:.1f}",
        )
        for each in outcomes
    ]
    return table(head, rows, left=1)


def targets(copied: Sequence[Copied], steadies: Sequence[Steady], manies: Sequence[Many]) -> list[Target]:
    """The targets for which this run has results; Twinlog against MM2 tuned, unless stated otherwise."""
    found = [
        _faster(copied, "1kb", "throughput, 1 KB records", 2.5),
        _faster(copied, "100b", "throughput, 100 B records", 5),
        _cheaper(copied, "1kb", "CPU per GB, 1 KB records", 8),
        _cheaper(copied, "100b", "CPU per GB, 100 B records", 25),
        _tiny(copied),
        _faster(copied, "tls", "throughput, 1 KB records over TLS", 1),
        *(_faster(copied, case, f"throughput, {FAR[case].load.name}", 1) for case in FAR),
        *_latency(steadies),
        *_idle(steadies),
        *_scaling(manies),
    ]
    return [each for each in found if each is not None]


def targets_table(found: Sequence[Target]) -> str:
    rows = [
        (each.what, each.wanted, each.measured, "-" if each.met is None else "yes" if each.met else "NO")
        for each in found
    ]
    return table(("Twinlog", "wanted", "measured", "met"), rows, left=4)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> str:
    """The first `left` columns are left-aligned, the others right-aligned."""
    all_rows = [head, *rows]
    widths = [max(len(row[column]) for row in all_rows) for column in range(len(head))]
    lines = []
    for row in all_rows:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    line = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([lines[0], line, *lines[1:]])


def _pick(copied: Sequence[Copied], case: str, replicator: str) -> Copied | None:
    return next((each for each in copied if (each.case, each.replicator) == (case, replicator)), None)


def _faster(copied: Sequence[Copied], case: str, what: str, wanted: float) -> Target | None:
    ours, theirs = _pick(copied, case, "twinlog"), _pick(copied, case, "tuned")
    if ours is None or theirs is None:
        return None
    ratio = ours.records_per_second / max(theirs.records_per_second, 1e-6)
    return Target(what, f">= {wanted:g} x MM2 tuned", f"{ratio:.1f} x", ratio >= wanted)


def _cheaper(copied: Sequence[Copied], case: str, what: str, wanted: float) -> Target | None:
    ours, theirs = _pick(copied, case, "twinlog"), _pick(copied, case, "tuned")
    if ours is None or theirs is None:
        return None
    a, b = ours.cpu_seconds_per_gigabyte, theirs.cpu_seconds_per_gigabyte
    if a is None or b is None:
        return Target(what, f"<= 1/{wanted:g} of MM2 tuned", "not measured here", None)
    ratio = b / max(a, 1e-6)
    return Target(what, f"<= 1/{wanted:g} of MM2 tuned", f"1/{ratio:.1f}", ratio >= wanted)


def _tiny(copied: Sequence[Copied]) -> Target | None:
    ours = _pick(copied, "tiny", "twinlog")
    theirs = [each for key in ("shipped", "tuned") if (each := _pick(copied, "tiny", key)) is not None]
    if ours is None or not theirs:
        return None
    ratio = ours.records_per_second / max(1e-6, *(each.records_per_second for each in theirs))
    return Target("throughput, one-record batches", ">= 1 x the faster MM2", f"{ratio:.2f} x", ratio >= 1)


def _latency(steadies: Sequence[Steady]) -> list[Target]:
    ours, theirs = _of(steadies, "twinlog"), _of(steadies, "shipped")
    if ours is None or theirs is None:
        return []
    percentiles: tuple[tuple[str, Callable[[Steady], float]], ...] = (
        ("p50", lambda each: each.p50_ms),
        ("p99", lambda each: each.p99_ms),
    )
    return [
        Target(
            f"latency at a steady rate, {name}",
            "below MM2 as shipped",
            f"{value(ours):.1f} ms vs. {value(theirs):.1f} ms",
            value(ours) < value(theirs),
        )
        for name, value in percentiles
    ]


def _idle(steadies: Sequence[Steady]) -> list[Target]:
    ours = _of(steadies, "twinlog")
    if ours is None or ours.idle_cpu_percent is None:
        return []
    return [Target("idle flow", "< 5 % of a core", f"{ours.idle_cpu_percent:.1f} %", ours.idle_cpu_percent < 5)]


def _scaling(manies: Sequence[Many]) -> list[Target]:
    ours = sorted((each for each in manies if each.replicator == "twinlog"), key=lambda each: each.partitions)
    if not ours:
        return []
    few, lots = ours[0], ours[-1]
    works = Target(f"{lots.partitions:,} partitions", "works", f"{lots.missing} records missing", lots.missing == 0)
    if few is lots or few.cpu_percent is None or lots.cpu_percent is None:
        return [works]
    times = lots.partitions / few.partitions
    growth = lots.cpu_percent / max(few.cpu_percent, 1e-6)
    return [
        works,
        Target(f"CPU at {times:g} times the partitions", f"<= {times:g} x", f"{growth:.1f} x", growth <= times),
    ]


def _of(steadies: Sequence[Steady], replicator: str) -> Steady | None:
    return next((each for each in steadies if each.replicator == replicator), None)


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
