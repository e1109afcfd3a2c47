"""Read lines of a text file or of standard input: numbered, decoded, and unpacked if they are gzipped.

Lines are cut only at line feeds, so that a token may hold any other character. Only the current line is kept in memory.
A file that was cut short is an error.
"""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from monolayer.errors import DataError

LONGEST_LINE = 1 << 27
"""The most bytes in a line. Parsing it takes about ten times as much memory, and a small gzip may hold a huge line."""

_MOST_BLANKS = 1 << 20
"""The most bytes that are searched for blank lines at once."""


class Lines:
    """An iterator over lines with their line feeds; `number` is that of the last line returned, counted from 1."""

    def __init__(self, path: Path | None) -> None:
        """Open the file at `path`, which is unpacked if its name ends in `.gz`; None means standard input."""
        self.name = "standard input" if path is None else str(path)
        self.number = 0
        self._begun = False  # whether bytes of the file were read
        self._held = io.BytesIO()  # whole lines that were put back, and are read before the rest of the file
        self._file: Any = sys.stdin.buffer
        if path is not None:
            self._file = gzip.GzipFile(path) if path.suffix.lower() == ".gz" else path.open("rb")

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        line = self._line(self.number + 1)
        if not line:
            raise StopIteration
        self.number += 1
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            self._check_not_utf16(line)
            raise DataError(
                f"line {self.number} of {self.name} is not UTF-8: byte {line[error.start]:#04x} at byte "
                f"{error.start}. Convert it (`iconv -f latin1 -t utf-8`), or copy it again if it was cut short"
            ) from None
        self._check_not_utf16(line)
        return text

    def _check_not_utf16(self, line: bytes) -> None:
        """Refuse UTF-16 text by its first line: it has a mark at its start, or every second byte of it is 0."""
        marked = line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if self.number == 1 and (marked or 3 * line.count(0) > len(line)):
            raise DataError(
                f"{self.name} is UTF-16 text, as spreadsheets save it, and only UTF-8 is read. Convert it: "
                "`iconv -f utf-16 -t utf-8 FILE > NEW`"
            )

    def peek(self, size: int) -> list[str]:
        """The next whole lines, about `size` bytes, to look at: they are still read afterwards, and are not checked."""
        block, count = self.block(size)
        self.put_back(block, count)
        return [f"{line}\n" for line in block.decode("utf-8", errors="replace").split("\n")[:count]]

    def whole(self, size: int) -> str | None:
        """All lines as one text; they can still be read one by one afterwards.

        None if they have more than `size` bytes, or if the file is damaged: reading line by line then names the line.
        """
        standard_input = self._file is sys.stdin.buffer
        try:
            content = self._file.read(size + 1)
        except (OSError, EOFError, zlib.error):
            content = None
        if content is not None and len(content) <= size:
            if not standard_input:
                self._file.close()
            self._file = io.BytesIO(content)
            return str(content, "utf-8-sig")
        if standard_input:
            raise DataError(
                f"standard input is longer than {size >> 20} MiB: pass JSON Lines instead, one object per line"
            )
        self._file.seek(0)
        return None

    def block(self, size: int) -> tuple[bytes, int]:
        """The next whole lines, about `size` bytes, and how many lines they are; no bytes at the end of the file."""
        block = self._held.read() or self._read(lambda: self._file.read(size))
        if block and not block.endswith(b"\n"):
            block += self._line(self.number + block.count(b"\n") + 1)
        ends_without_feed = bool(block) and not block.endswith(b"\n")
        count = block.count(b"\n") + ends_without_feed
        self.number += count
        return block, count

    def _line(self, number: int) -> bytes:
        """The rest of line `number`, as bytes."""
        line = self._held.readline() or self._read(lambda: self._file.readline(LONGEST_LINE + 1))
        if len(line) > LONGEST_LINE:
            raise DataError(
                f"line {number} of {self.name} is longer than {LONGEST_LINE >> 20} MiB: put every sequence on its own "
                "line"
            )
        return line

    def put_back(self, block: bytes, count: int) -> None:
        """Put back the last block, with its number of lines, so that it is read again, by lines or as a block."""
        self.number -= count
        self._held = io.BytesIO(block)

    def filled(self) -> Iterator[str]:
        """The remaining lines, without those that hold only white space."""
        for line in self:
            if line.isspace():
                self.skip_blank()
            else:
                yield line

    def skip_blank(self) -> None:
        """Skip the blank lines that come next, at the speed of reading: a small gzip may hold millions of them.

        They are searched in pieces that double in size, so that a single blank line costs little.
        """
        size = 64
        while True:
            start = self._held.tell()
            piece = self._held.read(size)
            if not piece:
                block, count = self.block(_MOST_BLANKS)
                if not block:
                    return
                self.put_back(block, count)
                continue
            blank = piece[: len(piece) - len(piece.lstrip(b"\r\n"))]
            skipped = blank.rfind(b"\n") + 1  # carriage returns behind the last line feed may open a line with text
            self.number += blank.count(b"\n")
            self._held.seek(start + skipped)
            if skipped < len(piece):
                return
            size = min(2 * size, _MOST_BLANKS)

    def _read(self, read_bytes: Callable[[], bytes]) -> bytes:
        """Call `read_bytes`, and turn its errors into a `DataError` that names the file.

        Some programs open a UTF-8 file with a byte-order mark, which is not part of the first token.
        """
        try:
            content = read_bytes()
            if not self._begun and content:
                self._begun, content = True, content.removeprefix(codecs.BOM_UTF8)
            return content
        except EOFError:
            raise self.cut("its gzip stream stops before its end", self.number + 1) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{self.name} is not a gzip file, or is damaged ({error}); write it again") from None
        except OSError as error:
            raise DataError(f"{self.name} cannot be read: {error.strerror or error}") from None

    def cut(self, why: str, line: int) -> DataError:
        """The error for a file that stops too early, at this line."""
        return DataError(
            f"{self.name} ends in the middle, at line {line}: {why}. It was cut short; copy or write it again"
        )
