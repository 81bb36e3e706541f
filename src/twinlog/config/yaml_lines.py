"""Reads YAML with the line of every value, and scalars as the text that Kubernetes would pass on."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from twinlog.config.files import Source
from twinlog.config.problems import Problems, did_you_mean
from twinlog.config.values import Origin

# `secretName: source-user   ------- 1`: a guide's callout, never part of a Kubernetes value.
_CALLOUT = re.compile(r"^(.*?\S)\s+-{4,}\s*\d+\s*$")
# `bootstrapServers: #Dest service#`: a comment in YAML, but meant as a placeholder by guides.
_HASHED = re.compile(r"^(\s*(?:- )?bootstrapServers:)\s+(#[^#]+#)\s*$")

_MAX_VALUES = 100_000  # in a file, including those repeated by anchors


@dataclass(frozen=True, slots=True)
class Tree:
    """A value of a YAML document: a text, None, a list or a mapping of trees."""

    content: Any
    file: str
    line: int
    path: str
    problems: Problems = field(repr=False)

    @property
    def origin(self) -> Origin:
        return Origin("file", self.file, self.line, self.path)

    def __bool__(self) -> bool:
        return self.content is not None

    def get(self, key: str) -> "Tree":
        """The value under a key; an empty tree if there is none, so that calls can be chained."""
        if isinstance(self.content, dict) and key in self.content:
            found: Tree = self.content[key]
            return found
        return Tree(None, self.file, self.line, f"{self.path}.{key}".lstrip("."), self.problems)

    def items(self) -> Iterator[tuple[str, "Tree"]]:
        if isinstance(self.content, dict):
            yield from self.content.items()
        elif self:
            self.complain("expected a mapping of keys to values")

    def each(self) -> Iterator["Tree"]:
        if isinstance(self.content, list):
            yield from self.content
        elif self:
            self.complain("expected a list")

    def text(self, default: str = "") -> str:
        if isinstance(self.content, dict | list):
            self.complain("expected a string")
            return default
        return default if self.content is None else str(self.content)

    def required(self) -> str:
        text = self.text().strip()
        if not text:
            self.complain_missing()
        return text

    def complain(self, what: str) -> None:
        self.problems.error(self.origin, f"{self.path}: {what}")

    def complain_missing(self) -> None:
        self.problems.error(self.origin, f"{self.path} is missing")

    def warn_unknown(self, *fields: str) -> None:
        """Warns of fields other than these."""
        if isinstance(self.content, dict):
            for key, tree in self.content.items():
                if key not in fields:
                    self.problems.warn(tree.origin, f"{tree.path}: unknown field, ignored{did_you_mean(key, fields)}")


def read_yaml(source: Source, problems: Problems) -> list[Tree]:
    """Every document of the file."""
    lines = source.text.splitlines()
    if callouts := [str(number) for number, line in enumerate(lines, 1) if _CALLOUT.match(line)]:
        problems.note(
            source.name, f"callouts (dashes and a number) are ignored at the end of lines {', '.join(callouts)}"
        )
    text = "\n".join(map(_without_callout, lines))
    trees = []
    try:
        loader = yaml.SafeLoader(text)
        budget = itertools.count(1)
        while loader.check_node():
            trees.append(_tree(loader, loader.get_node(), source.name, "", problems, budget))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        what = re.sub(r" '.*'", "", error.problem or "unreadable")  # the name of an anchor may be a secret
        problems.error(f"{source.name}:{line}", f"invalid YAML: {what}")
    except yaml.YAMLError as error:
        problems.error(source.name, f"invalid YAML: {' '.join(str(error).split())}")
    except (RecursionError, OverflowError):
        problems.error(source.name, "YAML too large: nested too deeply, or anchors repeated too often")
    return trees


def _without_callout(line: str) -> str:
    if match := _CALLOUT.match(line):
        line = match[1]
    if match := _HASHED.match(line):
        line = f'{match[1]} "{match[2]}"'
    return line if line.strip() else ""


def _tree(loader: yaml.SafeLoader, node: Any, file: str, path: str, problems: Problems, budget: Iterator[int]) -> Tree:
    content: Any
    if next(budget) > _MAX_VALUES:
        raise OverflowError
    if isinstance(node, yaml.MappingNode):
        loader.flatten_mapping(node)  # merges `<<: *anchor`
        content = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            # Kafka's keys contain dots: brackets keep the path readable.
            below = f"{path}[{key}]" if "." in key else f"{path}.{key}".lstrip(".")
            if key in content:
                problems.warn(
                    f"{file}:{key_node.start_mark.line + 1}", f"{below} is set twice: this one counts; remove one"
                )
            content[key] = _tree(loader, value_node, file, below, problems, budget)
    elif isinstance(node, yaml.SequenceNode):
        content = [
            _tree(loader, child, file, f"{path}[{number}]", problems, budget) for number, child in enumerate(node.value)
        ]
    else:
        try:
            content = _scalar(loader, node)
        except (ValueError, LookupError):
            problems.error(f"{file}:{node.start_mark.line + 1}", f"{path}: value does not match its YAML tag")
            content = None
    return Tree(content, file, node.start_mark.line + 1, path, problems)


def _scalar(loader: yaml.SafeLoader, node: Any) -> str | None:
    if node.tag in (
        "tag:yaml.org,2002:null",
        "tag:yaml.org,2002:bool",
        "tag:yaml.org,2002:int",
        "tag:yaml.org,2002:float",
    ):
        value = loader.construct_object(node)
        return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return str(node.value)
