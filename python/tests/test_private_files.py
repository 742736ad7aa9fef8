import os
from pathlib import Path

from mneme import private_files


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_is_made_is_its_owners_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = tmp_path / "a" / "b"
        private_files.make_folder(folder)
        for kind in "w", "a":
            with private_files.open_text(folder / kind, kind) as file:
                file.write("x")
    finally:
        os.umask(before)
    assert [mode(folder), mode(folder.parent)] == [0o700, 0o700]
    assert [mode(folder / kind) for kind in "wa"] == [0o600, 0o600]
    folder.chmod(0o755)
    private_files.make_folder(folder)
    assert mode(folder) == 0o755
