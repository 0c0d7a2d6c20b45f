"""A URI's secrets are shown nowhere: not in what it says of itself, not in what is said of one that cannot be used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clusters import uri
from clusters.errors import Refused

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mongodb://h1,h2:27/db?replicaSet=rs", "mongodb://h1,h2:27/db?replicaSet=rs"),
        ("mongodb://ann:s3cr3t@h/", "mongodb://ann:***@h/"),
        ("mongodb://ann:s3cr3t%40x%2Fy@h1,h2/?tls=true", "mongodb://ann:***@h1,h2/?tls=true"),
        (
            "mongodb://h/?tlsCertificateKeyFilePassword=s3cr3t&tls=false",
            "mongodb://h/?tlsCertificateKeyFilePassword=***&tls=false",
        ),
        (
            "mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:s3cr3t",
            "mongodb://h/?authMechanismProperties=***",
        ),
    ],
)
def test_what_is_shown_holds_no_secret(text: str, shown: str) -> None:
    one = uri.parse(text)
    assert str(one) == shown
    assert one.secret == (text != shown)
    assert one.full == text
    assert SECRET not in repr(one)
    assert SECRET not in uri.redacted(f"no luck with {text}, sorry")


@pytest.mark.parametrize(
    "text",
    [
        "mongodb://ann:one s3cr3t@h/",
        "mongodb://ann:a@b:s3cr3t@h/",
        "mongodb://a/b:s3cr3t@h/",
        "mongodb+srv://a:/s3cr3t@h",
    ],
)
def test_a_password_that_no_uri_may_have_is_a_secret_too(text: str) -> None:
    assert SECRET not in uri.redacted(f"unexpected extra argument ({text})")


def test_secrets_of_other_drivers_are_no_less_so() -> None:
    assert (
        uri.redacted("at mongodb://h/?proxyPassword=s3cr3t&x=1, twice")
        == "at mongodb://h/?proxyPassword=***&x=1, twice"
    )


@pytest.mark.parametrize(
    "text",
    [
        "mongodb://ann:s3cr3t@@h/",
        "mongodb://ann:s3cr3t/@h/",
        "mongodb://ann:x:s3cr3t@h/",
        "mongodb://ann:%s3cr3t@h/",
        "mongodb://h:s3cr3t/",
        "mongodb://h/?authMechanism=s3cr3t",
        "mongodb://ann@h/?appName=s3cr3t",
        "postgres://ann:s3cr3t@h/",
        "mongodb://%2Ftmp%2Fs3cr3t.sock/",
        "",
    ],
)
def test_what_cannot_be_used_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(Refused) as refusal:
        uri.parse(text)
    assert SECRET not in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert refusal.value.__context__ is None or refusal.value.__suppress_context__


def test_of_an_option_that_cannot_be_used_the_name_is_said() -> None:
    with pytest.raises(Refused, match="does not accept option authMechanism, or its value"):
        uri.parse("mongodb://h/?replicaSet=rs&authMechanism=s3cr3t")


@pytest.mark.parametrize(
    ("text", "source", "hosts"),
    [
        ("mongodb://h/", "admin", ("h:27017",)),
        ("mongodb://ann:x@h:1,[::1]:2/shop", "shop", ("h:1", "[::1]:2")),
        ("mongodb://ann:x@h/shop?authSource=users", "users", ("h:27017",)),
    ],
)
def test_hosts_and_the_database_of_users_are_those_a_driver_takes(
    text: str, source: str, hosts: tuple[str, ...]
) -> None:
    one = uri.parse(text)
    assert (one.access.source, one.hosts) == (source, hosts)


@pytest.mark.parametrize("text", ["mongodb://ann:s3cr3t@h/", "mongodb://h/?tlsCertificateKeyFilePassword=s3cr3t"])
def test_a_password_on_the_command_line_is_refused_and_two_other_ways_are_named(text: str) -> None:
    with pytest.raises(Refused, match="MONGODB_URI, or into a file of yours for --uri-file") as refusal:
        uri.given(text, None)
    assert SECRET not in str(refusal.value)


def test_a_file_goes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGODB_URI", "mongodb://ann:s3cr3t@environment/")
    (tmp_path / "uri").write_text("mongodb://ann:s3cr3t@file/\n")
    assert uri.needed(None, tmp_path / "uri").hosts == ("file:27017",)
    assert uri.needed(None, None).hosts == ("environment:27017",)
    assert uri.needed("mongodb://argument/", None).hosts == ("argument:27017",)


def test_without_a_uri_the_ways_to_give_one_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MONGODB_URI", raising=False)
    with pytest.raises(Refused, match="no URI: give one without a password, or put"):
        uri.needed(None, None)


def test_the_name_service_is_asked_only_where_there_is_a_client_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dns", None)
    with pytest.raises(Refused, match="needs dnspython"):
        uri.parse("mongodb+srv://cluster.example/")
