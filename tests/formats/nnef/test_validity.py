"""Every rule of argument validity, each with a call that breaks it alone, and calls that keep it."""

from __future__ import annotations

import pytest

from graphport.formats.nnef.container.declarations import standard
from graphport.formats.nnef.container.syntax import Edition
from graphport.formats.nnef.container.validity.table import RULES
from tests.every import every
from tests.formats.nnef.documents import codes, evaluated, final, provisional

SHAPES = {
    "x": "[2, 6, 8, 8]",
    "b": "[2, 6]",
    "v": "[12]",
    "m": "[3, 4]",
    "n": "[4, 5]",
    "s": "[1, 6, 1, 8]",
    "c": "[1, 4]",
}
VARIABLES = {
    "w": "[4, 6, 3, 3]",  # a filter for x
    "d": "[12, 1, 3, 3]",  # a depth-wise one
    "u": "[6, 4, 3, 3]",  # a filter of the other direction
    "p": "[4, 12, 1, 1]",  # a point-wise one after d
    "g": "[4, 12, 3, 3]",  # and one with a neighbourhood
    "r": "[9, 4]",  # regions
    "q": "[9, 1]",
    "e": "[4]",
    "k": "[1, 5]",
}


def document(statement: str, edition: Edition) -> str:
    """A document of `statement` and all inputs and variables of the tables above."""
    end = ";" if edition is Edition.FINAL else ""
    lines = [f"{name} = external(shape = {shape})" for name, shape in SHAPES.items()]
    lines += [f"{name} = variable(shape = {shape}, label = '{name}')" for name, shape in VARIABLES.items()]
    if edition is Edition.FINAL:
        lines.append("j = variable<integer>(shape = [9], label = 'j')")
    body = "".join(f"    {line}{end}\n" for line in [*lines, *statement.split("; ")])
    return f"version 1.0{end}\ngraph g( {', '.join(SHAPES)} ) -> ( y )\n{{\n{body}}}\n"


def found(statement: str, edition=Edition.FINAL, vectors=()) -> list[str]:
    made = "".join(f"{name} = variable(shape = {dict(vectors)[name]}, label = '{name}'); " for name in vectors)
    return codes(evaluated(document(made + statement, edition)).diagnostics)


