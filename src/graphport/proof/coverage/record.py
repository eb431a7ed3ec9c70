"""Coverage of a proof: the parts of a model that its test inputs reached, and the unreached parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of a model. Parts have short noun phrases, equal in all records, so that records merge.

    Phrases: `body of Loop 'decode'`, `else branch of If 'cached'`, `false side of Where 'mask'`, `upper limit of
    Clip 'act'`, `rows of 'embedding'`, `2 iterations of Loop 'decode'`, `piece 'conv1'`.
    """

    branches: frozenset[str] = frozenset()
    """Branches, sides, limits and table rows that a test input reached."""
    iterations: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    """Iteration counts that were run, by the phrase of the body (`body of Loop 'decode'`)."""
    sizes: tuple[Mapping[str, int], ...] = ()
    """The choices of sizes of open dims that both files computed."""
    pieces: frozenset[str] = frozenset()
    """Segments that were compared by themselves or proven equal without a run."""
    never: tuple[str, ...] = ()
    """Parts that were never reached, in the order in which they are reported."""

    @property
    def complete(self) -> bool:
        """Whether everything was reached."""
        return not self.never

    @property
    def reached_phrases(self) -> frozenset[str]:
        """The phrases of all parts that were reached. A body is reached if it ran at least once."""
        bodies = {phrase for phrase, counts in self.iterations.items() if any(counts)}
        return self.branches | self.pieces | bodies

    def merged(self, other: Coverage) -> Coverage:
        """Coverage of both sets of runs. A part that either reached is no longer listed as never reached."""
        iterations = {
            phrase: self.iterations.get(phrase, frozenset()) | other.iterations.get(phrase, frozenset())
            for phrase in dict.fromkeys((*self.iterations, *other.iterations))
        }
        sizes = [*self.sizes, *(each for each in other.sizes if each not in self.sizes)]
        both = Coverage(self.branches | other.branches, iterations, tuple(sizes), self.pieces | other.pieces)
        reached = both.reached_phrases
        never = tuple(phrase for phrase in dict.fromkeys((*self.never, *other.never)) if phrase not in reached)
        return Coverage(both.branches, iterations, both.sizes, both.pieces, never)

    def as_json(self) -> dict[str, Any]:
        """Plain data: the `coverage` of documents."""
        return {
            "branches": sorted(self.branches),
            "iterations": {phrase: sorted(counts) for phrase, counts in self.iterations.items()},
            "sizes": [dict(each) for each in self.sizes],
            "pieces": sorted(self.pieces),
            "never": list(self.never),
        }
