"""`equipoise serve`: what cannot be served is said; as a process it serves, and stops when it is
told to.
"""

import json
import signal
import socket

import httpx
import pytest
from small_runs import SMALL, start


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "TARGET"),
        (["nowhere"], "no folder 'nowhere'"),
        (["./nowhere"], "nowhere"),
        (["http://127.0.0.1:1/v1"], "put LiteLLM before several servers"),
        (["builtin", "--no-token", "--host", "0.0.0.0"], "use a token"),
        (["builtin", "--no-token", "--token-env", "A"], "exclude each other"),
        (["builtin", "--token-env", "NO_SUCH_TOKEN"], "NO_SUCH_TOKEN"),
        (["builtin", "-s", "player.tempurature=1"], "did you mean 'temperature'"),
        (["builtin", "-s", "concurency=1"], "did you mean 'concurrency'"),
        (["builtin", "-s", "concurrency=0"], "concurrency: Input should be greater"),
        (["builtin", "-s", "steering=subscripton"], "did you mean 'subscription'"),
        (["builtin", "--host", "no.such.host.invalid"], "cannot listen"),
    ],
)
def test_what_cannot_be_served_is_said(command, arguments, words):
    result = command("serve", "--port", "0", *arguments)
    assert result.code == 2
    assert words in result.err


def test_a_port_that_is_taken_is_named(command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = command("serve", "builtin", "--port", port)
    assert result.code == 2
    assert str(port) in result.err


def _facts(process) -> dict:
    """The JSON with which the server says that it is there."""
    text = ""
    while not text.rstrip().endswith("}"):
        line = process.stdout.readline()
        assert line, process.stderr.read()
        text += line
    return json.loads(text)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop_and_finishes_what_is_under_way(tmp_path, stop):
    process = start("serve", "builtin", "--port", "0", "--json", cwd=tmp_path)
    facts = _facts(process)
    body = {
        "model": "builtin",
        "messages": [{"role": "user", "content": "What is 31 + 4?"}],
        "seed": 1,
        "n": 16,
    }
    # Hot and long, so that most of it is still under way when the signal comes.
    body |= {"temperature": 2, "max_tokens": 200, "stream": True}
    headers = {"authorization": f"Bearer {facts['token']}"}
    with httpx.stream(
        "POST", f"{facts['url']}/chat/completions", json=body, headers=headers, timeout=60
    ) as reply:
        lines = reply.iter_lines()
        next(lines)
        process.send_signal(stop)
        rest = [line for line in lines if line]
    assert rest[-1] == "data: [DONE]"
    ends = [json.loads(line[6:])["choices"][0]["finish_reason"] for line in rest[:-1]]
    assert len([end for end in ends if end]) == 16
    assert process.wait(60) == 0
    assert "Traceback" not in process.stderr.read()
    with pytest.raises(httpx.ConnectError):
        httpx.get(facts["url"].replace("/v1", "/health"))


@pytest.mark.long
def test_a_second_signal_ends_it_at_once(tmp_path):
    process = start("serve", "builtin", "--port", "0", "--json", cwd=tmp_path)
    httpx.get(_facts(process)["url"].replace("/v1", "/health"))
    # While it stands still, so that both have come when it goes on.
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "\nstopped; what is recorded is kept\n"


@pytest.mark.slow
def test_a_runs_generations_and_mixture_are_served(command, tmp_path, monkeypatch):
    assert command("run", "quickstart", *SMALL, "--out", "run", "--json").code == 0
    monkeypatch.setenv("MY_TOKEN", "sesame")
    process = start(
        "serve", "run", "--port", "0", "--json", "--token-env", "MY_TOKEN", cwd=tmp_path
    )
    try:
        facts = _facts(process)
        assert facts["token"] is None
        assert facts["models"] == ["policy@0", "policy@1", "policy", "mixture"]
        names = set()
        for seed in range(30):
            body = {
                "model": "mixture",
                "messages": [{"role": "user", "content": "What is 3 + 4?"}],
                "seed": seed,
            }
            reply = httpx.post(
                f"{facts['url']}/chat/completions",
                json=body,
                headers={"authorization": "Bearer sesame"},
            )
            names.add(reply.json()["model"])
        assert names <= {"policy@0", "policy@1"}
        assert names
    finally:
        process.terminate()
        assert process.wait(60) == 0
