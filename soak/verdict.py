"""What is wrong with a copy, by the numbers of its records. Pure; see traffic.py for the numbers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from soak.traffic import Sent


@dataclass(frozen=True, slots=True)
class Verdict:
    records: int = 0
    lost: int = 0  # acknowledged by the source, and not on the target
    doubled: int = 0
    reordered: int = 0
    aborted: int = 0  # on the target, though its transaction was aborted
    unknown: int = 0  # on the target, and never sent
    examples: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not any((self.lost, self.doubled, self.reordered, self.aborted, self.unknown))

    def __str__(self) -> str:
        wrong = {key: value for key, value in asdict(self).items() if key not in {"records", "examples"} and value}
        counts = ", ".join(f"{value:,} {key}" for key, value in wrong.items())
        return f"{self.records:,} records: {counts or 'complete, each once, in order'}" + "".join(
            f"\n  {example}" for example in self.examples
        )


def judge(sent: Sent, found: Sequence[int], key: Callable[[int], bytes] | None = None) -> Verdict:
    """`found` are the numbers on the target, in its order. With `key` the topic is compacted: of the records with one
    key only the newest must be there, or a newer one that was not acknowledged.
    """
    counts = Counter(found)
    first = list(counts)  # in the order in which they were first seen
    expected = sent.acknowledged
    if key is not None:
        newest: dict[bytes, int] = {}
        for number in sorted(expected):
            newest[key(number)] = number
        seen: dict[bytes, int] = {}
        for number in counts:
            seen[key(number)] = max(seen.get(key(number), -1), number)
        expected = {number for each, number in newest.items() if seen.get(each, -1) < number}
    lost = sorted(expected - counts.keys())
    doubled = sorted(number for number, count in counts.items() if count > 1)
    late = [after for before, after in pairwise(first) if after < before]
    aborted = sorted(counts.keys() & sent.aborted)
    unknown = sorted(number for number in counts if not 0 <= number < sent.next)
    kinds = {"lost": lost, "doubled": doubled, "reordered": late, "aborted": aborted, "unknown": unknown}
    return Verdict(
        len(found),
        len(lost),
        sum(counts[number] - 1 for number in doubled),
        len(late),
        len(aborted),
        len(unknown),
        tuple(f"{kind}: numbers {_some(numbers)}" for kind, numbers in kinds.items() if numbers),
    )


def _some(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - 5:,} more" if len(numbers) > 5 else ""
    return ", ".join(map(str, numbers[:5])) + more
