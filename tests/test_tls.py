"""A cluster that talks TLS alone is attached and adopted as any other; the password of the key stays here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from clusters import admin, adopted, discovery, local
from clusters.attached import AttachedCluster
from clusters.errors import Refused
from clusters.guard import ledger_directory
from clusters.topology import single_replica_set
from clusters.uri import Uri, parse
from harness import sight

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl"),
]

PASSWORD = "s3cr3t"


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """`ca.pem`, `server.pem`, and `client.pem` whose key has a password; all of one self-signed certificate."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True)

    name = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *name, "-keyout", "key", "-out", "ca.pem")
    openssl("rsa", "-aes256", "-passout", f"pass:{PASSWORD}", "-in", "key", "-out", "locked")
    certificate = (tmp_path / "ca.pem").read_text()
    (tmp_path / "server.pem").write_text((tmp_path / "key").read_text() + certificate)
    (tmp_path / "client.pem").write_text((tmp_path / "locked").read_text() + certificate)
    return tmp_path


async def test_a_cluster_with_tls_is_attached_and_adopted(certificates: Path) -> None:
    cluster = await local.bring_up(single_replica_set(1), "tests-tls")
    try:
        async with cluster.client() as client:
            await client.drop_database("mongofault")
        (member,) = cluster.members.values()
        await member.kill()
        member.command += ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(certificates / "server.pem")]
        member.command += ["--tlsCAFile", str(certificates / "ca.pem")]
        member.spawn()
        trust = f"mongodb://{member.host}/?tls=true&tlsCAFile={certificates / 'ca.pem'}"
        uri = parse(
            f"{trust}&tlsCertificateKeyFile={certificates / 'client.pem'}&tlsCertificateKeyFilePassword={PASSWORD}"
        )
        assert PASSWORD not in str(uri)
        found = await _attached(uri)
        (view,) = await sight.of(found)
        assert set(view.answers.values()) == {sight.SEEN}
        await adopted.adopt(found, uri, "tls")
        ours = await adopted.load("tls", uri)
        async with ours.members["rs0-0"].client() as client:
            assert (await client.admin.command("ping"))["ok"]
        assert PASSWORD not in "".join(one.read_text() for one in ledger_directory("tls").iterdir())
        await adopted.release("tls", uri, forget=False)
        with pytest.raises(Refused, match="self-signed certificate"):
            await discovery.attach(parse(f"mongodb://{member.host}/?tls=true"))
        with pytest.raises(Refused):
            await discovery.attach(parse(trust))  # without a certificate of the client's
    finally:
        await cluster.down()


async def _attached(uri: Uri) -> AttachedCluster:
    """Once it listens and has elected itself."""
    found: list[AttachedCluster] = []

    async def attached() -> bool:
        try:
            found.append(await discovery.attach(uri))
        except Refused:
            return False
        return (await sight.of(found[-1]))[0].state == "primary"

    await admin.until("the member with TLS is a primary", attached, deadline=30, every=0.2)
    return found[-1]
