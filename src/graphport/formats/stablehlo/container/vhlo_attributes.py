"""Names of the attributes of VHLO's operations; bytecode has their values in the order of the names.

Source: StableHLO's VhloOps.td.
"""

from __future__ import annotations

_CONVOLUTION = (
    "window_strides lhs_dilation rhs_dilation window_reversal input_batch_dimension input_feature_dimension"
    " input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension"
    " kernel_spatial_dimensions output_batch_dimension output_feature_dimension output_spatial_dimensions"
    " feature_group_count batch_group_count precision_config"
)
_GATHER = "offset_dims collapsed_slice_dims start_index_map index_vector_dim indices_are_sorted"
_SCATTER = (
    "update_window_dims inserted_window_dims scatter_dims_to_operand_dims index_vector_dim indices_are_sorted"
    " unique_indices"
)
_DOT = "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions rhs_contracting_dimensions"
_CHANNEL = "channel_id channel_type is_host_transfer"
_WINDOW = "window_dimensions window_strides padding"

_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "all_gather": ("all_gather_dim replica_groups channel_id use_global_device_ids",),
    "all_reduce": ("replica_groups channel_id use_global_device_ids",),
    "all_to_all": ("split_dimension concat_dimension split_count replica_groups channel_id",),
    "batch_norm_grad": ("epsilon feature_index",),
    "batch_norm_inference": ("epsilon feature_index",),
    "batch_norm_training": ("epsilon feature_index",),
    "broadcast_in_dim": ("broadcast_dimensions",),
    "broadcast": ("broadcast_sizes",),
    "call": ("callee",),
    "cholesky": ("lower",),
    "collective_broadcast": ("replica_groups channel_id",),
    "collective_permute": ("source_target_pairs channel_id",),
    "compare": ("comparison_direction compare_type",),
    "composite": ("name composite_attributes decomposition version",),
    "concatenate": ("dimension",),
    "constant": ("value",),
    "convolution": (f"{_CONVOLUTION} padding",),
    "cross-replica-sum": ("replica_groups",),
    "custom_call": (
        (
            "call_target_name has_side_effect backend_config api_version called_computations operand_layouts"
            " result_layouts output_operand_aliases"
        ),
        (
            "call_target_name has_side_effect backend_config api_version called_computations operand_layouts"
            " result_layouts output_operand_aliases result_tilings"
        ),
    ),
    "dot": ("precision_config",),
    "dot_general": (
        f"{_DOT} precision_config",
        (
            f"{_DOT} precision_config lhs_precision_type rhs_precision_type accumulation_type lhs_component_count"
            " rhs_component_count num_primitive_operations allow_imprecise_accumulation"
        ),
    ),
    "dynamic_broadcast_in_dim": ("broadcast_dimensions known_expanding_dimensions known_nonexpanding_dimensions",),
    "dynamic_conv": (f"{_CONVOLUTION} padding", _CONVOLUTION),
    "dynamic_gather": (_GATHER, f"{_GATHER} operand_batching_dims start_indices_batching_dims"),
    "dynamic_iota": ("iota_dimension",),
    "dynamic_slice": ("slice_sizes",),
    "einsum": ("einsum_config",),
    "fft": ("fft_type fft_length",),
    "func": ("sym_name function_type sym_visibility arg_attrs res_attrs",),
    "gather": (
        f"{_GATHER} slice_sizes",
        f"{_GATHER} slice_sizes operand_batching_dims start_indices_batching_dims",
    ),
    "get_dimension_size": ("dimension",),
    "get_tuple_element": ("index",),
    "infeed": ("infeed_config layout",),
    "iota": ("iota_dimension",),
    "map": ("dimensions",),
    "outfeed": ("outfeed_config",),
    "pad": ("edge_padding_low edge_padding_high interior_padding",),
    "recv": (_CHANNEL, f"{_CHANNEL} source_target_pairs"),
    "reduce": ("dimensions",),
    "reduce_precision": ("exponent_bits mantissa_bits",),
    "reduce_scatter": ("scatter_dimension replica_groups channel_id use_global_device_ids",),
    "reduce_window": (f"{_WINDOW} base_dilations window_dilations",),
    "reverse": ("dimensions",),
    "rng": ("rng_distribution",),
    "rng_bit_generator": ("rng_algorithm",),
    "scatter": (_SCATTER, f"{_SCATTER} input_batching_dims scatter_indices_batching_dims"),
    "select_and_scatter": (_WINDOW,),
    "send": (_CHANNEL, f"{_CHANNEL} source_target_pairs"),
    "set_dimension_size": ("dimension",),
    "slice": ("start_indices limit_indices strides",),
    "sort": ("dimension is_stable",),
    "torch_index_select": ("dim batch_dims",),
    "transpose": ("permutation",),
    "triangular_solve": ("left_side lower unit_diagonal transpose_a",),
    "unary_einsum": ("einsum_config",),
    **dict.fromkeys(
        (
            *("cbrt", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic"),
            *("rsqrt", "sine", "sqrt", "tan", "tanh"),
        ),
        ("result_accuracy",),
    ),
}
"""The attributes of each operation, a row for each version."""


def attribute_names(operation: str, count: int) -> list[str] | None:
    """The names of `count` attributes of an operation, sorted; `None` where no version has as many."""
    for row in _ATTRIBUTES.get(operation, ()):
        names = sorted(row.split())
        if len(names) == count:
            return names
    return [] if count == 0 else None
