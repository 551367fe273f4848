"""The folders of a user who opens strangers' runs, and what notices that something was done to
them or in their name.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import struct
import sys
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

KINDS = ("executed", "read", "sent", "written", "deleted")
OPENED, OF_A_FOLDER = 0x20, 0x40000000  # inotify's
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
KEY = "CANARY_KEY"
MARKS = "marks"
MODULE = """
import os
os.makedirs({mark!r}, exist_ok=True)

def function(*values, **named):
    return "rock"
"""
HUB_NAMES = ("owner/canary", "owner/kernel")


class Canaries:
    """`treasure`: the user's files; `there`: where they open the run; a context manager."""

    def __init__(self, world: Path) -> None:
        self.world = world
        self.home = world / "home"
        self.treasure = self.home / "treasure"
        self.there = world / "there"
        self.mark = world / MARKS
        self.events = world / "events.jsonl"
        self.calls = 0
        self._before: Mapping[str, Any] = {}
        self._names: list[str] = []

    def __enter__(self) -> Canaries:
        self.treasure.mkdir(parents=True)
        for name in ("tmp", "state", "cache"):
            (self.world / name).mkdir()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._count, daemon=True).start()
        self._fill()
        os.environ["MPLCONFIGDIR"] = str(self.world / "cache")
        import_module("matplotlib.font_manager")  # makes its list of fonts
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._inotify = self._libc.inotify_init1(os.O_NONBLOCK)
        for folder in (self.treasure, *(f for f in self.treasure.rglob("*") if f.is_dir())):
            watched = self._libc.inotify_add_watch(self._inotify, str(folder).encode(), OPENED)
            assert watched >= 0, f"inotify: {os.strerror(ctypes.get_errno())}"
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._inotify)
        self._listening.close()

    def _fill(self) -> None:
        """Texts, prompts, a model with code of its own, an adapter."""
        from equipoise.models.adapters import packaged_adapters, packaged_models

        rows = [{"prompt": f"secret {i}", "question": "a", "answer": "#### 1"} for i in range(60)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        for name in ("secret.jsonl", "secret.txt"):
            (self.treasure / name).write_text(lines)
        model = self.treasure / "model"
        shutil.copytree(packaged_models()["builtin/beginner"], model)
        settings = json.loads((model / "config.json").read_text())
        parts = ("Config", "Model", "ModelForCausalLM", "ModelForSequenceClassification")
        settings["auto_map"] = {f"Auto{part}": f"evil.{part}" for part in parts}
        settings["model_type"] = "evil"
        (model / "config.json").write_text(json.dumps(settings))
        (model / "evil.py").write_text(self.module())
        shutil.copytree(packaged_models()["builtin/beginner"], self.treasure / "plain")
        shutil.copytree(packaged_adapters()["builtin/sums"], self.treasure / "adapter")

    def module(self) -> str:
        """Code that leaves a mark where it is imported."""
        return MODULE.format(mark=str(self.mark))

    def environment(self) -> dict[str, str]:
        """The variables of the user."""
        return {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.world / "state"),
            "TMPDIR": str(self.world / "tmp"),
            "HF_HOME": str(self.world / "cache"),
            "MPLCONFIGDIR": str(self.world / "cache"),
            "HTTPS_PROXY": self.url,  # so that whatever is asked of a hub is noticed too
            KEY: "secret",
        }

    # -- one command

    def reset(self) -> None:
        """The user's folder anew, with modules of the stranger's in it."""
        for folder in (self.there, self.mark, self.world / "state", self.world / "tmp"):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (self.there, self.world / "state", self.world / "tmp"):
            folder.mkdir()
        for name in ("canary", "msgspec", "sitecustomize", "usercustomize", "yaml"):
            (self.there / f"{name}.py").write_text(self.module())
        command = self.there / "command"
        command.write_text(f"#!/bin/sh\nmkdir -p {self.mark}\n")
        command.chmod(0o755)

    def begin(self) -> None:
        """Notice from now on."""
        self.events.write_bytes(b"")
        self._opened()
        self._names.clear()
        self.calls = 0
        self._before = self._state()

    def listen_in(self) -> None:
        """Report what this process does from now on, its `import`s and own folders left out."""
        for module in list(sys.modules.values()):  # made when it was imported
            if "HF_MODULES_CACHE" in vars(module):
                vars(module)["HF_MODULES_CACHE"] = str(self.world / "cache")
        out = os.open(self.events, os.O_WRONLY | os.O_APPEND)
        own = tuple(f"{self.world}/{name}" for name in ("there/run", "tmp", "state", "cache"))
        ours = (*own, str(self.world / "output.txt"), "/dev/")

        def report(kind: str, what: Any) -> None:
            os.write(out, json.dumps([kind, str(what)]).encode() + b"\n")

        def touched(kind: str, path: Any, folder: int | None = None) -> None:
            if isinstance(path, str | bytes | os.PathLike):
                home = (
                    os.getcwd() if folder in (None, -1) else os.readlink(f"/proc/self/fd/{folder}")
                )
                whole = os.path.normpath(os.path.join(home, os.fsdecode(path)))
                is_probe = os.path.basename(whole).startswith(".equipoise.")  # can one write here?
                if not whole.startswith(ours) and not is_probe:
                    report(kind, whole)

        def hook(event: str, given: Any) -> None:
            if event == "open":
                if given[2] & WRITES:
                    touched("written", given[0], getattr(place, "folder", None))
            elif event in ("os.remove", "os.rmdir", "shutil.rmtree"):
                touched("deleted", *given[:2])
            elif event == "os.rename":
                touched("deleted", given[0], given[2])
                touched("written", given[1], given[3])
            elif event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
                report("executed", given[1] if len(given) > 1 else given[0])
            elif event == "socket.connect" and isinstance(given[1], tuple):
                report("sent", given[1])

        plainly = os.open
        place = threading.local()  # the folder of the file that is opened, which no event names

        def opening(*values: Any, dir_fd: int | None = None, **named: Any) -> int:
            place.folder = dir_fd
            try:
                return plainly(*values, dir_fd=dir_fd, **named)
            finally:
                place.folder = None

        os.open = opening
        sys.addaudithook(hook)

    def noticed(self) -> dict[str, list[str]]:
        """Kind -> what was done since `begin`."""
        noticed: dict[str, list[str]] = {kind: [] for kind in KINDS}
        for line in self.events.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # it is being written
            kind, what = json.loads(line)
            noticed[kind].append(what)
        noticed["read"] += self._opened()
        if self.mark.exists():
            noticed["executed"].append("a canary")
        noticed["sent"] += ["a connection"] * self.calls
        after = self._state()
        for path in {*self._before, *after}:
            if path not in after:
                noticed["deleted"].append(path)
            elif after[path] != self._before.get(path):
                noticed["written"].append(path)
        return {kind: list(dict.fromkeys(things)) for kind, things in noticed.items()}

    def sang(self, kinds: Collection[str]) -> bool:
        """True once something of these kinds has been noticed."""
        noticed = self.noticed()
        return any(noticed[kind] for kind in kinds)

    def _opened(self) -> list[str]:
        """The user's files that were opened since `begin`."""
        names = self._names
        try:
            while data := os.read(self._inotify, 65536):
                at = 0
                while at < len(data):
                    _, mask, _, length = struct.unpack_from("iIII", data, at)
                    name = data[at + 16 : at + 16 + length].rstrip(b"\0").decode()
                    at += 16 + length
                    if name and not mask & OF_A_FOLDER:
                        names.append(name)
        except BlockingIOError:
            pass
        return names

    def _state(self) -> dict[str, tuple[int, int]]:
        """Path -> (size, time of change) in the user's folders, the run's own left out."""
        found = {}
        for root in (self.home, self.there):
            for folder, inner, names in os.walk(root):
                if folder == str(self.there):
                    inner[:] = [name for name in inner if name != "run"]
                for path in (Path(folder, name) for name in names):
                    with suppress(FileNotFoundError):  # a command is at work
                        facts = path.lstat()
                        found[str(path)] = (facts.st_size, facts.st_mtime_ns)
        return found

    def _count(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.calls += 1
            with connection:
                connection.settimeout(1)
                try:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                except OSError:
                    pass
