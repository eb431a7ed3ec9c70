"""StableHLO text: results of operations, and refusals with a line number."""

import numpy as np
import pytest

import graphport
from graphport import DiagnosticError


def module(body, result, arguments=""):
    return f"func.func public @main({arguments}) -> {result} {{\n{body}\n}}\n"


def load(text, tmp_path):
    path = tmp_path / "model.mlir"
    path.write_text(text)
    return graphport.load(path)


def run(body, result, tmp_path):
    (found,) = graphport.run(load(module(body, result), tmp_path), {}).values()
    return found


@pytest.mark.parametrize(
    ("literal", "kind", "expected"),
    [
        pytest.param('"0x0000803F000000C0"', "2xf32", [1.0, -2.0], id="raw bytes, little endian"),
        pytest.param('"0x0D"', "4xi1", [True, False, True, True], id="a bit for each boolean"),
        pytest.param('"0x01000101"', "4xi1", [True, False, True, True], id="a byte for each boolean"),
        pytest.param('"0xFF"', "4xi1", [True] * 4, id="a splat of booleans"),
        pytest.param("0x7FC00000", "2xf32", [np.nan, np.nan], id="bits of a float"),
        pytest.param("[-128, 127]", "2xi8", [-128, 127], id="the ends of an integer type"),
    ],
)
def test_constant_elements(literal, kind, expected, tmp_path):
    body = f"%0 = stablehlo.constant dense<{literal}> : tensor<{kind}>\nreturn %0 : tensor<{kind}>"
    np.testing.assert_array_equal(run(body, f"tensor<{kind}>", tmp_path), expected)


def test_reduce_with_any_region_uses_all_elements(tmp_path):
    body = """
    %0 = stablehlo.constant dense<[3, 1, 4, 1, 5]> : tensor<5xi32>
    %1 = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.reduce(%0 init: %1) across dimensions = [0] : (tensor<5xi32>, tensor<i32>) -> tensor<i32>
      reducer(%a: tensor<i32>, %b: tensor<i32>) {
        %s = stablehlo.add %a, %b : tensor<i32>
        %t = stablehlo.xor %s, %s : tensor<i32>
        %u = stablehlo.add %s, %t : tensor<i32>
        stablehlo.return %u : tensor<i32>
      }
    return %2 : tensor<i32>"""
    assert run(body, "tensor<i32>", tmp_path) == 14


def test_complex_results_are_complex(tmp_path):
    body = """
    %0 = stablehlo.constant dense<(3.0, 4.0)> : tensor<complex<f32>>
    %1 = stablehlo.multiply %0, %0 : tensor<complex<f32>>
    return %1 : tensor<complex<f32>>"""
    assert run(body, "tensor<complex<f32>>", tmp_path) == -7 + 24j


def test_complex_cube_root_is_the_principal_one(tmp_path):
    body = """
    %0 = stablehlo.constant dense<[(-8.0, 0.0), (0.0, 0.0)]> : tensor<2xcomplex<f64>>
    %1 = stablehlo.cbrt %0 : tensor<2xcomplex<f64>>
    return %1 : tensor<2xcomplex<f64>>"""
    np.testing.assert_allclose(run(body, "tensor<2xcomplex<f64>>", tmp_path), [1 + 3**0.5 * 1j, 0])


@pytest.mark.parametrize(
    ("body", "code", "line"),
    [
        pytest.param("return %x : tensor<f32>", "SH0004", 2, id="undefined value"),
        pytest.param(
            "%0 = stablehlo.constant dense<300> : tensor<i8>\nreturn %0 : tensor<i8>", "SH0010", 2, id="out of range"
        ),
        pytest.param("%0 = = 3", "SH0001", 2, id="no operation"),
        pytest.param(
            "%0 = stablehlo.custom_call @f() : () -> tensor<f32>\nreturn %0 : tensor<f32>",
            "SH0006",
            2,
            id="unknown custom call",
        ),
        pytest.param("%0 = call @main() : () -> tensor<f32>\nreturn %0 : tensor<f32>", "SH0008", 1, id="recursion"),
    ],
)
def test_faults_are_reported_with_their_line(body, code, line, tmp_path):
    with pytest.raises(DiagnosticError) as caught:
        load(module(body, "tensor<f32>"), tmp_path)
    (found,) = caught.value.diagnostics
    assert (found.code, str(found.span).rpartition("line ")[2]) == (code, str(line))


@pytest.mark.parametrize("cut", [5, 40, 200, 400])
def test_cut_bytecode_is_refused(cut, tmp_path):
    from tests.formats.stablehlo.test_cases import CASES

    path = tmp_path / "cut.mlir.bc"
    path.write_bytes((CASES / "order.mlir.bc").read_bytes()[:cut])
    with pytest.raises(DiagnosticError) as caught:
        graphport.load(path)
    assert caught.value.diagnostics[0].code.startswith("SH")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(
            "%0:1.5 = stablehlo.iota dim = 0 : tensor<4xi32>", "SH0001", id="number of results with a fraction"
        ),
        pytest.param(f"%0 = stablehlo.iota dim = {'9' * 5000} : tensor<4xi32>", "SH0001", id="long axis"),
        pytest.param(f"%0 = stablehlo.iota dim = 0 : tensor<{'9' * 5000}xi32>", "SH0001", id="long dim"),
        pytest.param("%0 = stablehlo.iota dim = 007 : tensor<4xi32>", "SH0007", id="leading zeros"),
        pytest.param('%0 = "stablehlo.iota"() {iota_dimension = -foo} : () -> tensor<4xi32>', "SH0001", id="no number"),
        pytest.param(
            '%0 = "stablehlo.iota"() {iota_dimension = {a = 1}} : () -> tensor<4xi32>', "SH0007", id="dictionary"
        ),
        pytest.param('%0 = "stablehlo.add"() : () -> tensor<4xi32>', "SH0007", id="no operands"),
        pytest.param(
            "%t = stablehlo.create_token : !stablehlo.token\n"
            '%0 = "stablehlo.abs"(%t) : (!stablehlo.token) -> tensor<4xi32>',
            "SH0007",
            id="token for a tensor",
        ),
    ],
)
def test_malformed_numbers_attributes_and_operands_are_refused(body, code, tmp_path):
    with pytest.raises(DiagnosticError) as refused:
        load(module(f"{body}\nreturn %0 : tensor<4xi32>", "tensor<4xi32>"), tmp_path)
    assert [each.code for each in refused.value.diagnostics] == [code]
