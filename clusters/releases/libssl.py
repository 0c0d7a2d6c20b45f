"""OpenSSL 1.1 for servers that were built for it, out of a package that is not installed.

From Debian 11 by this machine's own apt and mirrors, into lists of its own; where that does not work, from a wheel that
carries the same library. Nothing of the system is changed.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from clusters.errors import Refused
from clusters.releases.catalogue import Wheel
from clusters.releases.download import check, fetch, run

LIBRARIES: Final = ("libssl.so.1.1", "libcrypto.so.1.1")
NEEDED: Final = frozenset(LIBRARIES)

PACKAGES: Final = {
    "debian-security": (
        "bullseye-security",
        "1.1.1w-0+deb11u8",
        "dcc68a543de6cb955a57077b66dcdb15f61d1e31e072f2c6cc4082c37da1b00d",
    ),
    "debian": ("bullseye", "1.1.1w-0+deb11u1", "aadf8b4b197335645b230c2839b4517aa444fd2e8f434e5438c48a18857988f7"),
}
"""By what ends a mirror's address: the suite, the version of libssl1.1 in it for amd64, the SHA-256 of that file. The
one with the short list of packages first."""

WHEEL: Final = Wheel(
    "psycopg2-binary",
    "2.9.5",
    "e59137cdb970249ae60be2a49774c6dfb015bd0403f05af1fe61862e9626642d",
    ("--python-version", "3.9", "--implementation", "cp", "--platform", "manylinux2014_x86_64"),
)
"""It carries OpenSSL 1.1.1 under names of its own (measured: mongod 4.2.6 to 6.0.27 run with it)."""

APT: Final = Path("/etc/apt")
_MIRROR: Final = re.compile(r"(?<=\s)(\S+/(debian|debian-security)(?:\.list)?/?)(?=\s|$)")
"""Where a mirror ends in; `mirror+file:/etc/apt/mirrors/debian.list` is what cloud images have."""
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def provide(directory: Path, scratch: Path, tell: Callable[[str], None]) -> None:
    """Put the libraries into `directory`, which is made. `scratch` is for what is of no use afterwards.

    Raises Refused saying why neither way works.
    """
    directory.mkdir()
    try:
        _from_debian(directory, scratch / "apt")
        return
    except Refused as error:
        without = str(error)
    finally:
        shutil.rmtree(scratch / "apt", ignore_errors=True)
    tell(f"{without}; taking it from {WHEEL.distribution} {WHEEL.version}")
    try:
        _from_wheel(directory, scratch)
    except Refused as error:
        raise Refused(
            f"OpenSSL 1.1 cannot be had: {without}; {error}. Install it yourself (libssl.so.1.1), and try again"
        ) from None
    finally:
        shutil.rmtree(scratch / "wheel", ignore_errors=True)


def _from_debian(directory: Path, scratch: Path) -> None:
    """Raises Refused where there is no apt, no mirror of Debian's, or no package with a known hash on it."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise Refused(f"no {program} here")
    for line, version, sha256 in sources():
        shutil.rmtree(scratch, ignore_errors=True)
        options = _apart(scratch, line)
        run(["apt-get", *options, "update"], {})  # what it did not get is missing below
        # It downloads into its working directory, and has no option for another.
        command = f"cd '{scratch}' && exec apt-get \"$@\""
        run(["sh", "-c", command, "sh", *options, "download", f"libssl1.1:amd64={version}"], {})
        for package in scratch.glob("libssl1.1_*.deb"):
            check(package, sha256, f"libssl1.1 {version}")
            done = run(["dpkg-deb", "--extract", str(package), str(scratch / "files")], {})
            if done.returncode != 0:
                raise Refused(f"libssl1.1 {version} cannot be unpacked")
            for name in LIBRARIES:
                shutil.move(scratch / "files/usr/lib/x86_64-linux-gnu" / name, directory / name)
            return
    wanted = " or ".join(version for _suite, version, _sha256 in PACKAGES.values())
    raise Refused(f"no mirror that apt is configured with has libssl1.1 {wanted}")


def _from_wheel(directory: Path, scratch: Path) -> None:
    """The libraries find each other under the names they have there; servers look for them under those they had."""
    with zipfile.ZipFile(fetch(WHEEL, scratch)) as archive:
        for name in LIBRARIES:
            stem, dot, rest = name.partition(".")
            carried = re.compile(rf".*/({stem}-[0-9a-f]+\{dot}{re.escape(rest)})")
            (found,) = (one for one in map(carried.fullmatch, archive.namelist()) if one)
            (directory / found[1]).write_bytes(archive.read(found[0]))
            (directory / name).symlink_to(found[1])


def _apart(scratch: Path, line: str) -> list[str]:
    """Options that let apt use lists of its own, of this source alone."""
    for name in ("lists/partial", "cache/archives/partial"):
        (scratch / name).mkdir(parents=True)
    (scratch / "status").touch()
    (scratch / "sources.list").write_text(line + "\n")
    settings = {
        "Dir::Etc::sourcelist": scratch / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": scratch / "lists",
        "Dir::Cache": scratch / "cache",
        "Dir::State::status": scratch / "status",
        # As root it would fetch as a user who may not write here.
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def sources() -> list[tuple[str, str, str]]:
    """Of each Debian mirror that this machine uses the suite with libssl1.1, as a line of sources.list(5), and the
    package's version and hash. Raises Refused where there is none."""
    if not KEYRING.is_file():
        raise Refused(f"no keyring of Debian's here ({KEYRING})")
    lines = [line for path in _configured() for line in path.read_text(errors="replace").splitlines()]
    mirrors: dict[str, str] = {}
    for line in lines:
        if line.startswith(("deb ", "URIs:")):
            mirrors.update(_MIRROR.findall(line))
    if not mirrors:
        raise Refused("apt is configured with no mirror of Debian's")
    return [
        (f"deb [arch=amd64 signed-by={KEYRING}] {uri} {suite} main", version, sha256)
        for kind, (suite, version, sha256) in PACKAGES.items()
        for uri, ends_in in mirrors.items()
        if ends_in == kind
    ]


def _configured() -> list[Path]:
    """Where apt's sources are listed (sources.list(5))."""
    parts = sorted(one for one in (APT / "sources.list.d").glob("*") if one.suffix in (".list", ".sources"))
    return [one for one in (APT / "sources.list", *parts) if one.is_file()]
