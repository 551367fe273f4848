"""What a borrowed card lacks is counted from what is installed here, and packed without ballast."""

import tarfile
import zipfile

from tools import gpu_packages


def test_what_a_card_has_is_not_brought_along():
    everything = gpu_packages.missing([])
    assert {"torch", "numpy", "pydantic", "pydantic-core", "pyarrow"} <= everything
    lacking = gpu_packages.missing(gpu_packages.PRESENT)
    assert {"pydantic", "pydantic-core", "pyarrow", "msgspec"} <= lacking
    assert not {"torch", "numpy", "transformers", "tokenizers", "equipoise"} & lacking
    assert not {"datasets", "math-verify", "dill", "aiohttp"} & lacking, (
        "left out with what they alone need"
    )
    assert lacking <= gpu_packages.versions().keys(), "each has one exact version"


def test_wheels_are_packed_without_what_no_import_needs(tmp_path):
    wheel = tmp_path / "some-1.0-py3-none-any.whl"
    kept = ["some/__init__.py", "some-1.0.dist-info/METADATA", "some/lib.so"]
    dropped = ["some/tests/test_it.py", "some/include/some.h", "some/lib.a", "some/part.pyi"]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in [*kept, *dropped, "some-1.0.dist-info/licenses/LICENSE"]:
            archive.writestr(name, "x" * 10)
    file = tmp_path / "site.tar.xz"
    sizes = gpu_packages.pack([wheel], tmp_path / "site", file)
    assert sizes == {wheel.name: 10 * len(kept)}
    with tarfile.open(file) as archive:
        names = {member.name for member in archive if member.isfile()}
    assert names == set(kept)
