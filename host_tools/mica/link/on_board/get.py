# A buffer in lines of base64, and its CRC-32: the raw REPL ends output with a byte that data could have, and some ports
# change line ends.
def _mica_get(v):
    import binascii
    import sys

    for i in range(0, len(v), 240):
        sys.stdout.write(str(binascii.b2a_base64(v[i : i + 240]), "ascii"))
    print(binascii.crc32(v))
