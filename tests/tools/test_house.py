"""The figures of the house: what is counted, and in which room."""

from tools import house

TEXT = '''"""A file."""


class One:
    def public(self):
        return 1

    def _private(self):
        return 2
'''


def test_lines_functions_and_classes_are_counted():
    counted = house.figures([])
    counted.add(TEXT)
    assert (counted.files, counted.lines) == (1, 6)
    assert (counted.functions, counted.private, counted.classes) == (2, 1, 1)
    assert " 50.0%" in counted.row("one")


def test_files_beside_the_rooms_have_a_row_of_their_own(tmp_path):
    package = tmp_path / "package"
    (package / "room" / "inner").mkdir(parents=True)
    for name in ("beside.py", "room/first.py", "room/inner/second.py"):
        (package / name).write_text(TEXT)
    by_room = house.rooms(package)
    assert {room: len(paths) for room, paths in by_room.items()} == {"package/*.py": 1, "room": 2}
