"""A worker process of `executor: processes`.

Units come in on standard input and results go out on standard output, each behind its length; it
ends with its input, so it never outlives whom it works for.
"""

import os
import queue
import struct
import sys
import threading
from typing import BinaryIO

LENGTH = struct.Struct("<Q")


def send(pipe: BinaryIO, message: bytes) -> None:
    """Write a message behind its length."""
    pipe.write(LENGTH.pack(len(message)))
    pipe.write(message)
    pipe.flush()


def receive(pipe: BinaryIO) -> bytes | None:
    """The next message; None at the end."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    message = pipe.read(length)
    return message if len(message) == length else None


def main() -> None:
    """Do what comes in, until nothing comes any more."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no result
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()

    from equipoise.runs.executors.units import UnitRunner

    runner = UnitRunner()
    while True:
        send(results, runner.do(orders.get()))


def _listen(orders: queue.SimpleQueue[bytes]) -> None:
    """Take orders as they come; end the process when they end, in the middle of one, too."""
    with os.fdopen(os.dup(0), "rb") as pipe:
        while (order := receive(pipe)) is not None:
            orders.put(order)
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
