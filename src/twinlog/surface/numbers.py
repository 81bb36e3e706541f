"""Numbers as people read them."""


def amount(number: int) -> str:
    return f"{number:,}"


def counted(number: int, thing: str) -> str:
    """`1 topic`, `1,200 topics`."""
    return f"{amount(number)} {thing}{'' if number == 1 else 's'}"


def size(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.2f} GB"
