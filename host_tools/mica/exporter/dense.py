"""Matrix products."""

from mica.exporter.conv import constants, put
from mica.exporter.step import Form, Step


def fully_connected(s: Step) -> None:
    w, bias = constants(s, s.blobs["weights"])
    if len(s.x[0].dims) == 2:
        put(s, s.node("Gemm", s.real(), w, bias, transB=1))
        return
    product = s.node("MatMul", s.real(), s.node("Transpose", w, perm=[1, 0]))
    put(s, s.node("Add", product, bias))


def matmul(s: Step) -> None:
    b = s.real(1)
    if s.p["transpose_b"]:
        rank = len(s.x[1].dims)
        b = s.node("Transpose", b, perm=[*range(rank - 2), rank - 1, rank - 2])
    product = s.node("MatMul", s.real(0), b)
    s.put_sum(product, s.x[0].scale * s.x[1].scale, s.factor())


FORMS: dict[str, Form] = {"fully_connected_s8": fully_connected, "matmul_s8": matmul}
