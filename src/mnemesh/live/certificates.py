"""Certificates and keys in PEM: made, signed, read. ECDSA on P-256; an authority signs agents and nothing else."""

from __future__ import annotations

from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any

from mnemesh.errors import require
from mnemesh.live.addresses import Address

__all__ = ["authority", "certificate", "covers", "new_key", "read_certificate", "read_key", "serves_both_ways"]

_SKEW = timedelta(minutes=5)  # of other machines' clocks
_YEARS = timedelta(days=3_652)  # an authority's
_YEAR = timedelta(days=365)  # an agent's


def new_key() -> bytes:
    """A private key."""
    require("cryptography", "keys and certificates")
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_key(pem: bytes) -> Any:
    """A private key from PEM; a ValueError says what else it is."""
    require("cryptography", "keys and certificates")
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(pem, None)
    except TypeError:
        raise ValueError("is locked with a password, and nobody is there to type it") from None
    except Exception:  # errors of several kinds, none of which has a root of its own
        raise ValueError("holds no private key in PEM that can be read") from None


def read_certificate(pem: bytes) -> Any:
    """A certificate from PEM; a ValueError says that it is none."""
    require("cryptography", "keys and certificates")
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(pem)
        list(found.extensions), found.public_key(), found.subject  # they are read on first use, and may be broken
        return found
    except Exception:  # errors of several kinds, none of which has a root of its own
        raise ValueError("holds no certificate in PEM that can be read") from None


def authority(key: Any, name: str, now: datetime) -> bytes:
    """A certificate that signs others and itself, for ten years."""
    from cryptography import x509

    builder = _begun(key.public_key(), name, name, now, now + _YEARS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=False, certifies=True), critical=True)
    return _signed(builder, key)


def certificate(key: Any, name: str, address: Address, by: Any, by_key: Any, now: datetime) -> bytes:
    """A certificate for an agent at an address, for a year, or as long as the one it is signed by."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    builder = _begun(key.public_key(), name, _name_of(by), now, min(now + _YEAR, by.not_valid_after_utc))
    where = x509.DNSName(address.host) if address.ip is None else x509.IPAddress(address.ip)
    builder = builder.add_extension(x509.SubjectAlternativeName([where]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=True, certifies=False), critical=True)
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = builder.add_extension(both, critical=False)
    builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by_key.public_key()), critical=False)
    return _signed(builder, by_key)


def covers(found: Any, address: Address) -> bool:
    """Whether a certificate is for an address."""
    from cryptography import x509

    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    if address.ip is not None:
        return ip_address(address.host) in names.get_values_for_type(x509.IPAddress)
    return address.host in [name.lower() for name in names.get_values_for_type(x509.DNSName)]


def serves_both_ways(found: Any) -> bool:
    """Whether a certificate is meant for both ends of a link."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        uses = set(found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return False
    return uses >= {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}


def _begun(public: Any, name: str, issuer: str, now: datetime, last: datetime) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    def called(common: str) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])

    builder = x509.CertificateBuilder().subject_name(called(name)).issuer_name(called(issuer)).public_key(public)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - _SKEW).not_valid_after(last)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _signed(builder: Any, key: Any) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    pem: bytes = builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
    return pem


def _usage(*, signs: bool, certifies: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=signs, content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        key_cert_sign=certifies, crl_sign=certifies, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _name_of(found: Any) -> str:
    from cryptography.x509.oid import NameOID

    return str(found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
