"""Names made safe and types told by bytes: nothing that a client says of a file is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnback.core.attachments import LONGEST_NAME, cleaned, sniffed


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("Lpt1 .tar.gz", "_Lpt1 .tar.gz"),
        ("console.log", "console.log"),
        ("orders.csv", "orders.csv"),
        ("Bericht für Ämter 2026.pdf", "Bericht für Ämter 2026.pdf"),
        ("売上.csv", "売上.csv"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("/absolute/path", "path"),
        ("C:\\temp\\x.txt", "x.txt"),
        ("dir/", "file"),
        ("..", "file"),
        (".", "file"),
        ("", "file"),
        ("   ", "file"),
        (".bashrc", "bashrc"),
        ("nul\0byte.png", "nulbyte.png"),
        ('quote".csv\r\nX-Evil: 1', "quote_.csv X-Evil_ 1"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("zero\u200bwidth.txt", "zerowidth.txt"),
        ("a" * 300 + ".csv", "a" * 196 + ".csv"),
        ("x." + "y" * 300, ("x." + "y" * 300)[:200]),
        ("e\u0301.txt", "é.txt"),
        ("half\ud83d.txt", "half.txt"),
    ],
)
def test_a_name_is_no_path_and_hides_nothing(name: str, kept: str) -> None:
    assert cleaned(name) == kept


@given(st.text(max_size=400))
def test_whatever_is_sent_becomes_a_name_that_stays_as_it_is(name: str) -> None:
    kept = cleaned(name)
    assert kept
    assert len(kept.encode()) <= LONGEST_NAME
    assert not set(kept) & set('/\\\0\r\n"<>:|?*\u202e')
    assert kept not in (".", "..")
    assert cleaned(kept) == kept


@pytest.mark.parametrize(
    ("head", "is_text", "type_"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", False, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", False, "image/jpeg"),
        (b"GIF89a\1\0\1\0", False, "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", False, "image/webp"),
        (b"RIFF\x24\0\0\0WAVEfmt ", False, "application/octet-stream"),
        (b"%PDF-1.7\n", False, "application/pdf"),
        (b"%PDF-1.7\n", True, "application/pdf"),
        (b"PK\3\4\x14\0", False, "application/zip"),
        (b"\x1f\x8b\x08\0", False, "application/gzip"),
        (b"id,total\n1,2\n", True, "text/plain"),
        (b"<html><script>", True, "text/plain"),
        (b"<svg xmlns=", True, "text/plain"),
        (b"", True, "text/plain"),
        (b"MZ\x90\0\3\0\0\0", False, "application/octet-stream"),
    ],
)
def test_a_type_is_what_the_bytes_say(head: bytes, is_text: bool, type_: str) -> None:
    assert sniffed(head, is_text=is_text) == type_
