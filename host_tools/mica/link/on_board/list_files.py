# Everything below a folder, whose name ends in "/".
# A path goes over the wire in hexadecimal: it may have blanks and any character. A mount point in the top folder, such
# as /rom or /sd, is no file of this file system; MicroPython lists those without an inode.
# LittleFS tells any number as the size of a folder.
def _mica_list_files(folder):
    import binascii
    import os

    for e in os.ilistdir(folder):
        path = folder + e[0]
        if len(e) > 3:
            d = e[1] & 0x4000
            size = 0 if d else os.stat(path)[6]
            print("mica:entry", "dir" if d else "file", size, str(binascii.hexlify(path.encode()), "ascii"))
            if d:
                _mica_list_files(path + "/")
