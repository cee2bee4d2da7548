# Answers requests that come in frames over the REPL's own line: link/frames.py says what a frame is. `size`: bytes of a
# request's inputs; `longest`: of a line. Ends with a frame of kind Q, or with Ctrl-C, which no frame has in it.
def _mica_frames(model, size, longest):
    import io
    import struct
    import sys
    from binascii import crc32

    from _mica import Quantised

    m = model._m
    sizes = [m.tensor(t).nbytes for t in m.inputs]
    inputs = memoryview(bytearray(size))
    read = sys.stdin.buffer.readline
    write = sys.stdout.buffer.write

    def escaped(data):
        data = data.replace(b"\x10", b"\x10P").replace(b"\x03", b"\x10C").replace(b"\x04", b"\x10D")
        return data.replace(b"\n", b"\x10J").replace(b"\r", b"\x10M")

    def send(kind, number, parts):
        part = struct.pack("<BHI", kind, number, sum([len(p) for p in parts]))
        crc = crc32(part)
        line = escaped(part)
        for piece in (bytes(p[at : at + 256]) for p in parts for at in range(0, len(p), 256)):
            crc = crc32(piece, crc)
            if len(line) > 256:
                write(line)
                line = b""
            line += escaped(piece)
        write(line + escaped(struct.pack("<I", crc & 0xFFFFFFFF)) + b"\n")

    current, have = -1, 0
    send(72, 1, ())
    while True:
        line = read(longest)
        if line == b"\n":
            continue
        try:
            body = line[:-1].replace(b"\x10C", b"\x03").replace(b"\x10D", b"\x04").replace(b"\x10J", b"\n")
            body = body.replace(b"\x10M", b"\r").replace(b"\x10P", b"\x10")
            kind, number, at = struct.unpack("<BHI", body[:7])
            n = len(body) - 11
            sound = line[-1] == 10 and n >= 0 and struct.unpack("<I", body[-4:])[0] == crc32(body[:-4]) & 0xFFFFFFFF
            if sound and kind == 82:
                current, have = (current, have) if at else (number, 0)
                sound = number == current and at == have and at + n <= size
        except Exception:
            sound = False
        if not sound:
            send(78, 0, ())
        elif kind == 81:
            return
        elif kind == 83:
            send(83, number, ())
        else:
            inputs[at : at + n] = body[7:-4]
            have += n
            if have < size:
                send(43, number, (struct.pack("<I", have),))
                continue
            current = -1
            try:
                at = 0
                for i, n in enumerate(sizes):
                    m.write(i, Quantised(inputs[at : at + n]))
                    at += n
                model.run()
                send(65, number, [m.output(i) for i in range(m.info.n_outputs)])
            except Exception as error:
                text = io.StringIO()
                sys.print_exception(error, text)
                send(69, number, (text.getvalue().encode(),))
