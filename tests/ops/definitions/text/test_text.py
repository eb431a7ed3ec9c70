"""Operators on texts against ONNX Runtime, and what their rules refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.text import RegexFullMatch, StringConcat, StringNormalizer, StringSplit, TfIdfVectorizer
from graphport.ops.infer import Inference
from tests.ops.oracle import check_operator, run_operator

WORDS = ["", "a", "Tea", "tea", "Über", "a b", "  c  d", "a,b,,c", "x1", "2024-05-06"]


@st.composite
def texts(draw, shape):
    return np.array([draw(st.sampled_from(WORDS)) for _ in range(int(np.prod(shape)))], object).reshape(shape)


@given(st.data())
def test_concatenation_is_that_of_onnx_runtime(data):
    shapes = data.draw(st.sampled_from([((3,), (3,)), ((2, 1), (3,)), ((), (2, 2))]))
    check_operator(StringConcat, [data.draw(texts(shape)) for shape in shapes])


@given(st.data(), st.sampled_from([None, "", ",", " ", "-", ",,"]), st.sampled_from([None, 0, 1, 2]))
def test_splitting_is_that_of_onnx_runtime(data, delimiter, maxsplit):
    x = data.draw(texts(data.draw(st.sampled_from([(3,), (2, 2), ()]))))
    # Cut at a delimiter, an empty text is one empty piece, in Python and in the standard's own implementation; ONNX
    # Runtime has no piece then.
    x = np.where((x == "") & bool(delimiter), "c", x)
    check_operator(StringSplit, [x], outputs=2, delimiter=delimiter, maxsplit=maxsplit)


def test_stringsplit_of_an_empty_string_has_no_pieces():
    pieces, counts = run_operator(StringSplit, [np.array(["", "  "], object)])
    assert pieces.shape == (2, 0)
    assert counts.tolist() == [0, 0]
    assert run_operator(StringSplit, [np.array([""], object)], delimiter=",")[1].tolist() == [1]


@given(
    st.data(),
    st.sampled_from(["NONE", "LOWER", "UPPER"]),
    st.integers(0, 1),
    st.sampled_from([None, ("tea",), ("TEA", "a"), ("Tea", "x1")]),
)
def test_normalization_is_that_of_onnx_runtime(data, case, sensitive, stopwords):
    x = data.draw(texts(data.draw(st.sampled_from([(4,), (1, 3)]))))
    # The locale C, which every machine has, knows the case of no letter but ASCII's.
    attributes = {"case_change_action": case, "is_case_sensitive": sensitive, "locale": "C"}
    check_operator(StringNormalizer, [np.where(x == "Über", "Uber", x)], stopwords=stopwords, **attributes)


def test_stringnormalizer_with_only_stopwords_returns_an_empty_string():
    found = run_operator(StringNormalizer, [np.array([["tea", "TEA"]], object)], stopwords=("tea",))
    assert found[0].tolist() == [[""]]


@given(st.data(), st.sampled_from([r"\d{4}-\d\d-\d\d", "[a-z]+", "(tea|Tea)", r".*b.*", ""]))
def test_matches_are_those_of_onnx_runtime(data, pattern):
    check_operator(RegexFullMatch, [data.draw(texts((2, 3)))], pattern=pattern)


POOL = {
    "ngram_counts": (0, 4),
    "ngram_indexes": (0, 1, 2, 3, 4, 5, 6),
    "pool_int64s": (2, 3, 5, 4, 5, 6, 7, 8, 6, 7),
}


@given(
    st.integers(0, 999),
    st.sampled_from(["TF", "IDF", "TFIDF"]),
    st.integers(0, 3),
    st.sampled_from([(1, 1), (1, 2), (2, 2)]),
    st.booleans(),
)
def test_counts_of_grams_are_those_of_onnx_runtime(seed, mode, skips, lengths, weighted):
    rng = np.random.default_rng(seed)
    x = rng.integers(2, 9, (2, 7)[rng.integers(0, 2) :]).astype(np.int64)
    weights = tuple(float(n) for n in range(1, 8)) if weighted else None
    check_operator(
        TfIdfVectorizer,
        [x],
        mode=mode,
        max_skip_count=skips,
        min_gram_length=lengths[0],
        max_gram_length=lengths[1],
        weights=weights,
        **POOL,
    )


def test_texts_are_counted_like_numbers():
    x = np.array(["a", "b", "a", "c"], object)
    found = run_operator(
        TfIdfVectorizer,
        [x],
        mode="TF",
        max_skip_count=1,
        min_gram_length=1,
        max_gram_length=2,
        ngram_counts=(0, 1),
        ngram_indexes=(1, 0, 2),
        pool_strings=("a", "a", "b", "a", "a"),
    )
    assert found[0].tolist() == [1, 2, 1]


GRAMS = {"mode": "TF", "max_skip_count": 0, "min_gram_length": 1, "max_gram_length": 1}
TEXT, NUMBERS = TensorFact(DType.STRING, (3,)), TensorFact(DType.INT64, (3,))


@pytest.mark.parametrize(
    ("op_def", "operand", "attributes", "message"),
    [
        pytest.param(RegexFullMatch, TEXT, {"pattern": "("}, "the pattern", id="pattern"),
        pytest.param(StringNormalizer, TEXT, {"case_change_action": "SMALL"}, "'SMALL'", id="case"),
        pytest.param(StringNormalizer, TensorFact(DType.STRING, (2, 3)), {}, "expected strings of shape", id="rows"),
        pytest.param(TfIdfVectorizer, NUMBERS, POOL | GRAMS | {"mode": "TD"}, "unknown mode 'TD'", id="mode"),
        pytest.param(
            TfIdfVectorizer, NUMBERS, POOL | GRAMS | {"ngram_counts": (0, 9)}, "no whole n-grams of length 2", id="pool"
        ),
        pytest.param(
            TfIdfVectorizer, NUMBERS, POOL | GRAMS | {"ngram_indexes": (0,)}, "1 elements for 7 n-grams", id="places"
        ),
        pytest.param(TfIdfVectorizer, NUMBERS, POOL | GRAMS | {"weights": (1.0,)}, "1 weights for 7", id="weights"),
        pytest.param(TfIdfVectorizer, NUMBERS, POOL | GRAMS | {"min_gram_length": 0}, "grams of 0", id="length"),
        pytest.param(TfIdfVectorizer, TensorFact(DType.INT64, (1, 1, 3)), POOL | GRAMS, "rank 3", id="rank"),
    ],
)
def test_texts_are_refused(op_def, operand, attributes, message):
    with pytest.raises(ShapeError) as caught:
        Inference().infer_operator(op_def, [operand], attributes, 1)
    assert message in f"{caught.value.message} {caught.value.help}"
