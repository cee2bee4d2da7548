"""Plans below the bound of running layer after layer: neighbouring steps run in strips, some rows of each in turn.

    conv a -> b, conv b -> c           =>   rows 0-2 of b, row 0 of c, row 3 of b, row 1 of c,
                                            ...: b needs 3 rows of memory

A strip is a range of steps [i, j) with a `band`: the number of rows that a call makes. The tensors that leave the strip
are made one band after the other. Each band first makes the rows of its inputs that it needs and that are not there
yet; so every row is made once. A tensor that is read only inside is kept by rows: from the oldest that is still needed
to the newest. If nothing after the strip reads its input, the output may overlap the input, as long as no call
overwrites rows that later calls read (vMCU, MLSys 2024; here by rows).

A fed input is the output of a step of its own here, which comes first and makes no step of the file: its calls are
those by which the caller delivers rows.

Predicted cost decides which ranges become strips: D[j] = min over i and band of D[i] + cost of [i, j), among those
whose bytes are within the limit.
"""
