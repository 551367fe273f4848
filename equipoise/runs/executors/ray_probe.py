"""Asks whether a Ray cluster answers at an address, in a process of its own: Ray tries for minutes,
and what answers may be anything, also what ends Ray's process.
"""

import os
import signal
import sys

from equipoise.errors import ConfigError, first_line, shorten
from equipoise.system.subprocesses import DEVNULL, PIPE, StillRunning, python_command, start_process

ANSWER = 60.0  # seconds in which a cluster answers
LONGEST = 10_000  # characters of what the process says


def check_answers(address: str) -> None:
    """Raises ConfigError, which says why, unless a cluster answers at the address in time."""
    command = python_command("equipoise.runs.executors.ray_probe", address)
    with start_process(command, stdout=PIPE, stderr=DEVNULL, text=True, errors="replace") as probe:
        try:
            output, _ = probe.communicate(timeout=ANSWER)
        except StillRunning:
            output = f"nothing in {ANSWER:g} s"
        finally:  # it, and what Ray started
            if probe.poll() is None:
                os.killpg(probe.pid, signal.SIGKILL)
    if probe.returncode:
        reason = output[-LONGEST:].strip().rpartition("\n")[2] or "its answer is none of Ray's"
        raise ConfigError(
            f"--ray-address: no Ray cluster answers at '{address}' ({shorten(reason)})"
        )


def main(address: str) -> None:
    """Connect, and end with 1 where that fails, after the reason as the last line."""
    import ray  # pyright: ignore[reportMissingImports]

    try:
        ray.init(address=address, log_to_driver=False)
        ray.shutdown()
    except Exception as error:  # noqa: BLE001  Ray has no class for it
        sys.stdout.write(f"\n{first_line(error)}\n")
        sys.stdout.flush()
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
