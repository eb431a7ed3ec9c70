"""`python -m graphport` and the command `graphport`: as little as can be, so that Ctrl-C is heeded from the start."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; see `graphport.cli.main`."""
    try:
        from graphport.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
