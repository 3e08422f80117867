"""Every command and every Python block in the README files and in docs/, as a reader would copy it."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    path
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/*.md", "dataset/README.md", "results/*/README.md")
    for path in ROOT.glob(pattern)
)
PROGRAMS = ("python", "make", "pip", "recbole-adaptau", "source", "torchrun", "uv")


@dataclass(frozen=True)
class Found:
    """A command, or a block of Python, and where it stands."""

    file: str
    line: int
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text.splitlines()[0]}"


def _blocks(path: Path) -> list[tuple[str, int, str]]:
    """Language, first line number and content of each fenced block."""
    text = path.read_text(encoding="utf-8")
    return [
        (block[1], text[: block.start()].count("\n") + 2, block[2])
        for block in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    ]


def commands(path: Path) -> list[Found]:
    """Lines of blocks without a language or in a shell's, and commands in the middle of a sentence."""
    name, found = path.relative_to(ROOT).as_posix(), []
    for language, line, content in _blocks(path):
        if language in ("", "bash", "sh", "console"):
            rows = content.replace("\\\n", " ").splitlines()
            found += [Found(name, line + number, row.strip()) for number, row in enumerate(rows) if row.strip()]
    prose = re.sub(
        r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), path.read_text(encoding="utf-8"), flags=re.M | re.S
    )
    for inline in re.finditer(rf"`((?:{'|'.join(PROGRAMS)}) [^`]+)`", prose):
        found.append(Found(name, prose[: inline.start()].count("\n") + 1, " ".join(inline[1].split())))
    return found


def python_blocks(path: Path) -> list[Found]:
    name = path.relative_to(ROOT).as_posix()
    return [Found(name, line, content) for language, line, content in _blocks(path) if language in ("python", "py")]
