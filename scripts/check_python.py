"""Ends with an error that says what to do where this Python is too old.

Those that are too old run it: setup.py and the scripts do so before anything else.
"""

import sys

OLDEST = (3, 10)


def check_python():
    if sys.version_info < OLDEST:
        sys.exit(
            "error: Python 3.10 or newer is needed; {} is {}.{}.{}\n"
            "On a Jetson: JetPack 5 (Python 3.8, CUDA 11.4) is out of support: flash JetPack 6 or"
            " newer with scripts/flash_orin.sh (docs/flash.md). A newer Python is no way out"
            " there: its CUDA is too old to build for the GPU.\n"
            "Elsewhere: install a newer one, and name it where it is not python3:"
            " PYTHON=python3.12".format(sys.executable, *sys.version_info[:3])
        )


if __name__ == "__main__":
    check_python()
