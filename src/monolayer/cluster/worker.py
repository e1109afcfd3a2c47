"""A worker process: takes pieces from its standard input until that ends, and answers on its standard output."""

from __future__ import annotations

import os
import pickle
import sys


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not stand among the answers
    tasks = sys.stdin.buffer
    while True:
        try:
            function, task = pickle.load(tasks)
        except EOFError:
            return
        error: BaseException | None = None
        try:
            function(*task)
        except BaseException as raised:
            error = raised
        try:
            answer = pickle.dumps(error)
            pickle.loads(answer)
        except Exception:  # an error that cannot travel
            answer = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
        answers.write(answer)
        answers.flush()


if __name__ == "__main__":
    main()
