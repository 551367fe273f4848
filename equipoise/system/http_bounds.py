"""Bounds, pauses and messages of requests to servers, the same for endpoints and engines."""

import email.utils
import json
import random
import re
import time
from collections.abc import Mapping
from typing import Any

from equipoise.errors import clean_message

LONGEST_REPLY = 16 * 2**20  # bytes of a reply, uncompressed, unless a setting says otherwise
LONGEST_REFUSAL = 64 * 1024  # bytes that are read of a reply that reports an error
LONGEST_MESSAGE = 300  # characters of a server's message that are repeated in ours
CONNECTING = 15.0  # seconds until a host that does not answer counts as unreachable
KEPT_CONNECTIONS = 100  # idle ones that stay open
FIRST_PAUSE = 0.5  # seconds
LONGEST_PAUSE = 30.0  # seconds
TRANSIENT = {408, 409, 425, 429}  # HTTP statuses below 500 that may pass
NOT_IMPLEMENTED = 501  # the status above 500 that does not
SHORTEST_SECRET = 16  # characters of a key that is more than a word
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def is_transient(status: int) -> bool:
    """True if a request that was answered with this HTTP status may be answered at another time."""
    return status in TRANSIENT or (status >= 500 and status != NOT_IMPLEMENTED)


def pause_after(attempts: int) -> float:
    """Seconds to wait after so many attempts that failed: drawn, and longer each time.

    Evenly from [0, FIRST_PAUSE · 2ⁿ] after attempt n, and at most LONGEST_PAUSE.
    """
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(attempts - 1, 60))
    return random.uniform(0, longest)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until the time in Retry-After (seconds, or an HTTP date); None without one."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        date = email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, date - time.time())


def server_message(text: str, key: str | None = None) -> str:
    """The reason that a reply's text gives, out of its JSON, in few characters."""
    content = json_or_text(text)
    for name in ("error", "message", "detail"):
        if isinstance(content, dict) and name in content:
            content = content[name]
    return brief_message(str(content), key)


def brief_message(message: str, key: str | None = None) -> str:
    """`message` on one line, short, and without the key, should the server have repeated it."""
    if key:
        message = without_key(message, key)
    message = clean_message(" ".join(without_surrogates(message).split()))
    if len(message) <= LONGEST_MESSAGE:
        return message
    return f"{message[:LONGEST_MESSAGE]}…"


def without_key(text: str, key: str) -> str:
    """`text` with "[key]" for the key, forwards or backwards, in any case, and with up to six
    signs or blanks between two of its characters, where it is long enough to be no word.
    """
    text = text.replace(key, "[key]")
    letters = [re.escape(letter) for letter in key if letter.isalnum()]
    if len(letters) < SHORTEST_SECRET:
        return text
    between = r"[\W_]{0,6}"
    forms = between.join(letters), between.join(reversed(letters))
    return re.sub("|".join(forms), "[key]", text, flags=re.IGNORECASE)


def json_or_text(text: str) -> Any:
    """The JSON in a reply, or the reply itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def without_surrogates(text: str) -> str:
    """`text` with � in place of halves of a character, which no file can hold."""
    return LONE_SURROGATE.sub("\ufffd", text)
