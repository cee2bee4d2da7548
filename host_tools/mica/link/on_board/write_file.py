# Prints how many bytes it has written. mode: "wb", or "ab" for what follows.
def _mica_write_file(path, mode, data):
    with open(path, mode) as f:
        print(f.write(data))
