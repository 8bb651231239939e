"""A rule applied to one of the framework's parameters: which canonical ones lie where in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd
from typing import NoReturn

from gradassay.goldens.errors import UsageError
from gradassay.harness.names.apply import Source
from gradassay.harness.names.canonical import Canonical, nearest
from gradassay.harness.names.rule import Part, Rule
from gradassay.harness.names.view import View

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolver:
    """One rule on one parameter. shape: the framework's own unsharded one. meanings: of the rule's placeholders."""

    rule: Rule
    name: str
    shape: Shape
    meanings: Mapping[str, str]
    canonical: Canonical

    def sources(self) -> list[Source]:
        """Every canonical parameter in it. Raises UsageError, with the arithmetic, where names or shapes do not fit."""
        found = []
        for meanings, view in self._unstacked():
            if self.rule.transpose is not None:
                if len(self.rule.transpose) != len(view.shape):
                    self._refuse(
                        f"transpose = {list(self.rule.transpose)} of {len(view.shape)} axes {list(view.shape)}"
                    )
                view = view.transposed(self.rule.transpose)
            for part, piece in self._parts(meanings, view):
                if part.to is not None:
                    found.append(self._checked(part.to.fill(meanings), self._cut(part, meanings, piece)))
        return found

    def _unstacked(self) -> Iterator[tuple[Mapping[str, str], View]]:
        """What each of the stacked ones is called and where it lies; the whole tensor where nothing is stacked."""
        rule, whole = self.rule, View.whole(self.shape)
        local = 0 if rule.local is None else self._count(rule.local) // self.canonical.ep
        first = self.canonical.ep_rank * local
        stack = rule.stack
        if stack is None:
            meanings = dict(self.meanings)
            if rule.local is not None:
                number = int(meanings[rule.local])
                if number >= local:
                    self._refuse(f"{rule.local} {number}, but each of {self.canonical.ep} ranks has {local} of them")
                meanings[rule.local] = str(first + number)
            yield meanings, whole
            return
        count = local or self._count(stack.of)
        self._check_axis(stack.axis, whole, "stack")
        rows = self.shape[stack.axis]
        if rows % count if stack.joined else rows != count:
            total = self._count(stack.of)
            of = f"{total}" if rule.local is None else f"{total} / {self.canonical.ep} = {count}"
            self._refuse(
                f"axis {stack.axis} has {rows} rows for {of} numbers of {{{stack.of}}}",
                hint="say local = " + repr(stack.of) + " where every expert-parallel rank has a tensor of its own"
                if rule.local is None and rows * self.canonical.ep == total
                else "",
            )
        for index in range(count):
            view = whole.block(stack.axis, count, index) if stack.joined else whole.selected(stack.axis, index)
            yield {**self.meanings, stack.of: str(first + index)}, view

    def _count(self, of: str) -> int:
        """How many of the numbered kind the problem has; `of` may be given in meanings or not."""
        target = self.rule.targets[0]
        total = self.canonical.count(target, of, self.meanings)
        if total == 0:
            name = target.fill({**self.meanings, of: self.meanings.get(of, "0")})
            self._refuse(f"gives {name!r}, which is no parameter of the problem", hint=self._hint(name))
        if self.rule.local is not None and total % self.canonical.ep:
            self._refuse(f"{total} numbers of {{{of}}} on {self.canonical.ep} expert-parallel ranks")
        return total

    def _parts(self, meanings: Mapping[str, str], view: View) -> Iterator[tuple[Part, View]]:
        rule = self.rule
        if not rule.fused:
            yield rule.parts[0], view
            return
        self._check_axis(rule.axis, view, "split")
        rows, left = divmod(view.shape[rule.axis], rule.groups)
        if left:
            self._refuse(f"{view.shape[rule.axis]} rows along axis {rule.axis} in {rule.groups} groups")
        first = 0
        for part, size in zip(rule.parts, self._sizes(meanings, rows), strict=True):
            yield part, view.of_groups(rule.axis, rule.groups, first, size)
            first += size

    def _sizes(self, meanings: Mapping[str, str], rows: int) -> list[int]:
        """Rows of every part in a group of `rows`."""
        rule = self.rule
        given = [part.size for part in rule.parts if part.size is not None]
        if given:
            given = [size // gcd(*given) for size in given]
            share, left = divmod(rows, sum(given))
            if left:
                self._refuse(f"a group of {rows} rows in {' + '.join(map(str, given))} = {sum(given)} shares")
            return [share * size for size in given]
        shapes = [self._shape(target.fill(meanings)) for target in rule.targets]
        sizes = [shape[rule.axis] if rule.axis < len(shape) else 0 for shape in shapes]
        if any(size % rule.groups for size in sizes) or sum(sizes) != rows * rule.groups:
            self._refuse(
                f"axis {rule.axis} has {rows * rule.groups} rows, its parts have {' + '.join(map(str, sizes))}"
                f" = {sum(sizes)}" + (f" in {rule.groups} groups" if rule.groups > 1 else ""),
                hint="canonical shapes: "
                + ", ".join(
                    f"{target.fill(meanings)} {list(shape)}" for target, shape in zip(rule.targets, shapes, strict=True)
                ),
            )
        return [size // rule.groups for size in sizes]

    def _cut(self, part: Part, meanings: Mapping[str, str], view: View) -> View:
        axis = self.rule.cut
        if axis is None or part.to is None:
            return view
        self._check_axis(axis, view, "cut")
        shape = self._shape(part.to.fill(meanings))
        if axis >= len(shape) or shape[axis] > view.shape[axis]:
            self._refuse(f"cut along axis {axis} to {list(shape)}, which has more rows than {list(view.shape)}")
        return view.narrowed(axis, 0, shape[axis])

    def _checked(self, name: str, view: View) -> Source:
        shape = self._shape(name)
        if view.shape != shape:
            self._refuse(
                f"gives {name} {list(view.shape)}, but its canonical shape is {list(shape)}",
                hint="the rule lacks a transpose, a cut or parts"
                if sorted(view.shape) == sorted(shape) or len(view.shape) == len(shape)
                else "the rule lacks a stack",
            )
        return Source(name=name, view=view)

    def _shape(self, name: str) -> Shape:
        shape = self.canonical.shapes.get(name)
        if shape is None:
            self._refuse(f"gives {name!r}, which is no parameter of the problem", hint=self._hint(name))
        return shape

    def _hint(self, name: str) -> str:
        close = nearest(name, self.canonical.shapes)
        return "" if close is None else f"did you mean {close!r}?"

    def _check_axis(self, axis: int, view: View, what: str) -> None:
        if axis >= len(view.shape):
            self._refuse(f"{what} along axis {axis} of {list(view.shape)}")

    def _refuse(self, problem: str, hint: str = "") -> NoReturn:
        raise UsageError(
            f"{self.name} {list(self.shape)}, by rule {self.rule.source.text!r}: {problem}",
            hint=hint,
            name=self.name,
            shape=list(self.shape),
            rule=self.rule.source.text,
        )
