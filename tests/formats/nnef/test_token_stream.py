from __future__ import annotations

from graphport.formats.nnef.container.token_stream import Stream


def tokens(stream: Stream) -> list[str]:
    found = []
    while stream.lexeme:
        found.append(stream.advance())
    return found


def test_op_types_come_in_order_with_their_locations():
    stream = Stream("a = b;\n  c")
    assert tokens(stream) == ["a", "=", "b", ";", "c"]
    assert (stream.start, stream.stop) == (10, 10)


def test_blocks_of_a_long_text_join_without_a_seam():
    text = "\n".join(f"name{index} = relu(x);" for index in range(5000))
    assert len(tokens(Stream(text))) == 7 * 5000


def test_seeking_goes_forward_and_back():
    text = "\n".join(f"w{index}" for index in range(20_000))
    stream = Stream(text)
    stream.seek(text.index("w15000"))
    assert stream.lexeme == "w15000"
    stream.seek(3)
    assert stream.lexeme == "w1"


def test_looking_ahead_passes_nothing():
    stream = Stream("a b c d e f g h")
    assert [stream.peek(distance) for distance in (1, 6, 9)] == ["b", "g", ""]
    assert stream.lexeme == "a"


def test_the_op_type_after_a_bracket_is_found():
    stream = Stream("[a, (b), [c]] = d")
    assert stream.after_bracket() == "="
    assert Stream("[a, b").after_bracket() == ""


def test_an_op_type_knows_whether_it_begins_its_line():
    stream = Stream("a b\n   c")
    stream.advance()
    assert not stream.begins_line()
    stream.advance()
    assert stream.begins_line()
    assert stream.column() == 3
