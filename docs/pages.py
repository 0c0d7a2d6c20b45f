"""What mkdocs builds besides the files of this directory: the reference, and the two pages that lie with their subject.

A page that would fetch anything from elsewhere fails the build.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from mkdocs.exceptions import PluginError  # noqa: E402
from mkdocs.structure.files import File  # noqa: E402

from harness.reference import PAGES  # noqa: E402
from harness.reference.markdown import foreign  # noqa: E402

ELSEWHERE = {"compose.md": "compose/README.md", "jstests.md": "jstests_port/README.md"}
INFO = re.compile(r"^```(\w+) (\w+)$", re.MULTILINE)
"""What stands of a block behind its language: tests read it, and pages.css knows some of it as a class."""


def on_files(files: Any, config: Any) -> Any:
    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    for path, source in ELSEWHERE.items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    up = "../" * page.file.src_uri.count("/")
    for path, source in ELSEWHERE.items():
        markdown = markdown.replace(f"]({up}../{source}", f"]({up}{path}")
    return INFO.sub(r"``` { .\1 .\2 }", markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    if found := foreign(output):
        raise PluginError(f"{page.file.src_uri} would fetch {found[0]}: nothing may come from elsewhere")
    return output
