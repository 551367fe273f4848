"""What a shell completes, asked of a real bash."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.system.command_options import recipe_names
from equipoise.system.packaged_recipes import recipe_descriptions

ASK = """
eval "$(equipoise --show-completion bash)"
COMP_WORDS=({words})
COMP_CWORD={word}
$(complete -p equipoise | sed 's/.*-F \\([^ ]*\\).*/\\1/') equipoise
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def complete(tmp_path):
    """complete("run", "sp") -> what bash offers for the last word."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    command = tmp_path / "equipoise"
    command.write_text(f"#!{sys.executable}\nfrom equipoise.cli import main\nmain()\n")
    command.chmod(0o755)
    package = Path(__file__).resolve().parents[2]
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(package),
    }

    def ask(*words: str) -> list[str]:
        quoted = " ".join(f"'{word}'" for word in ("equipoise", *words))
        script = ASK.format(words=quoted, word=len(words))
        done = subprocess.run(
            [bash, "--norc", "-c", script],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return ask


@pytest.mark.long
def test_bash_completes_recipes_and_verbs(complete):
    assert complete("run", "spa") == [name for name in recipe_descriptions() if name[:3] == "spa"]
    assert "status" in complete("sta")
    assert complete("evaluate", "builtin", "--on", "gsm") == ["gsm8k"]


def test_every_recipe_is_offered():
    assert dict(recipe_names("")) == recipe_descriptions()
    assert [name for name, _ in recipe_names("quick")] == ["quickstart"]