BROKEN = [
    ("v0 = variable(shape = [2, 0], label = 'z'); y = relu(x)", "NNEF0601", "a variable with an extent of 0"),
    ("v0 = variable(shape = [-1], label = 'z'); y = relu(x)", "NNEF0601", "a negative extent"),
    ("y = constant(shape = [2, 3], value = [1.0, 2.0])", "NNEF0602", "too few values"),
    ("y = constant(shape = [2, 3], value = [])", "NNEF0602", "no values"),
    ("y = box(x, size = [1,1,3,3], border = 'mirror')", "NNEF0603", "an unknown border"),
    ("y = conv(x, w, border = 'ignore')", "NNEF0603", "a border that convolutions do not have"),
    ("y = pad(x, padding = [(0,0),(0,0),(1,1),(1,1)], border = 'ignore')", "NNEF0603", "nor paddings"),
    ("y = multilinear_upsample(x, factor = [2,2], method = 'cubic')", "NNEF0604", "an unknown method"),
    ("y = max_pool(x, size = [1,1,0,2])", "NNEF0605", "a window of 0"),
    ("y = max_pool(x, size = [1,1,2,2], stride = [1,1,-2,2])", "NNEF0605", "a negative stride"),
    ("y = conv(x, w, dilation = [0,1])", "NNEF0605", "a dilation of 0"),
    ("y = nearest_upsample(x, factor = [2,0])", "NNEF0605", "a factor of 0"),
    ("y = tile(x, repeats = [1,1,0,1])", "NNEF0605", "no repeats"),
    ("y = logarithmic_quantize(x, 4.0, bits = 0)", "NNEF0605", "no bits"),
    ("[a, y] = split(x, axis = 1, ratios = [1, 0])", "NNEF0605", "a ratio of 0"),
    ("y = max_pool(x, size = [2,2])", "NNEF0606", "a window of the spatial axes only"),
    ("y = max_pool(x, size = [1,1,2,2], stride = [2,2])", "NNEF0606", "strides of the spatial axes only"),
    ("y = conv(x, w, stride = [1,1,2,2])", "NNEF0606", "strides of all axes"),
    ("y = conv(x, w, padding = [(1,1)])", "NNEF0606", "one padding for two axes"),
    ("y = nearest_upsample(x, factor = [2])", "NNEF0606", "one factor for two axes"),
    ("y = pad(x, padding = [(1,1)])", "NNEF0606", "padding of one axis"),
    ("y = tile(x, repeats = [2])", "NNEF0606", "repeats of one axis"),
    ("y = local_response_normalization(x, size = [3])", "NNEF0606", "a window of one axis"),
    ("y = sum_reduce(x, axes = [1, 1])", "NNEF0607", "an axis twice"),
    ("y = softmax(x, axes = [1, 2, 1])", "NNEF0607", "in a softmax"),
    ("y = sum_reduce(x, axes = [4])", "NNEF0608", "an axis beyond the rank"),
    ("y = sum_reduce(x, axes = [-1])", "NNEF0608", "a negative axis"),
    ("y = concat([x, x], axis = 4)", "NNEF0608", "beyond the rank of what is joined"),
    ("y = stack([x, x], axis = 5)", "NNEF0608", "beyond the rank of what is stacked"),
    ("y = gather(x, j, axis = 4)", "NNEF0608", "beyond the rank of what is gathered from"),
    ("y = unsqueeze(x, axes = [5])", "NNEF0608", "beyond the rank of the result"),
    ("y = unsqueeze(x, axes = [1, 1])", "NNEF0607", "the same new axis twice"),
    ("y = add(x, m)", "NNEF0609", "extents that do not align from the left"),
    ("y = select(true, x, m)", "NNEF0609", "in a selection"),
    ("y = clamp(x, m, 1.0)", "NNEF0609", "in a clamp"),
    ("y = reshape(x, shape = [-2, 12])", "NNEF0610", "an item below -1"),
    ("y = reshape(x, shape = [-1, -1])", "NNEF0610", "two items to infer"),
    ("y = reshape(v, shape = [0, 0])", "NNEF0610", "an extent of an axis that is not there"),
    ("y = reshape(x, shape = [1], axis_start = 5)", "NNEF0611", "a start beyond the rank"),
    ("y = reshape(x, shape = [1], axis_start = 2, axis_count = 3)", "NNEF0611", "a count beyond the rank"),
    ("y = reshape(x, shape = [1], axis_count = -2)", "NNEF0611", "a negative count"),
    ("y = reshape(x, shape = [5, 5])", "NNEF0612", "another volume"),
    ("y = reshape(x, shape = [5, -1])", "NNEF0612", "a volume that is not divided"),
    ("y = reshape(x, shape = [4, 4], axis_start = 2)", "NNEF0612", "another volume of a part"),
    ("y = squeeze(x, axes = [0])", "NNEF0613", "an axis that is not singular"),
    ("y = transpose(m, axes = [0, 0])", "NNEF0614", "an axis twice"),
    ("y = transpose(m, axes = [1, 2])", "NNEF0614", "a gap"),
    ("y = transpose(m, axes = [2, 1, 0])", "NNEF0614", "more axes than there are"),
    ("[a, y] = split(x, axis = 1, ratios = [1, 3])", "NNEF0615", "ratios that do not divide"),
    ("y = concat([x, b], axis = 0)", "NNEF0616", "ranks that differ"),
    ("y = concat([m, n], axis = 0)", "NNEF0616", "extents that differ"),
    ("y = stack([m, n], axis = 0)", "NNEF0616", "in a stack"),
    ("y = add_n([])", "NNEF0616", "nothing to add"),
    ("y = concat<scalar>([], axis = 0)", "NNEF0616", "nothing to join"),
    ("y = desample(x, j, size = [1,1,2,2])", "NNEF0624", "an index of another shape"),
    ("y = sample(x, j, size = [1,1,2,2])", "NNEF0624", "of another rank"),
    ("y = slice(x, axes = [1, 2], begin = [1], end = [3, 4])", "NNEF0617", "arrays of two lengths"),
    ("y = slice(x, axes = [2], begin = [1], end = [3], stride = [0])", "NNEF0617", "a stride of 0"),
    ("y = slice(x, axes = [2], begin = [5], end = [3])", "NNEF0617", "an end before the beginning"),
    ("y = slice(x, axes = [2], begin = [1], end = [0])", "NNEF0618", "an end of 0"),
    ("y = matmul(m, m)", "NNEF0619", "inner extents that differ"),
    ("y = matmul(m, x)", "NNEF0619", "ranks that differ"),
    ("y = matmul(v, v)", "NNEF0619", "vectors"),
    ("y = linear(m, n)", "NNEF0619", "channels that differ"),
    ("y = conv(x, w, k)", "NNEF0620", "a bias of other channels"),
    ("y = linear(m, m, k)", "NNEF0620", "of a linear operation"),
    ("y = conv(x, w, e)", "NNEF0621", "a bias of rank 1"),
    ("y = update(e, m)", "NNEF0622", "an update of another shape"),
    ("y = conv(b, w)", "NNEF0625", "a filter of another rank"),
    ("y = conv(x, w, groups = 3)", "NNEF0627", "groups that do not divide the filters"),
    ("y = conv(x, w, groups = -1)", "NNEF0627", "a negative number of groups"),
    ("y = conv(x, w, groups = 2)", "NNEF0626", "groups of more channels than there are"),
    ("y = conv(x, w, groups = 0)", "NNEF0626", "a depth-wise filter of six channels"),
    ("y = deconv(x, w)", "NNEF0626", "a filter of the other direction"),
    ("y = separable_conv(x, w, p)", "NNEF0626", "a plane filter of six channels"),
    ("y = separable_conv(x, d, g)", "NNEF0625", "a point filter with a neighbourhood"),
    (
        "y = max_pool(x, size = [1,1,9,1], padding = [(0,0),(0,0),(0,0),(0,0)])",
        "NNEF0623",
        "a window larger than its input",
    ),
    ("y = conv(x, w, padding = [(-3,-3),(0,0)])", "NNEF0623", "a padding that takes too much away"),
    ("y = deconv(x, u, output_shape = [2,4,9,8])", "NNEF0628", "an output that does not come down to its input"),
    ("y = deconv(x, u, output_shape = [2,5,8,8])", "NNEF0628", "an output of other channels"),
    ("y = debox(x, size = [1,1,2,2], stride = [1,1,2,2], output_shape = [2,6,8,8])", "NNEF0628", "of a box"),
    ("y = area_downsample(x, factor = [3,2])", "NNEF0629", "a factor that does not divide"),
    ("y = max_roi_pool(x, q, j, output_size = [2,2])", "NNEF0630", "regions of one coordinate"),
    ("y = max_roi_pool(x, r, j, output_size = [2])", "NNEF0606", "an output of one axis"),
    ("y = max_roi_align(x, r, j, output_size = [2,2], sampling_rate = [0,1])", "NNEF0605", "no samples"),
    ("y = linear_quantize(x, 0.0, 1.0, bits = 8)", "NNEF0631", "an operation that is deprecated"),
]


