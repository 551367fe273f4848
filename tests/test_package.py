"""What is packaged: the wheel's content, the page of the package index, the site, the image and the
workflow.
"""

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
import yaml
from small_runs import SMALL

from equipoise.models.adapters import packaged_models
from equipoise.runs import recipe_loader

ROOT = Path(__file__).resolve().parents[1]
META = tomllib.loads((ROOT / "pyproject.toml").read_text())
HOME = META["project"]["urls"]["Homepage"]
LEFT_OUT = META["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"]
RULES = META["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]  # fmt: skip
ADDRESS = re.compile(rf"\]\({re.escape(HOME)}/blob/main/([^)#]+)(?:#[\w-]+)?\)")


def run(*arguments: object, cwd: Path = ROOT) -> str:
    """The output of a command that succeeds."""
    command = list(map(str, arguments))
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_links_on_the_package_index_lead_to_files():
    readme = (ROOT / "README.md").read_text()
    page = readme
    for rule in RULES:
        page = re.sub(rule["pattern"], rule["replacement"], page)
    links = ADDRESS.findall(page)
    assert len(links) > 10
    assert all((ROOT / link).exists() for link in links)
    assert not re.findall(r"\]\((?!https?://|#)", page)


def test_no_recipe_needs_a_model_that_the_wheel_leaves_out():
    recipes = [path.read_text() for path in (ROOT / "equipoise" / "recipes").glob("*.yaml")]
    models = [
        name
        for name, folder in packaged_models().items()
        if folder.relative_to(ROOT).as_posix().startswith(tuple(LEFT_OUT))
    ]
    assert models
    assert not [name for name in models if any(f"{name}\n" in text for text in recipes)]


def test_every_address_of_the_project_is_the_same():
    for path in ("equipoise/report/model_card.py", "CHANGELOG.md"):
        named = set(re.findall(r"https://github\.com/[\w-]+/[\w-]+", (ROOT / path).read_text()))  # fmt: skip
        assert named == {HOME}
    assert all(url.startswith(HOME) for url in META["project"]["urls"].values())


def test_the_changelog_has_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[([^]]+)\]", text, re.MULTILINE)
    assert versions[0] == "Unreleased"
    assert META["project"]["version"] in versions
    links = set(re.findall(r"^\[([^]]+)\]: https://", text, re.MULTILINE))
    assert links == set(versions)


@pytest.mark.long
def test_the_workflow_runs_the_makefile_on_every_python_that_is_promised():
    path = ROOT / ".github" / "workflows" / "ci.yml"
    workflow = yaml.safe_load(path.read_text())
    (test,) = [job for job in workflow["jobs"].values() if "strategy" in job]
    promised = {
        name.rpartition(" ")[2]
        for name in META["project"]["classifiers"]
        if re.search(r"Python :: 3\.\d+$", name)
    }
    assert set(test["strategy"]["matrix"]["python"]) == promised
    targets = re.findall(r"make ([a-z ]+)", path.read_text())
    known = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(" ".join(targets).split()) <= known
    page = (ROOT / "CONTRIBUTING.md").read_text()
    every_change, nightly = re.findall(r"`make ([a-z ]+)` (?:at every change|every night)", page)
    assert f"make {every_change}\n" in (ROOT / ".ci" / "run").read_text()
    assert test["steps"][-1]["run"] == f"make {every_change} PYTHON=python"
    assert workflow["jobs"][nightly]["steps"][-1]["run"] == f"make {nightly} PYTHON=python"
    assert workflow["jobs"][nightly]["if"] == "github.event_name == 'schedule'"
    check = Path(sys.executable).with_name("check-jsonschema")
    run(check, "--builtin-schema", "vendor.github-workflows", path)


def test_the_image_is_well_written():
    run(Path(sys.executable).with_name("hadolint"), ROOT / "Dockerfile")
    text = (ROOT / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name


@pytest.mark.slow
def test_the_wheel_holds_what_a_run_needs(tmp_path):
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path)
    (path,) = tmp_path.glob("*.whl")
    assert path.stat().st_size < 21_000_000
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        (place,) = [name for name in names if name.endswith("METADATA")]
        metadata = message_from_string(wheel.read(place).decode())
    package = ROOT / "equipoise"
    kept = [
        file.relative_to(ROOT).as_posix()
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    ]
    left_out = [name for name in kept if name.startswith(tuple(LEFT_OUT))]
    assert left_out
    assert names.isdisjoint(left_out)
    assert set(kept) - set(left_out) <= names
    assert {
        f"equipoise/recipes/{name}.yaml" for name in recipe_loader.recipe_descriptions()
    } <= names
    assert {"equipoise/py.typed"} <= names
    outside = {name.split("/")[0] for name in names} - {"equipoise"}
    assert all(name.endswith(".dist-info") for name in outside)
    assert metadata["Author"] == "The Equipoise developers"
    page = str(metadata.get_payload())
    assert len(ADDRESS.findall(page)) > 10
    assert not re.findall(r"\]\((?!https?://|#)", page)
    assert_it_plays(path, tmp_path)


def assert_it_plays(wheel: Path, folder: Path) -> None:
    """What is installed of the wheel plays the quickstart, far from this checkout."""
    site, play = folder / "site", folder / "play"
    play.mkdir()
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, wheel)
    start = (
        f"import sys; sys.path[:0] = [{str(site)!r}]; sys.argv[0] = 'equipoise'\n"
        "import equipoise.__main__ as command\n"
        f"assert command.__file__.startswith({str(site)!r})\n"
        "command.main()"
    )
    run(sys.executable, "-P", "-c", start, "run", "quickstart", *SMALL, "--out", "run", cwd=play)
    assert (play / "run" / "report.html").is_file()


def test_actions_are_fixed_by_commit_and_what_is_packaged_says_where_it_comes_from():
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        used = re.findall(r"uses: *(\S+)", workflow.read_text())
        assert used and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each) for each in used), used
    punkt = ROOT / "equipoise" / "payoffs" / "nltk_data"
    listed = (punkt / "tokenizers" / "punkt_tab" / "english" / "abbrev_types.txt").read_text()
    origin = (punkt / "ORIGIN.md").read_text()
    assert f"{len(listed.split())} common English abbreviations" in origin
    assert "(MIT)" in origin


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    options = ("--fail-on-warning", "--keep-going", "--quiet", "-c", "docs")
    run(sys.executable, "-m", "sphinx", *options, ".", tmp_path)
    index = (tmp_path / "docs" / "index.html").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f"{page.stem}.html" in index or page.stem == "index"
    for picture in (ROOT / "docs").glob("*.png"):
        assert (tmp_path / "_images" / picture.name).is_file()
    api = (tmp_path / "docs" / "api.html").read_text()
    assert "equipoise.solvers.zero_sum.nash" in api
