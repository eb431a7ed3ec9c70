"""The command line: subcommands, terminal output and exit codes."""

from graphport.cli.main import main

__all__ = ["main"]
