"""Random nets of convolutions with shared weights, followed by affine maps: equal results and bounded size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.ir.graph import Graph, Value
from graphport.ir.verify import verify
from graphport.passes.fuse_batchnorm import fuse_batchnorm
from graphport.passes.fuse_scale import fuse_scale
from graphport.passes.journal import Journal
from graphport.passes.remove_dead import remove_dead
from tests.draws import times
from tests.passes.cases import bn, info, model, node, norm, some

CHANNELS = 4
CONSTANTS = {
    "w": some(CHANNELS, CHANNELS, 1, 1),
    "v": some(CHANNELS, CHANNELS, 1, 1, seed=1),
    "b": some(CHANNELS),
    "k0": some(CHANNELS, 1, 1),
    "k1": np.float32(-1.5),
    **norm(CHANNELS, "n0"),
    **{f"n1{name}": array[::-1].copy() + 1 for name, array in norm(CHANNELS).items()},
}
BYTES = {name: CONSTANTS[name].nbytes for name in "wvb"}


class Reader(NamedTuple):
    """A convolution and the operator after it."""

    weight: str
    has_bias: bool
    behind: str
    """A factor, a normalization, or nothing that a weight takes in."""

    @property
    def is_taken_in(self) -> bool:
        return self.behind != "none"


readers = st.lists(
    st.builds(Reader, st.sampled_from("wwv"), st.booleans(), st.sampled_from(["k0", "k1", "n0", "n1", "none"])),
    min_size=2,
    max_size=5,
)


def net(given: list[Reader]) -> gp.Model:
    nodes: list[Any] = []
    for index, reader in enumerate(given):
        nodes.append(node("Conv", f"x{index} {reader.weight}{' b' * reader.has_bias}", f"h{index}"))
        match reader.behind[0]:
            case "k":
                nodes.append(node("Mul", f"h{index} {reader.behind}", f"y{index}"))
            case "n" if reader.is_taken_in:
                nodes.append(bn(f"h{index}", f"y{index}", reader.behind))
            case _:
                nodes.append(node("Tanh", f"h{index}", f"y{index}"))
    used = {name for each in nodes for name in each.input}
    inputs = [info(f"x{index}", [2, CHANNELS, 3, 3]) for index in range(len(given))]
    outputs = [info(f"y{index}", None) for index in range(len(given))]
    return gp.from_onnx(model(nodes, inputs, outputs, {name: a for name, a in CONSTANTS.items() if name in used}))


def weights(graph: Graph) -> set[Value]:
    """Constants that convolutions read."""
    found = {value for each in graph if each.op == "Conv" for value in each.operands if value.is_constant}
    return {value for value in found if value.storage is not None}


def made(given: list[Reader], room: int, *passes: Any) -> tuple[gp.Model, Journal, int]:
    """Apply passes and check the results. Return the net, the journal, and the growth of its weights in bytes."""
    told = net(given)
    feeds = {f"x{index}": some(2, CHANNELS, 3, 3, seed=index) for index in range(len(given))}
    expected = gp.run(told, feeds, backend="reference").ordered
    before = sum(value.storage.nbytes for value in weights(told.graph) if value.storage)
    own = weights(told.graph)
    journal = Journal(room=room)
    count = -1
    while len(journal.done) > count:  # as in preparation: a fusion refused for its size may fit later
        count = len(journal.done)
        journal.left.clear()
        for work in passes:
            work(told.graph, journal)
    verify(told.graph)
    remove_dead(told.graph, Journal())
    for found, one in zip(gp.run(told, feeds, backend="reference").ordered, expected, strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-5, atol=1e-5)
    # A bias where none was takes no weight's place.
    after = [value for value in weights(told.graph) if value in own or is_of_shared(value, told.graph, given)]
    return told, journal, sum(value.storage.nbytes for value in after if value.storage) - before


def is_of_shared(value: Value, graph: Graph, given: list[Reader]) -> bool:
    """Return whether a value is a weight or an original bias."""
    uses = [(use.user, use.index) for use in value.uses]
    convs = [each for each in graph if each.op == "Conv"]
    return any(index == 1 or given[convs.index(user)].has_bias for user, index in uses)


@settings(max_examples=times(30))
@example([Reader("w", True, "k1"), Reader("w", False, "k0"), Reader("w", True, "k1")], 1, [fuse_batchnorm, fuse_scale])
@given(readers, st.integers(0, 4), st.permutations([fuse_batchnorm, fuse_scale]))
def test_weights_become_no_larger_than_there_is_room(given: list[Reader], copies: int, passes: list[Any]) -> None:
    room = copies * (BYTES["w"] + BYTES["b"]) - copies % 2
    _, journal, growth = made(given, room, *passes)
    assert growth <= room - journal.room <= room
    assert len(journal.done) + len(journal.left) == sum(reader.is_taken_in for reader in given)


@settings(max_examples=times(30))
@given(readers, st.permutations([fuse_batchnorm, fuse_scale]))
def test_consumers_with_equal_changes_share_one_weight(given: list[Reader], passes: list[Any]) -> None:
    told, journal, _ = made(given, 1 << 20, *passes)
    convs = [each for each in told.graph if each.op == "Conv"]
    assert not journal.left
    assert not [each.op for each in told.graph if each.op not in ("Conv", "Tanh")]
    for index, kinds in (
        (1, [(r.weight, r.behind) for r in given]),
        (2, [r.behind if r.has_bias else None for r in given]),
    ):
        read = [each.operand(index) for each in convs]
        pairs = {(kind, value) for kind, value in zip(kinds, read, strict=True) if kind is not None}
        assert len({kind for kind, _ in pairs}) == len(pairs) == len({value for _, value in pairs})


@settings(max_examples=times(30))
@given(st.integers(2, 4), st.booleans(), st.sampled_from(["k0", "k1"]), st.booleans())
def test_change_common_to_all_consumers_does_not_grow_weights(
    count: int, has_bias: bool, behind: str, is_by_all: bool
) -> None:
    given = [Reader("w", has_bias, behind)] * count
    given = given if is_by_all else [*given, Reader("w", has_bias, "none")]
    told, journal, growth = made(given, 0, fuse_scale)
    assert (growth, len(journal.left)) == ((0, 0) if is_by_all else (0, count))
    assert sum(each.op == "Mul" for each in told.graph) == (0 if is_by_all else count)
