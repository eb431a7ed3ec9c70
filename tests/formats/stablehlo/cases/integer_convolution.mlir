module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x6x6x3xi32>, %arg1: tensor<3x3x3x2xi32>) -> (tensor<1x3x6x2xi32> {jax.result_info = "result[0]"}, tensor<1x4x4x2xi32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[0, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x6x6x3xi32>, tensor<3x3x3x2xi32>) -> tensor<1x3x6x2xi32>
    %1 = stablehlo.convert %arg0 : (tensor<1x6x6x3xi32>) -> tensor<1x6x6x3xui8>
    %2 = stablehlo.convert %arg1 : (tensor<3x3x3x2xi32>) -> tensor<3x3x3x2xui8>
    %3 = stablehlo.convolution(%1, %2) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x6x6x3xui8>, tensor<3x3x3x2xui8>) -> tensor<1x4x4x2xi32>
    return %0, %3 : tensor<1x3x6x2xi32>, tensor<1x4x4x2xi32>
  }
}
