# The content of a file in base64, if it is asked for, and the hash of it.
def _mica_read_file(path, show):
    import binascii
    import hashlib
    import sys

    b = bytearray(384)
    m = memoryview(b)
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while True:
            n = f.readinto(b)
            if not n:
                break
            h.update(m[:n])
            if show:
                sys.stdout.write(str(binascii.b2a_base64(m[:n]), "ascii"))
    print("mica:sha256", str(binascii.hexlify(h.digest()), "ascii"))
