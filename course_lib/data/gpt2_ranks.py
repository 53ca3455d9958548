"""GPT-2's byte-pair ranks, from tiktoken's cache or from the network, with a limit on the time.

What it is: what `tiktoken.get_encoding("gpt2")` does for one table, without its two traps on a bad
network: it calls requests.get with no timeout, and it holds a lock while it waits, so that one hung
call hangs every later one. What it leaves out: all other vocabularies.
"""

import hashlib
import os
import queue
import tempfile
import threading
from pathlib import Path

from course_lib.runs.atomic import write_whole

MERGES_URL = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe"
MERGES_SHA256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"


def gpt2_ranks(*, timeout_s: float = 5) -> dict[bytes, int]:
    """Token bytes to id, ids 0..50255. ConnectionError if not to be had in `timeout_s` seconds."""
    path = cache_path()
    if path.is_file() and _is_genuine(data := path.read_bytes()):
        return parse_merges(data.decode())
    try:
        data = _download(timeout_s)
    except Exception as error:
        raise ConnectionError(
            f"GPT-2's table is not in {path} and could not be downloaded within {timeout_s} s "
            f"({type(error).__name__}): use Tokenizer.course(), which needs no network, or fetch "
            f"{MERGES_URL} elsewhere and save it under that name"
        ) from error
    _save(path, data)
    return parse_merges(data.decode())


def cache_path() -> Path:
    """Where tiktoken keeps the table: a folder of its choice, the sha1 of the address as name."""
    default = Path(tempfile.gettempdir()) / "data-gym-cache"
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR") or default
    return Path(folder) / hashlib.sha1(MERGES_URL.encode()).hexdigest()


def parse_merges(text: str) -> dict[bytes, int]:
    """Ranks from a vocab.bpe: a line of version, then two tokens a line, in order of their merges.

    The file writes each byte as a printable character: itself if it is one, else the next free one
    from U+0100. The single bytes are ranked in that order, printable ones first.
    """
    values = sorted(range(256), key=lambda value: (not _stands_for_itself(value), value))
    num_printable = sum(map(_stands_for_itself, values))
    shown = [chr(value) for value in values[:num_printable]]
    shown += [chr(256 + index) for index in range(256 - num_printable)]
    byte_of = dict(zip(shown, values, strict=True))
    tokens = [bytes([value]) for value in values]
    for line in text.splitlines()[1:]:
        tokens.append(bytes(byte_of[char] for char in line.replace(" ", "")))
    return {token: rank for rank, token in enumerate(tokens)}


def _stands_for_itself(value: int) -> bool:
    return chr(value).isprintable() and chr(value) != " "


def _is_genuine(data: bytes) -> bool:
    return hashlib.sha256(data).hexdigest() == MERGES_SHA256


def _download(timeout_s: float) -> bytes:
    """The table from the network; any exception if it is not here in time.

    In a thread that may be left behind, because the timeout of a request covers neither the lookup
    of the host nor a server that sends a byte a second.
    """
    answers: queue.Queue = queue.Queue()

    def fetch() -> None:
        try:
            answers.put(_get(timeout_s))
        except Exception as error:
            answers.put(error)

    threading.Thread(target=fetch, daemon=True).start()
    try:
        answer = answers.get(timeout=timeout_s)
    except queue.Empty:
        raise TimeoutError(f"no answer in {timeout_s} s") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _get(timeout_s: float) -> bytes:
    import requests

    response = requests.get(MERGES_URL, timeout=timeout_s)
    response.raise_for_status()
    if not _is_genuine(response.content):
        raise ValueError(f"{MERGES_URL} gave {len(response.content)} bytes that are not the table")
    return response.content


def _save(path: Path, data: bytes) -> None:
    """Put the table where tiktoken looks, whole or not at all; a read-only folder is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data, sync=False)  # its hash is compared whenever it is read
    except OSError:
        pass
