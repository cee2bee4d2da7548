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
    head = todo = b""  # of a request whose body is not read; an answer that is not written
    left = 0  # bytes of it that are not read
    owed = stopped = False  # an answer that is not made; Ctrl-C that came before the program

    def serve():
        # Returns at the end of the requests.
        nonlocal head, todo, left, owed, stopped
        while True:
            # There was no memory for the body, or Ctrl-C came: step over it.
            while left > 0 and not head:
                left -= len(inp.read(min(left, 4096)))
            if todo:
                todo = b"" if out.write(todo) else todo
            if not head:
                head = inp.read(9)
            if len(head) < 9:
                return
            answer = ""
            kind, name, size = struct.unpack("<BII", head)
            left = name + size
            try:
                name, left = inp.read(name), size
                body, left = inp.read(size), 0
                head, owed = b"", True
                if stopped:
                    raise KeyboardInterrupt
                if kind == 80:
                    names[str(name, "utf-8")] = body
                    answer = str(binascii.crc32(body))
                else:
                    exec(body, names)
            except BaseException as error:
                head, owed, stopped = b"", True, False
                text = io.StringIO()
                sys.print_exception(error, text)
                answer = text.getvalue()
            body = None
            answer = answer.encode()
            owed, todo = False, struct.pack("<I", len(answer)) + answer

    while True:
        try:
            serve()
            return
        except KeyboardInterrupt:
            if owed:
                owed, todo = False, struct.pack("<I", 17) + b"KeyboardInterrupt"
            elif head:
                stopped = True
            # Else it was meant for a program that has just ended.
