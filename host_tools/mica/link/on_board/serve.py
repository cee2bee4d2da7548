# The whole life of a MicroPython that is a child of ours. requests, answers: descriptors of pipes.
# A request is a kind, two lengths, a name and a body: X executes the body, P makes it a variable. An answer is a length
# and the text of an exception, or nothing (X) or the CRC-32 (P) if there was none.
def _mica_serve(requests, answers):
    import binascii
    import io
    import struct
    import sys

    inp = open(requests, "rb")
    out = open(answers, "wb")
    names = {"__name__": "__main__"}
    while True:
        try:
            head = inp.read(9)
        except KeyboardInterrupt:
            # Meant for a program that has just ended.
            continue
        if len(head) < 9:
            return
        kind, name, size = struct.unpack("<BII", head)
        name = str(inp.read(name), "utf-8")
        answer = ""
        try:
            body = inp.read(size)
            size = 0
            if kind == 80:
                names[name] = body
                answer = str(binascii.crc32(body))
            else:
                exec(body, names)
        except BaseException as error:
            text = io.StringIO()
            sys.print_exception(error, text)
            answer = text.getvalue()
        body = None
        # It had no memory for the body: step over it.
        while size > 0:
            size -= len(inp.read(min(size, 4096)))
        answer = answer.encode()
        out.write(struct.pack("<I", len(answer)) + answer)
