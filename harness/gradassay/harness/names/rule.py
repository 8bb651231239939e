"""One rule of a map: which of the framework's parameters it is about, and what they are in the problem."""

from __future__ import annotations

from dataclasses import dataclass

from gradassay.goldens.errors import UsageError
from gradassay.harness.names.pattern import Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a fused tensor. to: its canonical name, None for a part that the problem does not train.

    size: its share of the fused axis, in rows or heads: only the proportions count. None: taken from canonical shapes.
    """

    to: Pattern | None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Many parameters in one tensor, numbered by the placeholder `of`.

    [.., count, ..], an axis that the canonical ones lack; joined: [.., count * rows, ..], one after the other.
    """

    of: str
    axis: int = 0
    joined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What becomes of the framework's parameters that match `source`; in this order:

    stack: one of many is taken out. transpose: order of the axes then, as in numpy. parts: along `axis` then, in each
    of `groups` equal groups of rows one part after the other; a single part is the whole tensor. cut: along this axis
    rows beyond the canonical shape are dropped.

    local: the placeholder that counts from 0 on every expert-parallel rank. optional: may match no parameter.
    Raises UsageError for what contradicts itself.
    """

    source: Pattern
    parts: tuple[Part, ...]
    axis: int = 0
    groups: int = 1
    stack: Stack | None = None
    local: str | None = None
    transpose: tuple[int, ...] | None = None
    cut: int | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        self._check_placeholders()
        if self.transpose is not None and sorted(self.transpose) != list(range(len(self.transpose))):
            self._refuse(f"transpose = {list(self.transpose)} is no order of axes", "write [1, 0] for a matrix")
        if self.fused and self.cut is not None:
            self._refuse("cut together with parts", "cut applies to a tensor that is not split")
        if not self.fused and (self.groups != 1 or self.axis != 0):
            self._refuse("axis and groups without parts", "list the parts that the axis is split into")
        sizes = [part.size for part in self.parts]
        if self.fused and None in sizes and any(size is not None for size in sizes):
            self._refuse(f"sizes {sizes} for some of its parts", "give a size to every part, or to none")
        if self.fused and None in sizes and any(part.to is None for part in self.parts):
            self._refuse("a part without a name, and no sizes", "give every part its size: nothing else tells them")

    @property
    def fused(self) -> bool:
        """Whether the tensor is split into parts."""
        return len(self.parts) > 1

    @property
    def targets(self) -> tuple[Pattern, ...]:
        """Canonical patterns of the parts that have one."""
        return tuple(part.to for part in self.parts if part.to is not None)

    def _check_placeholders(self) -> None:
        known = set(self.source.placeholders)
        if not self.targets:
            self._refuse("no canonical name", "give `to`, or list the pattern under `ignore`")
        if self.stack is not None and self.stack.of in known:
            self._refuse(f"stack of {{{self.stack.of}}}, which its own name numbers", "leave it out of `from`")
        wanted = known | ({self.stack.of} if self.stack else set())
        for target in self.targets:
            lacking = sorted(wanted ^ set(target.placeholders))
            if lacking:
                self._refuse(
                    f"{{{lacking[0]}}} stands in only one of it and {target.text!r}",
                    "every placeholder of `from`, and that of `stack`, must stand in `to`, and no other",
                )
        if self.local is not None and self.local not in wanted:
            self._refuse(
                f"local = {self.local!r} is none of its placeholders", f"they are: {', '.join(sorted(wanted))}"
            )
        if self.local is not None and self.stack is not None and self.local != self.stack.of:
            self._refuse(f"local = {self.local!r} beside a stack of {{{self.stack.of}}}", "let both be the same")

    def _refuse(self, problem: str, hint: str) -> None:
        raise UsageError(f"rule {self.source.text!r}: {problem}", hint=hint, rule=self.source.text)
