"""A company's way, from an empty folder: three served models, a panel of two, a leaderboard, a best
response; the run is killed on the way and resumed.

    python -m benchmarks.strangers_arena [--out FOLDER]
        [--json benchmarks/results/strangers_arena.json]

The models are stubs behind a real HTTP server on this machine: sums, of which each model gets its
share right, and two judges that check them, one of which likes long answers. What is measured: the
plan's money beside what was spent, requests that were made twice, and whether every page is there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.running import write_results

COMMAND = str(Path(sys.executable).parent / "equipoise")
SKILL = {"small": 0.4, "medium": 0.65, "large": 0.9}  # share of sums that a model gets right
JUDGES = ("strict", "talkative")
PROMPTS = 40
KILL_AT = 60  # requests after which the run is killed
SUM = re.compile(r"(\d+) plus (\d+)")
FILLERS = (
    "I added the tens first and the ones afterwards.",
    "You can check it by taking the second number away again.",
    "Tell me if you would like to see every step of it.",
)


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on nothing but the parts."""
    text = "\0".join(map(str, parts))
    digest = hashlib.blake2b(text.encode(), digest_size=6).digest()
    return int.from_bytes(digest) / 2**48


def answer(body: dict[str, Any]) -> str:
    """What a stub says to a request."""
    text = body["messages"][-1]["content"]
    name = body["model"]
    if name in JUDGES:
        return verdict(name, text)
    first, second = map(int, SUM.search(text).groups())  # type: ignore[union-attr]
    is_right = chance(name, text, body.get("seed")) < SKILL[name]
    result = first + second + (not is_right)
    more = FILLERS[: int(4 * chance(text, name, body.get("seed"), "length"))]
    return " ".join([f"The sum of {first} and {second} is {result}.", *more])


def verdict(name: str, text: str) -> str:
    """A judge's reply: the right answer wins; of two alike the longer one, where it likes talk."""
    code = re.search(r'"code": "([^"]+)"', text)
    assert code is not None, "the question shows its code"
    request, _, answers = text.partition("Answer A:")
    first, second = map(int, SUM.search(request.rpartition("The request:")[2]).groups())  # type: ignore[union-attr]
    right = f"is {first + second}."
    shown = answers.partition("Answer B:")
    lead = (right in shown[0]) - (right in shown[2])
    if name == "talkative" and not lead:
        lead = (len(shown[0]) > len(shown[2])) - (len(shown[0]) < len(shown[2]))
    winner = {1: "A", -1: "B", 0: "tie"}[lead]
    reason = "I added both numbers myself and compared the result with what either answer says."
    return json.dumps({"reason": reason, "verdict": winner, "code": code[1]})


class Stubs:
    """The server: it answers, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address for a client."""
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def handler(self) -> type[BaseHTTPRequestHandler]:
        """The class that answers requests."""
        stubs = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                cards = [{"id": name, "object": "model"} for name in (*SKILL, *JUDGES)]
                self.reply({"object": "list", "data": cards})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with stubs.lock:
                    stubs.asked[json.dumps(body, sort_keys=True)] += 1
                text = answer(body)
                usage = {
                    "prompt_tokens": len(body["messages"][-1]["content"]) // 4,
                    "completion_tokens": len(text) // 4,
                }
                message = {"role": "assistant", "content": text}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                self.reply({"id": "1", "choices": [choice], "usage": usage})

            def reply(self, value: dict[str, Any]) -> None:
                """Send a JSON object."""
                content = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        return Handler


@contextmanager
def serving() -> Iterator[Stubs]:
    """The stubs while they are asked."""
    stubs = Stubs()
    try:
        yield stubs
    finally:
        stubs.server.shutdown()
        stubs.server.server_close()


def call(place: Path, *arguments: str) -> str:
    """The output of a command, which must end well."""
    done = subprocess.run(
        [COMMAND, *arguments], cwd=place, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"$ equipoise {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    return done.stdout


def run_and_kill(place: Path, stubs: Stubs) -> int:
    """Begin the run and kill it on the way; the number of requests until then."""
    process = subprocess.Popen(
        [COMMAND, "run", "board.yaml", "--out", "runs/board"],
        cwd=place,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while stubs.asked.total() < KILL_AT and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return stubs.asked.total()


def play(place: Path, stubs: Stubs) -> dict[str, Any]:
    """The whole way in an empty folder; what was measured of it."""
    place.mkdir(parents=True, exist_ok=True)
    rows = [{"prompt": f"What is {7 * n + 3} plus {5 * n + 11}?"} for n in range(PROMPTS)]
    (place / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    begun = time.monotonic()
    models = [part for name in SKILL for part in ("--model", f"{stubs.url}={name}")]
    judges = [part for name in JUDGES for part in ("--judge", f"{stubs.url}={name}")]
    call(
        place,
        *["init", "board.yaml", "--method", "arena", *models, *judges, "--data", "prompts.jsonl"],
        *["--prices", "0.5,1.5", "--money", "2", "-s", "player_defaults.max_new_tokens=96"],
    )
    planned = json.loads(call(place, "plan", "board.yaml", "--json"))
    stubs.asked.clear()
    killed_at = run_and_kill(place, stubs)
    call(place, "resume", "runs/board")
    status = json.loads(call(place, "status", "runs/board", "--json"))
    call(place, "report", "runs/board")
    call(place, "report", "runs/board", "--leaderboard")
    asked_by_run = stubs.asked.total()
    twice = sum(count - 1 for count in stubs.asked.values())
    response = json.loads(
        call(
            place,
            *["best-response", "runs/board@large", "--start", "builtin", "--json"],
            *["-s", "generations=1"],
        )
    )
    spent = sum(account["money"] for account in status["spent"].values())
    about = sum(each["money"] for each in planned["endpoints"])
    board = (place / "runs" / "board" / "leaderboard.html").read_text()
    return {
        "prompts": planned["counts"]["held_out_prompts"],
        "questions_planned": sum(each["questions"] for each in planned["endpoints"]),
        "requests": asked_by_run,
        "killed_at": killed_at,
        "asked_twice": twice,
        "money_planned": about,
        "money_spent": spent,
        "planned_over_spent": about / spent,
        "finished": status["finished"],
        "board_names_all": all(name in board for name in SKILL),
        "prompts_on_board": f"By {PROMPTS} prompts" in board,
        "best_response": response["gets"],
        "seconds": round(time.monotonic() - begun, 1),
    }


def is_whole(row: dict[str, Any]) -> bool:
    """Whether the whole way was gone: nothing but what was in flight was paid for twice."""
    in_flight = 16 * (len(SKILL) + len(JUDGES))
    return (
        row["finished"]
        and row["board_names_all"]
        and row["prompts_on_board"]
        and row["asked_twice"] <= in_flight
        and 0.5 <= row["planned_over_spent"] <= 2
        and row["best_response"]["mean"] is not None
    )


def main() -> None:
    """Go the way, and print what was measured; exit with 1 where it did not come to its end."""
    parser = argparse.ArgumentParser(description="A company's way to a leaderboard.")
    parser.add_argument("--out", type=Path, help="keep the folder here")
    parser.add_argument("--json", type=Path, help="write what was measured here")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="arena-") as spare, serving() as stubs:
        row = play((options.out or Path(spare)).resolve(), stubs)
    print(json.dumps(row, indent=1))
    if options.json:
        write_results(options.json, row, prompts=PROMPTS, kill_at=KILL_AT)
    sys.exit(not is_whole(row))


if __name__ == "__main__":
    main()
