"""The compiler's passes, in order: from ONNX operators to core operators, ready to be quantised."""

from collections.abc import Callable

from mica.ir import check, knobs
from mica.ir.graph import Graph
from mica.passes import (
    affine,
    bias_above_reshape,
    common_subexpressions,
    cumsum,
    dead_channels,
    dead_code,
    dense,
    distance_curves,
    drop_identity,
    einsum,
    features,
    fold_affine,
    fold_pad,
    fold_scale,
    fuse_clip,
    index_inputs,
    index_masks,
    integer_functions,
    joined_parts,
    leaf_functions,
    limits,
    local_response,
    log_scans,
    lower,
    masks,
    merge_moves,
    merge_unary,
    naive_bayes,
    one_axis_pools,
    one_number,
    pick_from_concat,
    picked_features,
    prequantised_activations,
    prequantised_weights,
    products,
    quantise_above_pad,
    quantised_values,
    recognise_activations,
    recognise_attention,
    recognise_layer_norm,
    recognise_reductions,
    recognise_rotation,
    rising_features,
    scatter_rows,
    sound_weights,
    transposes,
    unused_taps,
    whole_outputs,
    wide,
    windows_in_batch,
)

Pass = Callable[[Graph], Graph]

# While operators still have their ONNX names and meaning.
ONNX_PASSES: tuple[tuple[str, Pass], ...] = (
    ("distance_curves", distance_curves.run),  # before integer_functions: places of a TopK still are places
    ("searched", rising_features.searched),  # likewise: its places are integers
    ("integer_functions", integer_functions.run),  # before all else: integers still have their types
    ("quantised_values", quantised_values.run),  # behind it, all activations are real numbers
    ("leaf_functions", leaf_functions.run),  # before index_inputs, to which its integers are row numbers
    ("numbers", integer_functions.numbers),  # what leaf_functions has left
    ("einsum", einsum.run),  # before dense, as the next: they write matrix products
    ("log_scans", log_scans.run),  # before cumsum, whose products hide running sums
    ("cumsum", cumsum.run),
    ("scatter_rows", scatter_rows.run),  # before index_inputs: a place is a row number
    ("index_masks", index_masks.run),  # before index_inputs, which is told so that a length is a row number
    ("index_inputs", index_inputs.run),  # before drop_identity, which knows no casts to integers
    ("whole_outputs", whole_outputs.run),  # before drop_identity: a Cast says that numbers are whole
    ("products", products.run),
    ("joined_parts", joined_parts.run),  # before affine, which takes each part by itself
    ("drop_identity", drop_identity.run),  # an Identity between two nodes would hide every pattern below
    ("masks", masks.run),  # before affine, which takes constants into products; after drop_identity, as patterns
    ("sound_weights", sound_weights.run),  # after masks, which may hold infinity
    (
        "rising_features",
        rising_features.run,
    ),  # after sound_weights: missing is NaN; before affine, which takes it apart
    ("quantise_above_pad", quantise_above_pad.run),  # before fold_pad
    ("prequantised_weights", prequantised_weights.run),  # before weights change their layout
    ("recognise_layer_norm", recognise_layer_norm.run),  # before affine, which rewrites its pieces
    ("naive_bayes", naive_bayes.run),  # before dense: it writes a matrix product
    ("local_response", local_response.run),  # before affine, which takes its numbers together
    ("dense", dense.run),  # before affine: MatMul + Add is then a FullyConnected with an affine behind it
    ("bias_above_reshape", bias_above_reshape.run),  # before affine, and after dense has made the products
    ("picked_features", picked_features.run),  # before affine, which is to find scalers at the input
    ("affine", affine.run),
    ("dead_code", dead_code.run),  # affines that were merged away; fold_affine counts readers
    ("fold_affine", fold_affine.run),
    ("fold_scale", fold_scale.run),
    ("fold_pad", fold_pad.run),
    ("one_axis_pools", one_axis_pools.run),  # after fold_pad, which gives a pool its padding
    ("features", features.run),  # after fold_affine: what is left stands at the input
    ("windows_in_batch", windows_in_batch.run),  # after fold_pad: a Conv has its padding
    ("lower", lower.run),
)

# On core operators.
CORE_PASSES: tuple[tuple[str, Pass], ...] = (
    ("dead_code", dead_code.run),
    ("features", features.others),
    ("one_number", one_number.run),  # before any layer is changed
    ("common_subexpressions", common_subexpressions.run),
    ("transposes", transposes.run),  # before fuse_clip: a transpose between a convolution and its Relu hides the pair
    ("pick_from_concat", pick_from_concat.run),  # after transposes, which takes the Reshapes between them away
    ("transposes", transposes.run),  # the Reshapes that are left where a part is picked whole
    ("recognise_reductions", recognise_reductions.run),  # after transposes, which brings functions and sums together
    (
        "prequantised_activations",
        prequantised_activations.run,
    ),  # before fuse_clip, which may then fuse what has the same scale
    ("fuse_clip", fuse_clip.run),
    ("merge_unary", merge_unary.run),  # after fuse_clip: a clamp inside a convolution costs nothing
    ("recognise_activations", recognise_activations.run),
    ("unused_taps", unused_taps.run),  # after transposes and clamps: a pool without a clamp stands between the layers
    ("dead_channels", dead_channels.run),  # when clamps are inside the operators that make the channels
    ("common_subexpressions", common_subexpressions.run),  # sinking made copies
    ("dead_code", dead_code.run),
    ("recognise_attention", recognise_attention.run),  # when transposes are in the products, and factors too
    ("recognise_rotation", recognise_rotation.run),  # before merge_moves, which looks through the copies of the halves
    ("merge_moves", merge_moves.run),  # after transposes, which cancels most of them against each other
    ("dead_code", dead_code.run),  # copies that others went round
    ("wide", wide.run),  # last: operators are what they will be
    ("limits", limits.run),
)


def run(g: Graph) -> Graph:
    """An imported graph -> a graph of core operators. Raises Unsupported naming every node that cannot be taken."""
    g = _run(g, ONNX_PASSES, None)
    return _run(g, CORE_PASSES, check.core)


def _run(g: Graph, passes: tuple[tuple[str, Pass], ...], checker: Callable[[Graph], None] | None) -> Graph:
    for name, run_pass in passes:
        g = run_pass(g)
        check.structure(g, name)
        if checker is not None:
            checker(g)
        knobs.dump(name, g)
    return g
