"""The ONNX operators that can be packed."""

from mica.passes.lower import LOWERINGS

# What is gone before the rest is lowered.
_BY_EARLIER_PASSES = {"CastLike", "CumSum", "DFT", "Einsum", "Identity", "LRN", "Mod", "Neg"}
_BY_EARLIER_PASSES |= {"ReduceProd", "STFT"}
_BY_IMPORTER = {"ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "Loop", "MatMulInteger"}
_BY_IMPORTER |= {"QLinearConv", "QLinearMatMul", "QuantizeLinear", "Scan"}

# Of ONNX's own domain. `lower` refuses all others, all at once; com.microsoft's are in `ir.ops`, as are those that ONNX
# defines by others. A lowering may also be of an operator that only our own passes write.
ONNX_OPS = frozenset(LOWERINGS) - {"Affine", "InfinityImputer", "VectorEnsemble"} | _BY_IMPORTER | _BY_EARLIER_PASSES
