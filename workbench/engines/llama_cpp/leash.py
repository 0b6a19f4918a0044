"""A program that ends with the workbench: `python leash.py PROGRAM ARGUMENT…`, its input a pipe from the workbench.

However the workbench ends, the system closes the pipe: the group of processes that this one leads is then killed.
"""

import os
import signal
import subprocess
import sys
import threading

CANT_RUN_EXIT = 127
PIECE_BYTES = 4096


def end_group_with(pipe: int) -> None:
    """Wait for the end of a pipe, and kill this process's group then, itself included."""
    while os.read(pipe, PIECE_BYTES):
        pass
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    """Run the program without input, and end as it does."""
    threading.Thread(target=end_group_with, args=(0,), daemon=True).start()
    try:
        code = subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL)
    except OSError as error:
        print(f"{sys.argv[1]} can't be run: {error.strerror or error}", file=sys.stderr)
        return CANT_RUN_EXIT
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())
