from __future__ import annotations

from graphport.formats.nnef.container.syntax import Array, Binary, Call, Name, Number, String, Tuple, Unary
from tests.formats.nnef.documents import final, tree


def test_trees_are_equal_by_what_they_say_not_by_where():
    assert Name("a", 3, 4) == Name("a", 7, 8)
    assert Name("a") != Name("b")
    assert Number("1") != Number("1.0")
    assert Number("1") != Name("1")
    assert Array((Name("a"),)) != Tuple((Name("a"), Name("b")))
    assert Call("f", ()) != Call("f", (), "scalar")


def test_deep_trees_are_compared():
    def deep(end):
        node = Name(end)
        for _ in range(100_000):
            node = Unary("-", node)
        return node

    assert deep("a") == deep("a")
    assert deep("a") != deep("b")


def test_nodes_show_themselves_shallowly():
    assert repr(Binary("+", Name("a"), Name("b"))) == "Binary(operator='+')"


def test_literals_have_values():
    assert Number("12").value == 12
    assert Number("1.50").value == 1.5
    assert String(r"'a\'b'").value == "a'b"


def test_equal_arrays_share_their_items_and_know_their_own_places():
    text = final("a = reshape(x, shape = [1, 2]);", "y = reshape(a, shape = [1, 2]);")
    graph = tree(text).graph
    assert graph is not None
    calls = [statement.value for statement in graph.body[1:] if isinstance(statement.value, Call)]
    arrays = [each for call in calls if isinstance(each := call.arguments[1].value, Array)]
    assert arrays[0].shared is arrays[1].shared
    assert [[text[item.start : item.stop] for item in array.items] for array in arrays] == [["1", "2"], ["1", "2"]]
    assert arrays[0].items[0].start < arrays[1].items[0].start


def test_a_document_keeps_its_comments():
    document = tree("# one\n" + final("y = relu(x); # two '3'"))
    assert [comment.text for comment in document.comments] == ["# one", "# two '3'"]