@every(("statement", "code"), [pytest.param(text, code, id=name) for text, code, name in BROKEN])
def test_a_rule_that_is_broken_is_the_only_finding(statement, code):
    assert found(statement) == [code]


def test_a_vector_that_makes_a_batch_of_one_grow_is_reported():
    assert found("y = add(c, v0)", vectors={"v0": "[4]"}) == ["NNEF0633"]
    assert found("y = add(v0, c)", vectors={"v0": "[4]"}) == ["NNEF0633"]
    assert found("y = add(c, v0)", vectors={"v0": "[1, 4]"}) == []
    assert found("y = add(b, v0)", vectors={"v0": "[2]"}) == []


@every(
    "statement",
    [
        *(
            "y = add(x, b)",
            "y = mul(b, x)",
            "y = add(x, 1.0)",
            "y = max(x, s)",
            "y = constant(shape = [2,3], value = [1.0])",
        ),
        *(
            "y = conv(x, w)",
            "y = conv(x, w, c, padding = [(1,1),(0,2)], stride = [2,2], dilation = [1,1])",
            "y = conv(x, d, groups = 0)",
        ),
        *("y = conv(x, w, 0.5, border = 'reflect-even')", "y = conv(x, w, padding = [(-1,-1),(0,0)])"),
        *(
            "y = deconv(x, u)",
            "y = deconv(x, u, stride = [2,2], output_shape = [2,4,15,16])",
            "y = separable_conv(x, d, p)",
        ),
        *(
            "y = max_pool(x, size = [1,1,3,3], border = 'ignore')",
            "y = box(x, size = [1,6,1,1], padding = [(0,0),(0,0),(0,0),(0,0)])",
        ),
        *(
            "y = debox(x, size = [1,1,2,2], stride = [1,1,2,2], output_shape = [2,6,16,15])",
            "y = area_downsample(x, factor = [4,8])",
        ),
        *(
            "y = sum_reduce(x, axes = [3, 0])",
            "y = sum_reduce(x, axes = [])",
            "y = softmax(x)",
            "a, y = moments(x, axes = [2])",
        ),
        *(
            "y = reshape(x, shape = [0, -1])",
            "y = reshape(x, shape = [0, 2, -1], axis_start = 1)",
            "y = reshape(x, shape = [], axis_count = 0)",
        ),
        *("y = squeeze(s, axes = [0, 2])", "y = unsqueeze(x, axes = [5, 0])", "y = transpose(x, axes = [1, 0])"),
        *(
            "[a, y] = split(x, axis = 1, ratios = [1, 2])",
            "y = concat([m, m], axis = 1)",
            "y = stack([m, m], axis = 2)",
        ),
        *(
            "y = slice(x, axes = [1, 3], begin = [-2, 7], end = [6, -9], stride = [1, -1])",
            "y = slice(x, axes = [2], begin = [0], end = [100])",
        ),
        *(
            "y = pad(x, padding = [(0,0),(0,0),(1,1),(-1,1)])",
            "y = tile(x, repeats = [1,1,2,3])",
            "y = gather(x, j, axis = 3)",
        ),
        *("y = matmul(m, n)", "y = matmul(x, x, transposeB = true)", "y = linear(m, m)", "y = update(w, w)"),
        *(
            "y = max_roi_pool(x, r, j, output_size = [2,2])",
            "y = roi_resample(x, r, j, output_size = [2,2], method = 'aligned')",
        ),
        *(
            "y = zero_point_linear_quantize(x, 3, 0.05, bits = 8, signed = true, symmetric = false)",
            "y = add_n([x, x])",
        ),
    ],
)
def test_what_is_right_has_no_findings(statement):
    assert found(statement) == []


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        pytest.param("[y] = copy_n(x, times = 0)", "NNEF0605", id="no copies"),
        pytest.param("[y] = split(x, axis = 1, ratios = [])", "NNEF0615", id="no ratios"),
    ],
)
def test_nothing_to_unpack_is_a_finding_of_its_own(statement, code):
    assert {*found(statement)} == {code, "NNEF0515"}


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        pytest.param("y = conv(x, w, groups = 0)", "NNEF0627", id="no groups of 0"),
        pytest.param("y = planewise_conv(x, w)", "NNEF0626", id="a plane-wise filter takes one channel"),
        pytest.param("y = matmul(x, x)", "NNEF0619", id="matrices of rank 2 only"),
        pytest.param("y = transpose(m, perm = [0, 0])", "NNEF0614", id="a permutation"),
        pytest.param("y = sum_reduce(x, axes = [7])", None, id="axes beyond the rank are singular"),
        pytest.param("y = max_pool(x, size = [1,1,2])", None, id="short arrays are filled up"),
        pytest.param("y = max_pool(x, size = [1,1,2,2,2])", "NNEF0606", id="long ones are not"),
        pytest.param("y = matmul(m, n, trA = false)", None, id="matrices"),
    ],
)
def test_provisional_rules(statement, code):
    assert found(statement, Edition.PROVISIONAL) == ([] if code is None else [code])


