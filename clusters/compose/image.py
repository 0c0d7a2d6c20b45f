"""An image of the mongod (and mongos) that this machine has, for engines that can pull none.

FROM scratch: the binaries, the shared libraries that they load, a shell, and what a server expects of a machine.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from clusters.binaries import Binary, linked, missing_libraries
from clusters.compose import engine
from clusters.errors import ClusterError, Refused

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image

REPOSITORY: Final = "mongofault/mongod"
CONTENTS: Final = "mongofault.contents"
"""A label of the image: what it was built of, so that it is built again only when that changes."""
VERSION: Final = "mongofault.version"
GIT: Final = "mongofault.git"
MONGOS: Final = "mongofault.mongos"
"""Labels of the image: the servers in it, told without starting one."""
LIBRARIES: Final = "usr/lib/mongofault"
ASKED_FOR_BY_NAME: Final = ("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2")
"""Loaded at the first look-up of a name where the C library is older than 2.34; no binary says that it needs them."""

FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nmongodb:x:999:999::/data/db:/bin/sh\n",
    "etc/group": "root:x:0:\nmongodb:x:999:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
DIRECTORIES: Final = {"tmp": 0o1777, "data/db": 0o755, "data/configdb": 0o755, "root": 0o700}


def image_tag(version: str, *, shell: bool = True) -> str:
    """What the image of this server version is called, `mongofault/mongod:6.0.5`."""
    return f"{REPOSITORY}:{version}" + ("" if shell else "-no-shell")


def build(mongod: Binary, mongos: Binary | None, *, shell: bool = True) -> str:
    """The tag of an image of these binaries; built where there is none of just these.

    `shell`: with busybox as its shell and its commands. Raises Refused where something for it is missing or no engine
    answers, ClusterError where the engine does not build it.
    """
    if mongos is not None and mongos.version != mongod.version:
        raise Refused(f"mongos is {mongos.version} and mongod {mongod.version}: expected two of the same version")
    from docker.errors import APIError, BuildError  # late: most commands have no use for the SDK

    busybox = _static_busybox() if shell else None
    servers = {"mongod": mongod} | ({} if mongos is None else {"mongos": mongos})
    binaries = {name: one.executable for name, one in servers.items()}
    libraries = _libraries(servers.values())
    tag = image_tag(mongod.version, shell=shell)
    recipe = f"{_dockerfile(mongod, mongos, '')}{FILES}{DIRECTORIES}"
    contents = _digest(recipe, [*binaries.values(), *libraries, *([] if busybox is None else [busybox])])
    client = engine.connect()
    try:
        former = _tagged(client, tag)
        if former is not None and former.labels.get(CONTENTS) == contents:
            return tag
        with tempfile.TemporaryFile(prefix="mongofault-image-") as context:
            _write(context, _dockerfile(mongod, mongos, contents), binaries, libraries, busybox)
            client.images.build(fileobj=context, custom_context=True, tag=tag, rm=True, forcerm=True)
        if former is not None:
            # It has no name any more; where a container still runs it, it stays.
            with suppress(APIError):
                client.images.remove(str(former.id))
    except (BuildError, APIError) as error:
        raise ClusterError(f"the image {tag} was not built: {error}") from error
    finally:
        client.close()
    return tag


def _tagged(client: DockerClient, tag: str) -> Image | None:
    from docker.errors import ImageNotFound

    try:
        return client.images.get(tag)
    except ImageNotFound:
        return None


def _dockerfile(mongod: Binary, mongos: Binary | None, contents: str) -> str:
    has_mongos = "no" if mongos is None else "yes"
    return "\n".join(
        (
            "FROM scratch",
            "COPY root /",
            f"ENV LD_LIBRARY_PATH=/{LIBRARIES} HOME=/root",
            f"LABEL {CONTENTS}={contents} {VERSION}={mongod.version} {GIT}={mongod.git_version} {MONGOS}={has_mongos}",
            'VOLUME ["/data/db"]',
            "EXPOSE 27017",
            'CMD ["mongod", "--bind_ip", "0.0.0.0"]',
            "",
        )
    )


def _write(
    file: IO[bytes], dockerfile: str, binaries: dict[str, Path], libraries: Sequence[Path], busybox: Path | None
) -> None:
    """The build context: the Dockerfile, and under `root` all that is in the image."""
    with tarfile.open(fileobj=file, mode="w") as archive:
        _add_text(archive, "Dockerfile", dockerfile)
        for directory, mode in DIRECTORIES.items():
            entry = _entry(f"root/{directory}", mode)
            entry.type = tarfile.DIRTYPE
            archive.addfile(entry)
        for name, text in FILES.items():
            _add_text(archive, f"root/{name}", text)
        for name, binary in binaries.items():
            _add_file(archive, f"root/usr/bin/{name}", binary)
        for library in libraries:
            # The loader is asked for by its path, which is in the binary; all others are found by their names.
            inside = str(library)[1:] if library.name.startswith("ld-") else f"{LIBRARIES}/{library.name}"
            _add_file(archive, f"root/{inside}", library.resolve())
        if busybox is not None:
            _add_file(archive, "root/bin/busybox", busybox)
            for applet in _applets(busybox):
                link = _entry(f"root/bin/{applet}", 0o777)
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(link)
    file.seek(0)


def _entry(name: str, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode = mode
    return entry


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = _entry(name, 0o644)
    entry.size = len(text.encode())
    archive.addfile(entry, io.BytesIO(text.encode()))


def _add_file(archive: tarfile.TarFile, name: str, path: Path) -> None:
    entry = _entry(name, 0o755)
    entry.size = path.stat().st_size
    with path.open("rb") as content:
        archive.addfile(entry, content)


def _libraries(binaries: Iterable[Binary]) -> list[Path]:
    """The shared libraries that these load, the loader among them, each once. Raises Refused where one is missing."""
    found: dict[str, Path] = {}
    for binary in binaries:
        if missing := missing_libraries(binary.executable, binary.library_path):
            raise Refused(f"{binary.path} lacks shared libraries: {', '.join(missing)}; install them first")
        for path in _linked(binary.executable, binary.library_path):
            found.setdefault(path.name, path)
    if (c_library := found.get("libc.so.6")) is not None:
        for name in ASKED_FOR_BY_NAME:
            if (path := c_library.parent / name).exists():
                found.setdefault(name, path)
    return list(found.values())


def _linked(binary: Path, library_path: Path | None = None) -> list[Path]:
    try:
        done = linked(binary, library_path)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"ldd {binary} cannot be run ({error}): an image is built on Linux, of binaries for it") from None
    return [Path(one) for one in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", done.stdout, re.MULTILINE)]


def _static_busybox() -> Path:
    """A busybox that runs where there are no shared libraries. Raises Refused saying where to get it from."""
    path = shutil.which("busybox")
    if path is not None and not _linked(Path(path)):
        return Path(path)
    what = "no busybox here" if path is None else f"{path} is not static"
    raise Refused(f"{what}: install busybox-static (apt-get install busybox-static), or build with --no-shell")


def _applets(busybox: Path) -> list[str]:
    done = subprocess.run([busybox, "--list"], capture_output=True, text=True, timeout=10, check=True)
    return [one for one in done.stdout.split() if one != "busybox"]


def _digest(recipe: str, files: Sequence[Path]) -> str:
    """Of all that goes in: the same from whatever place the files are taken."""
    digest = hashlib.sha256(recipe.encode())
    for path in files:
        with path.open("rb") as content:
            digest.update(path.name.encode() + hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16]
