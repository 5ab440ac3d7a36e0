"""Runs one program the way the tool loop wants it: as `__main__`, with the value of a last expression as output.

In: source text. Out: what it prints, on stdout; and (kind, last line of the traceback) as `run`'s result.
Imports the standard library only: a remote sandbox gets this file's text in front of the program.
"""

import ast
import contextlib
import io
import random
import sys
import threading
import traceback
import types

MAX_MESSAGE = 2000  # characters of an error


class CountingFile(io.FileIO):
    """A file that knows whether anything was written to it."""

    written = 0

    def write(self, data):  # type: ignore[no-untyped-def]
        """Write bytes, count them."""
        self.written += len(data)
        return super().write(data)


def run(source: str) -> "tuple[str, str | None]":
    """("ok", None), ("error", message) or ("memory", message). Waits for the program's threads, as Python does."""
    raw = CountingFile(1, "w", closefd=False)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="replace")
    try:
        value = _execute(source)
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        sys.stdout.flush()
        if value is not None and not raw.written:
            print(value)
        result: tuple[str, str | None] = "ok", None
    except MemoryError as error:
        result = "memory", _last_line(error)
    except SystemExit as error:
        result = ("ok", None) if error.code in (None, 0) else ("error", _last_line(error))
    except BaseException as error:
        result = "error", _last_line(error)
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed by the program
        sys.stdout.flush()
    return result


def _execute(source: str) -> object:
    """Run it; the value of the expression that it ends with, if it ends with one."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = [""]
    random.seed(0)  # the same program prints the same
    tree = ast.parse(source, "<program>")
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "<program>", "exec"), main.__dict__)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), "<program>", "exec"), main.__dict__)
    return eval(compile(ast.Expression(last.value), "<program>", "eval"), main.__dict__)


def _last_line(error: BaseException) -> str:
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    return text.rsplit("\n", 1)[-1][:MAX_MESSAGE]
