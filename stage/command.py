"""What all commands do alike: help, wrong options and bad input in one line, an end at Ctrl-C without a traceback."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from stage.errors import EXIT_INTERRUPTED, EXIT_USAGE, UsageError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"error: {message}; {self.prog} --help tells\n")


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The parser of the command that runs: the first paragraph of `doc` stands above its options, the rest below."""
    intro, _, rest = (doc or "").partition("\n\n")
    module = getattr(sys.modules["__main__"], "__spec__", None)  # of `python -m`
    prog = f"python -m {module.name}" if module else Path(sys.argv[0]).name
    layout = argparse.RawDescriptionHelpFormatter
    return _Parser(prog=prog, description=intro, epilog=rest, formatter_class=layout)


def outcome(command: Callable[[], int]) -> int:
    """The exit code of `command`: its own; 2 for a UsageError, said in one line; 130 for Ctrl-C. The rest is raised."""
    try:
        code = command()
        sys.stdout.flush()  # a reader that has gone shows here at the latest
        return code
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # as in `… | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