def test_a_finding_stands_at_the_argument():
    text = final("y = softmax(x, axes = [1, 7]);")
    (finding,) = evaluated(text).diagnostics
    assert finding.span is not None
    assert text[finding.span.start : finding.span.stop] == "[1, 7]"


def test_what_depends_on_dynamic_dims_is_not_certainly_wrong():
    before = "fragment f( x: tensor ) -> ( y: tensor ) { y = reshape(x + x, shape = [shape_of(x)[0] * 3]) }\n"
    assert evaluated(provisional("y = f(x)", before=before, shape="[0, 3]")).diagnostics == []
    expansion = evaluated(provisional("z = variable(shape = [2, 3], label = 'z')", "y = add(x, z)", shape="[0, 3]"))
    assert expansion.diagnostics == []


def test_rules_are_of_operations_that_exist():
    declared = {*standard(Edition.FINAL), *standard(Edition.PROVISIONAL)}
    assert set(RULES) <= declared


def test_rules_read_parameters_that_exist():
    for edition in Edition:
        for name, declaration in standard(edition).items():
            formals = {formal.name for formal in declaration.formals}
            for rule in RULES.get(name, ()):
                wanted = [cell.cell_contents for cell in rule.__closure__ or () if isinstance(cell.cell_contents, str)]
                assert {each for each in wanted if not each.startswith("NNEF")} <= formals, (edition, name)
