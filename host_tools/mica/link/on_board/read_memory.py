# Bytes at addresses. places: (address, number) of each.
def _mica_read_memory(places):
    import binascii

    import uctypes

    for a, n in places:
        print("mica:bytes", str(binascii.hexlify(uctypes.bytearray_at(a, n)), "ascii"))
