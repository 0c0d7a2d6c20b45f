"""SCRAM: the exchanges that the RFCs give, and servers that do not know the password."""

from __future__ import annotations

import pytest

from clusters.wire.scram import Exchange, NotTrusted

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange() -> Exchange:
    return Exchange("user", "pencil", "SCRAM-SHA-256", nonce=NONCE)


def test_the_exchange_of_rfc_7677() -> None:
    one = exchange()
    assert one.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert one.final(FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    one.verify(FINAL)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (FIRST.replace(b"rOprN", b"XXXXX"), "nonce"),
        (b"r=" + NONCE.encode() + FIRST[FIRST.index(b",s=") :], "nonce"),
        (FIRST.replace(b"i=4096", b"i=1"), "asks for 1 iterations"),
        (FIRST.replace(b"i=4096", b"i=many"), "not one of SCRAM"),
        (b"e=other-error", "not one of SCRAM"),
        (b"\xff\x00", "not one of SCRAM"),
    ],
)
def test_a_first_answer_that_cannot_be_trusted(answer: bytes, said: str) -> None:
    with pytest.raises(NotTrusted, match=said):
        exchange().final(answer)


@pytest.mark.parametrize("answer", [FINAL.replace(b"6rri", b"XXXX"), b"v=", b"", b"e=invalid-proof"])
def test_a_server_that_does_not_know_the_password_is_found_out(answer: bytes) -> None:
    one = exchange()
    one.final(FIRST)
    with pytest.raises(NotTrusted, match="signature"):
        one.verify(answer)


def test_names_are_escaped_as_the_rfc_has_it() -> None:
    assert Exchange("a=b,c", "x", "SCRAM-SHA-1", nonce="n").first() == b"n,,n=a=3Db=2Cc,r=n"
