module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<9xf32>, %arg1: tensor<4xi32>) -> (tensor<9xf32> {jax.result_info = "result[0]"}, tensor<9xf32> {jax.result_info = "result[1]"}, tensor<4xf16> {jax.result_info = "result[2]"}, tensor<4x2xi8> {jax.result_info = "result[3]"}, tensor<4xf32> {jax.result_info = "result[4]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<9xf32>) -> tensor<9xf8E5M2>
    %1 = stablehlo.convert %0 : (tensor<9xf8E5M2>) -> tensor<9xf32>
    %2 = stablehlo.convert %arg0 : (tensor<9xf32>) -> tensor<9xf8E8M0FNU>
    %3 = stablehlo.convert %2 : (tensor<9xf8E8M0FNU>) -> tensor<9xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f16>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f16>) -> tensor<4xf16>
    %5 = stablehlo.slice %arg0 [0:4] : (tensor<9xf32>) -> tensor<4xf32>
    %6 = stablehlo.convert %5 : (tensor<4xf32>) -> tensor<4xf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %8 = stablehlo.compare LT, %arg1, %7, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_0 = stablehlo.constant dense<4> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %10 = stablehlo.add %arg1, %9 : tensor<4xi32>
    %11 = stablehlo.select %8, %10, %arg1 : tensor<4xi1>, tensor<4xi32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %c_1 = stablehlo.constant dense<3> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<2147483647> : tensor<i32>
    %13 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %14 = stablehlo.minimum %c_1, %13 : tensor<1xi32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [1] : (tensor<1xi32>) -> tensor<4x1xi32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %16 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<4x1xi32>
    %17 = stablehlo.clamp %16, %12, %15 : tensor<4x1xi32>
    %18 = "stablehlo.scatter"(%4, %17, %6) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f16>, %arg3: tensor<f16>):
      %29 = stablehlo.add %arg2, %arg3 : tensor<f16>
      stablehlo.return %29 : tensor<f16>
    }) : (tensor<4xf16>, tensor<4x1xi32>, tensor<4xf16>) -> tensor<4xf16>
    %19 = stablehlo.convert %arg1 : (tensor<4xi32>) -> tensor<4xui8>
    %20 = stablehlo.bitcast_convert %19 : (tensor<4xui8>) -> tensor<4x2xi4>
    %21 = stablehlo.convert %20 : (tensor<4x2xi4>) -> tensor<4x2xi8>
    %22 = stablehlo.negate %arg0 : tensor<9xf32>
    %23 = stablehlo.complex %arg0, %22 : tensor<9xcomplex<f32>>
    %24 = stablehlo.slice %23 [0:4] : (tensor<9xcomplex<f32>>) -> tensor<4xcomplex<f32>>
    %cst_4 = stablehlo.constant dense<(-1.000000e+00,-1.000000e+00)> : tensor<complex<f32>>
    %cst_5 = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<complex<f32>>
    %25 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
    %26 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
    %27 = stablehlo.clamp %25, %24, %26 : tensor<4xcomplex<f32>>
    %28 = stablehlo.abs %27 : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    return %1, %3, %18, %21, %28 : tensor<9xf32>, tensor<9xf32>, tensor<4xf16>, tensor<4x2xi8>, tensor<4xf32>
  }
}
