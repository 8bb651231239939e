"""A canonical parameter as a box of a framework's tensor: narrowed, its axes factored and put in another order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Where a canonical parameter lies in a framework's unsharded tensor.

    sizes: the tensor's axes, some of them factored; their row-major order is the tensor's own. first, extent: the box
    along each of these. axes: those that make up each canonical axis, outer first; what none of them has is of extent 1.
    """

    sizes: tuple[int, ...]
    first: tuple[int, ...]
    extent: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> View:
        """The whole of a tensor of this shape as it is."""
        sizes = shape or (1,)
        return cls(
            sizes=sizes, first=(0,) * len(sizes), extent=sizes, axes=tuple((axis,) for axis in range(len(shape)))
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The canonical shape."""
        return tuple(prod(self.extent[factor] for factor in axis) for axis in self.axes)

    @property
    def order(self) -> tuple[int, ...]:
        """The factors in canonical row-major order, before them those that no axis has."""
        used = [factor for axis in self.axes for factor in axis]
        return (*(factor for factor in range(len(self.sizes)) if factor not in used), *used)

    def transposed(self, order: tuple[int, ...]) -> View:
        """Its axes in another order, as numpy's transpose."""
        return replace(self, axes=tuple(self.axes[axis] for axis in order))

    def selected(self, axis: int, index: int) -> View:
        """The entry `index` along `axis`, without that axis."""
        narrowed = self.narrowed(axis, index, 1)
        return replace(narrowed, axes=(*self.axes[:axis], *self.axes[axis + 1 :]))

    def narrowed(self, axis: int, first: int, rows: int) -> View:
        """Rows [first, first + rows) along `axis`."""
        factor = self._factor(axis)
        return replace(
            self,
            first=_put(self.first, factor, (self.first[factor] + first,)),
            extent=_put(self.extent, factor, (rows,)),
        )

    def block(self, axis: int, blocks: int, index: int) -> View:
        """Of `blocks` equal blocks along `axis` the one numbered `index`."""
        factored = self._factored(axis, blocks)
        outer = self._factor(axis)
        return replace(
            factored,
            first=_put(factored.first, outer, (index,)),
            extent=_put(factored.extent, outer, (1,)),
        )

    def of_groups(self, axis: int, groups: int, first: int, rows: int) -> View:
        """In each of `groups` equal groups along `axis` the rows [first, first + rows), one group after the other."""
        if groups == 1:
            return self.narrowed(axis, first, rows)
        inner = self._factor(axis) + 1
        factored = self._factored(axis, groups)
        return replace(
            factored, first=_put(factored.first, inner, (first,)), extent=_put(factored.extent, inner, (rows,))
        )

    def _factor(self, axis: int) -> int:
        """The one factor along which `axis` extends."""
        extended = [factor for factor in self.axes[axis] if self.extent[factor] != 1] or list(self.axes[axis][-1:])
        assert len(extended) == 1, "an axis in groups of rows cannot be narrowed again"
        return extended[0]

    def _factored(self, axis: int, outer: int) -> View:
        """The factor of `axis` as two: `outer` times what is left."""
        factor = self._factor(axis)
        size = self.sizes[factor]
        assert (self.first[factor], self.extent[factor]) == (0, size), "only a whole axis is factored"
        assert size % outer == 0, f"{size} rows in {outer} groups"
        pair = (outer, size // outer)

        def moved(own: tuple[int, ...]) -> tuple[int, ...]:
            later = [number + (number > factor) for number in own]
            return tuple(
                split for number in later for split in ((number, number + 1) if number == factor else (number,))
            )

        return View(
            sizes=_put(self.sizes, factor, pair),
            first=_put(self.first, factor, (0, 0)),
            extent=_put(self.extent, factor, pair),
            axes=tuple(moved(own) for own in self.axes),
        )


def _put(numbers: tuple[int, ...], place: int, new: tuple[int, ...]) -> tuple[int, ...]:
    return (*numbers[:place], *new, *numbers[place + 1 :])
