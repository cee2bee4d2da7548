"""The compiler's passes, in order: from ONNX operators to core operators, ready to be quantised."""

import importlib
from collections.abc import Callable, Sequence

from mica.ir import check, knobs
from mica.ir.graph import Graph

Pass = Callable[[Graph], Graph]

# While operators still have their ONNX names and meaning.
ONNX_PASSES = (
    "distance_curves",  # before integer_functions: places of a TopK still are places
    "rising_features.searched",  # likewise: its places are integers
    "integer_functions",  # before all else: integers still have their types
    "quantised_values",  # behind it, all activations are real numbers
    "leaf_functions",  # before index_inputs, to which its integers are row numbers
    "integer_functions.numbers",  # what leaf_functions has left
    "einsum",  # before dense, as the next: they write matrix products
    "log_scans",  # before cumsum, whose products hide running sums
    "cumsum",
    "scatter_rows",  # before index_inputs: a place is a row number
    "index_masks",  # before index_inputs, which is told so that a length is a row number
    "index_inputs",  # before drop_identity, which knows no casts to integers
    "whole_outputs",  # before drop_identity: a Cast says that numbers are whole
    "products",
    "joined_parts",  # before affine, which takes each part by itself
    "drop_identity",  # an Identity between two nodes would hide every pattern below
    "masks",  # before affine, which takes constants into products; after drop_identity, as patterns
    "sound_weights",  # after masks, which may hold infinity
    "rising_features",  # after sound_weights: missing is NaN; before affine, which takes it apart
    "quantise_above_pad",  # before fold_pad
    "prequantised_weights",  # before weights change their layout
    "recognise_layer_norm",  # before affine, which rewrites its pieces
    "naive_bayes",  # before dense: it writes a matrix product
    "local_response",  # before affine, which takes its numbers together
    "dense",  # before affine: MatMul + Add is then a FullyConnected with an affine behind it
    "bias_above_reshape",  # before affine, and after dense has made the products
    "picked_features",  # before affine, which is to find scalers at the input
    "affine",
    "dead_code",  # affines that were merged away; fold_affine counts readers
    "fold_affine",
    "fold_scale",
    "fold_pad",
    "one_axis_pools",  # after fold_pad, which gives a pool its padding
    "features",  # after fold_affine: what is left stands at the input
    "windows_in_batch",  # after fold_pad: a Conv has its padding
    "lower",
)

# On core operators.
CORE_PASSES = (
    "dead_code",
    "features.others",
    "one_number",  # before any layer is changed
    "common_subexpressions",
    "transposes",  # before fuse_clip: a transpose between a convolution and its Relu hides the pair
    "pick_from_concat",  # after transposes, which takes the Reshapes between them away
    "transposes",  # the Reshapes that are left where a part is picked whole
    "recognise_reductions",  # after transposes, which brings functions and sums together
    "prequantised_activations",  # before fuse_clip, which may then fuse what has the same scale
    "fuse_clip",
    "merge_unary",  # after fuse_clip: a clamp inside a convolution costs nothing
    "recognise_activations",
    "unused_taps",  # after transposes and clamps: a pool without a clamp stands between the layers
    "dead_channels",  # when clamps are inside the operators that make the channels
    "common_subexpressions",  # sinking made copies
    "dead_code",
    "recognise_attention",  # when transposes are in the products, and factors too
    "recognise_rotation",  # before merge_moves, which looks through the copies of the halves
    "merge_moves",  # after transposes, which cancels most of them against each other
    "dead_code",  # copies that others went round
    "wide",  # last: operators are what they will be
    "limits",
)


def run(g: Graph) -> Graph:
    """An imported graph -> a graph of core operators. Raises Unsupported naming every node that cannot be taken."""
    g = _run(g, ONNX_PASSES, None)
    return _run(g, CORE_PASSES, check.core)


def _run(g: Graph, passes: Sequence[str], checker: Callable[[Graph], None] | None) -> Graph:
    for name in passes:
        g = _pass(name)(g)
        check.structure(g, name)
        if checker is not None:
            checker(g)
        knobs.dump(name, g)
    return g


def _pass(name: str) -> Pass:
    """Return the function run() of a file beside this one, or another one that follows a dot."""
    module, _, function = name.partition(".")
    found: Pass = getattr(importlib.import_module(f"mica.passes.{module}"), function or "run")
    return found
