"""Check that every line of a CSV file is one row: no quoted value may swallow the rows that follow it.

A value in double quotes may hold separators, and by most readers line breaks too. So one quote
that is never closed makes a single value of all lines up to the next quote, and one person's text removes other
people's rows.
"""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ..core.errors import BadInput
from .csv_file import bytes_of

BLOCK = 2**24
ENDS = (b"\n", b"\r")


def check_quotes(path: Path, separator: str) -> None:
    """Refuse a file with a value that begins with a double quote and does not end with one on its line."""
    mark = re.escape(separator).encode()
    whole = re.compile(rb"(?:\A|(?<=[\r\n" + mark + rb']))"[^"\r\n]*+(?:""[^"\r\n]*+)*+"(?=[\r\n' + mark + rb"]|\Z)")
    begun = re.compile(rb"(?:\A|[\r\n" + mark + rb'])[ \t]*"')
    try:
        with bytes_of(path) as file:
            for block in _blocks(file):
                if b'"' in block and begun.search(whole.sub(b"", block)):
                    raise BadInput(
                        f"{path.name}: a value begins with a double quote that is not closed on its line.",
                        fix="Close it, write a quote within quotes twice, and take line breaks out of values; or use "
                        "Parquet.",
                    )
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        raise BadInput(f"{path.name} cannot be read to its end.", fix="Is it a whole file?") from None


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines."""
    rest = b""
    while block := file.read(BLOCK):
        block = rest + block
        end = max(block.rfind(mark) for mark in ENDS) + 1
        rest = block[end:]
        if end:
            yield block[:end]
    if rest:
        yield rest
