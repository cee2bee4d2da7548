# The path of a model that begins with one of these headers, which hold its checksum: in /rom,
# where it is read in place, or in the current folder, as it is without golden vectors, since that one is copied.
def _mica_find_model(whole, lean):
    import binascii
    import os

    def look(folder, heads):
        for e in os.ilistdir(folder):
            path = folder + "/" + e[0]
            if e[1] & 0x4000:
                if look(path, heads):
                    return True
            elif path.endswith(".mica"):
                with open(path, "rb") as f:
                    if f.read(64) in heads:
                        print("mica:found", str(binascii.hexlify(path.encode()), "ascii"))
                        return True
        return False

    try:
        if look("/rom", (whole, lean)):
            return
    except OSError:
        pass
    for e in os.ilistdir():
        if e[0].endswith(".mica"):
            with open(e[0], "rb") as f:
                if f.read(64) == lean:
                    print("mica:found", str(binascii.hexlify(e[0].encode()), "ascii"))
                    return
