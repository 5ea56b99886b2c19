"""Keys: made once, never overwritten, checked before an agent starts; and what Zenoh is told, tried on real sessions."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import stat
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemesh.errors import KeyFileError, NetworkError
from mnemesh.live.access import access_rules, session
from mnemesh.live.access import key as key_of
from mnemesh.live.config import Network, convert, read
from mnemesh.live.keys import check_keys, key_files, make_keys

pytest.importorskip("cryptography")
TWENTY = Path(__file__).parents[1] / "examples" / "twenty.toml"
NOW = datetime(2031, 5, 4, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def network(*ports: int, **changes: Any) -> Network:
    """Three agents in a line, at an address of each kind."""
    first, second, third = ports or (7401, 7402, 7403)
    agents = {"lisbon": f"127.0.0.1:{first}", "porto": f"localhost:{second}", "faro": f"[::1]:{third}" if not ports else f"127.0.0.1:{third}"}
    told = {
        "name": "three", "key_dim": 2, "value_dim": 2, "step": {"name": "constant", "c": 0.1}, "topology": {"name": "line"}, "interest": "uniform",
        "agents": agents, "transport": {"name": "zenoh", "tls": True},
    }  # fmt: skip
    return convert({**told, **changes})


THREE = network()


@pytest.fixture(scope="module")
def pki(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("keys") / "pki"
    make_keys(THREE, folder, now=NOW)
    return folder


@pytest.fixture
def copied(pki, tmp_path) -> Path:
    return Path(shutil.copytree(pki, tmp_path / "pki"))


def refused(folder: Path | str, name: str = "lisbon", now: datetime = NOW, of: Network = THREE) -> str:
    with pytest.raises(KeyFileError) as failed:
        check_keys(of, name, folder, now=now)
    assert "\n" not in str(failed.value)
    return str(failed.value)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# --- making ---------------------------------------------------------------------------------------------------------------------------------


def test_an_authority_and_a_certificate_for_each(pki):
    assert set(contents(pki)) == {"_authority/ca.key", "_authority/ca.crt"} | {f"{n}/{f}" for n in THREE.names for f in ("ca.crt", "agent.crt", "agent.key")}
    for key in pki.rglob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert len({key.read_bytes() for key in pki.rglob("*.key")}) == 4
    for name in THREE.names:
        files = check_keys(THREE, name, pki, now=NOW)
        assert files.expires == NOW + 365 * DAY
        assert files.left(NOW) == 365 * DAY
        assert not files.soon(NOW)
        assert "in 29 days" in files.soon(NOW + 336 * DAY)
        assert stat.S_IMODE(files.certificate.stat().st_mode) & 0o400


def test_what_a_certificate_says(pki):
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    root = x509.load_pem_x509_certificate((pki / "_authority" / "ca.crt").read_bytes())
    for name, address in (("lisbon", "127.0.0.1"), ("porto", "localhost"), ("faro", "::1")):
        own = x509.load_pem_x509_certificate((pki / name / "agent.crt").read_bytes())
        assert own.subject.rfc4514_string() == f"CN={name}"
        assert isinstance(own.public_key().curve, ec.SECP256R1)
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [str(each.value) for each in names] == [address]
        uses = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert set(uses) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
        assert not own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        own.verify_directly_issued_by(root)
    limits = root.extensions.get_extension_for_class(x509.BasicConstraints)
    assert limits.critical
    assert (limits.value.ca, limits.value.path_length) == (True, 0)
    assert root.not_valid_after_utc - NOW > 3_650 * DAY


def test_what_is_there_is_never_overwritten(copied):
    before = contents(copied)
    issued = make_keys(THREE, copied, now=NOW + DAY)
    assert (issued.made, issued.wrong) == ((), ())
    assert {str(path.relative_to(copied)) for path in issued.kept} == set(before)
    assert contents(copied) == before
    shutil.rmtree(copied / "faro")
    (copied / "porto" / "agent.crt").unlink()
    issued = make_keys(THREE, copied, now=NOW + DAY)
    assert {str(path.relative_to(copied)) for path in issued.made} == {"faro/ca.crt", "faro/agent.key", "faro/agent.crt", "porto/agent.crt"}
    after = contents(copied)
    assert {name for name in before if before[name] != after[name]} == {"faro/agent.key", "faro/agent.crt", "porto/agent.crt"}
    assert check_keys(THREE, "porto", copied, now=NOW + DAY).expires == NOW + 366 * DAY
    assert not list(copied.rglob(".*"))


def test_renewing_keeps_every_key(copied):
    before = contents(copied)
    make_keys(THREE, copied, renew=True, now=NOW + 300 * DAY)
    after = contents(copied)
    assert {name for name in before if before[name] != after[name]} == {f"{name}/agent.crt" for name in THREE.names}
    assert check_keys(THREE, "lisbon", copied, now=NOW + 400 * DAY).expires == NOW + 665 * DAY
    late = NOW + 3_600 * DAY
    make_keys(THREE, copied, renew=True, now=late)
    assert check_keys(THREE, "lisbon", copied, now=late).left(late) == 52 * DAY, "no longer than the authority"
    with pytest.raises(KeyFileError, match=r"ca\.crt expired 8 days ago: begin in an empty folder"):
        make_keys(THREE, copied, renew=True, now=NOW + 3_660 * DAY)


def test_a_new_agent_needs_the_authority_and_the_others_do_not(copied):
    (copied / "_authority" / "ca.key").unlink()
    assert not make_keys(THREE, copied, now=NOW).made
    shutil.rmtree(copied / "faro")
    with pytest.raises(KeyFileError, match=r"ca\.key is missing: without it nobody can sign a certificate for faro"):
        make_keys(THREE, copied, now=NOW)
    (copied / "_authority" / "ca.crt").unlink()
    with pytest.raises(KeyFileError, match=r"another authority would not be trusted"):
        make_keys(THREE, copied, now=NOW)


def test_what_was_kept_and_is_wrong_is_said(copied):
    moved = network().with_(agents={"lisbon": "10.0.0.1:7401", "porto": "localhost:7402", "faro": "[::1]:7403"})
    issued = make_keys(moved, copied, now=NOW)
    assert not issued.made
    (wrong,) = issued.wrong
    assert "lisbon" in wrong
    assert "not for 10.0.0.1" in wrong
    assert not make_keys(moved, copied, renew=True, now=NOW).wrong
    (copied / "faro" / "agent.key").unlink()
    with pytest.raises(KeyFileError, match=r"agent\.key is missing, and .*agent\.crt is there"):
        make_keys(THREE, copied, now=NOW)


def test_keys_need_addresses_and_a_folder_that_can_be_written(tmp_path):
    nowhere = convert({"name": "n", "key_dim": 1, "value_dim": 1, "step": {"name": "constant", "c": 0.1}, "topology": "default", "interest": "uniform",
                       "agents": {f"a{n}": {} for n in range(20)}})  # fmt: skip
    with pytest.raises(NetworkError, match=r"agents\.a0\.address is missing"):
        make_keys(nowhere, tmp_path / "pki")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "pki", tmp_path / "nul\0"):
        with pytest.raises(KeyFileError, match="keys cannot be written to"):
            make_keys(THREE, folder)


def test_the_example(tmp_path):
    twenty = read(TWENTY)
    assert len(make_keys(twenty, tmp_path).made) == 62
    assert check_keys(twenty, "portalegre", tmp_path).left() > 364 * DAY


# --- checking -------------------------------------------------------------------------------------------------------------------------------


def test_an_agent_s_own_folder_is_all_it_needs(copied, tmp_path):
    (tmp_path / "machine").mkdir()
    shutil.copytree(copied / "lisbon", tmp_path / "machine" / "lisbon")
    assert check_keys(THREE, "lisbon", tmp_path / "machine", now=NOW)
    assert check_keys(THREE, "lisbon", tmp_path / "machine" / "lisbon", now=NOW).key == tmp_path / "machine" / "lisbon" / "agent.key"
    assert check_keys(THREE.with_(transport={"keys": str(copied)}), "lisbon", now=NOW)
    assert "porto/agent.crt is of 'porto', not of 'lisbon'" in refused(copied / "porto")
    assert str(key_files("pki", "lisbon").key) == "pki/lisbon/agent.key"


@pytest.mark.parametrize("file", ["ca.crt", "agent.crt", "agent.key"])
def test_files_that_are_missing_or_no_keys(copied, file):
    path = copied / "lisbon" / file
    for content in (b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"\xff" * 50, (copied / "porto" / file).read_bytes()[:120]):
        path.write_bytes(content)
        assert f"lisbon/{file} holds no " in refused(copied)
    path.unlink()
    assert f"lisbon/{file} is missing" in refused(copied)
    path.mkdir()
    assert f"lisbon/{file} cannot be read" in refused(copied)
    assert "nul" in refused(copied / "nul\0")


def test_files_that_do_not_go_together(copied, tmp_path):
    lisbon, porto = copied / "lisbon", copied / "porto"
    kept = contents(copied)
    shutil.copy(porto / "agent.key", lisbon)
    assert "agent.key is not the key of" in refused(copied)
    shutil.copy(porto / "agent.crt", lisbon)
    assert "is of 'porto', not of 'lisbon'" in refused(copied)
    for file in ("agent.key", "agent.crt"):
        (lisbon / file).write_bytes(kept[f"lisbon/{file}"])
    make_keys(THREE, tmp_path / "others", now=NOW)
    shutil.copy(tmp_path / "others" / "lisbon" / "ca.crt", lisbon)
    assert "agent.crt is not signed by" in refused(copied)
    (lisbon / "ca.crt").write_bytes(kept["_authority/ca.crt"])
    assert check_keys(THREE, "lisbon", copied, now=NOW)
    (lisbon / "agent.key").chmod(0o644)
    assert "can be read by everybody" in refused(copied)


def test_times(copied):
    assert "expired 3 days ago, on 2032-05-03" in refused(copied, now=NOW + 368 * DAY)
    assert "expired 1 hour ago" in refused(copied, now=NOW + 365 * DAY + timedelta(hours=1))
    assert "expired less than a second ago" in refused(copied, now=NOW + 365 * DAY)
    assert "in 23 hours: is this machine's clock right?" in refused(copied, now=NOW - DAY)
    assert check_keys(THREE, "lisbon", copied, now=NOW - timedelta(minutes=4)), "clocks differ a little"


def test_a_certificate_that_serves_one_way_only(copied):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = serialization.load_pem_private_key((copied / "_authority" / "ca.key").read_bytes(), None)
    own = x509.load_pem_x509_certificate((copied / "lisbon" / "agent.crt").read_bytes())
    builder = x509.CertificateBuilder(own.issuer, own.subject, own.public_key(), 1, own.not_valid_before_utc, own.not_valid_after_utc)
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    for uses in ([ExtendedKeyUsageOID.SERVER_AUTH], []):
        made = builder.add_extension(names, critical=False)
        made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=False) if uses else made
        (copied / "lisbon" / "agent.crt").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        assert "not meant for both ends of a link" in refused(copied)
    (copied / "lisbon" / "agent.crt").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    assert "not for 127.0.0.1" in refused(copied)
    locked = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x"))
    (copied / "lisbon" / "agent.key").write_bytes(locked)
    assert "locked with a password" in refused(copied)


@given(st.sampled_from(["ca.crt", "agent.crt", "agent.key"]), st.data())
@settings(max_examples=200)
def test_no_damaged_file_ends_in_a_traceback(pki, tmp_path_factory, file, data):
    folder = tmp_path_factory.mktemp("damaged")
    home = Path(shutil.copytree(pki / "lisbon", folder / "lisbon"))
    content = bytearray((home / file).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from(b"ABCxyz+/\n")))
    (home / file).write_bytes(bytes(content))
    try:
        check_keys(THREE, "lisbon", folder, now=NOW)
    except KeyFileError as failed:
        assert "\n" not in str(failed)
        assert "lisbon" in str(failed)
    finally:
        shutil.rmtree(folder)


# --- what Zenoh is told ---------------------------------------------------------------------------------------------------------------------


def test_a_session_opens_the_links_of_one_agent_and_nothing_else():
    told = session(THREE, "porto", 1_000_000, "pki")
    assert told["mode"] == "peer"
    assert told["listen"] == {"endpoints": ["tls/localhost:7402"]}
    assert told["connect"]["endpoints"] == ["tls/127.0.0.1:7401", "tls/[::1]:7403"]
    assert "timeout_ms" not in told["connect"]
    assert told["scouting"] == {"multicast": {"enabled": False}, "gossip": {"enabled": False}}
    assert told["gateway"] == {"south": []}
    link = told["transport"]["link"]
    assert told["transport"]["shared_memory"] == {"enabled": False}
    assert (link["protocols"], link["tx"]["lease"], link["tx"]["keep_alive"]) == (["tls"], 2000, 4)
    assert link["rx"]["max_message_size"] == told["low_pass_filter"][0]["size_limit"] >= 1_000_000
    assert link["tls"] == {
        "root_ca_certificate": "pki/porto/ca.crt", "listen_private_key": "pki/porto/agent.key", "listen_certificate": "pki/porto/agent.crt",
        "enable_mtls": True, "connect_private_key": "pki/porto/agent.key", "connect_certificate": "pki/porto/agent.crt",
        "verify_name_on_connect": True, "close_link_on_expiration": True,
    }  # fmt: skip
    assert told == session(THREE, "porto", 1_000_000, "pki")
    listening = THREE.with_(agents={**{name: str(THREE.address(name)) for name in THREE.names}, "porto": {"address": "porto.example.org:7402", "listen": "0.0.0.0:9"}})
    assert session(listening, "porto", 1, "pki")["listen"] == {"endpoints": ["tls/0.0.0.0:9"]}
    assert "tls/porto.example.org:7402" in session(listening, "faro", 1, "pki")["connect"]["endpoints"]
    assert session(THREE.with_(transport={"lease": 0.5}), "porto", 1, "pki")["transport"]["link"]["tx"]["lease"] == 500


def test_only_neighbours_may_say_anything():
    rules = access_rules(THREE, "lisbon")
    assert (rules["enabled"], rules["default_permission"]) == (True, "deny")
    assert rules["subjects"] == [{"id": "porto", "cert_common_names": ["porto"]}]
    to, fro = "mnemesh/v1/three/link/lisbon/porto/**", "mnemesh/v1/three/link/porto/lisbon/**"
    says, hears = {"put", "liveliness_token"}, {"declare_subscriber", "declare_liveliness_subscriber", "liveliness_query"}
    told = {(rule["flows"][0], frozenset(rule["messages"]), rule["key_exprs"][0]) for rule in rules["rules"] if rule["permission"] == "allow"}
    assert told == {("ingress", frozenset(says), fro), ("egress", frozenset(says), to), ("ingress", frozenset(hears), to), ("egress", frozenset(hears), fro)}
    assert rules["policies"] == [{"rules": [rule["id"] for rule in rules["rules"]], "subjects": ["porto"]}]
    for n, name in enumerate(THREE.names):
        near = [THREE.names[m] for m in sorted(THREE.graph()[n])]
        rules = access_rules(THREE, name)
        assert [subject["id"] for subject in rules["subjects"]] == near
        assert len({rule["id"] for rule in rules["rules"]}) == 4 * len(near)
        assert all(name in rule["key_exprs"][0].split("/")[4:6] for rule in rules["rules"])


def test_on_loopback_links_are_plain_unless_stated():
    told = session(read(TWENTY), "lisbon", 1)
    assert told["transport"]["link"]["protocols"] == ["tcp"]
    assert "access_control" not in told
    assert "tls" not in told["transport"]["link"]
    assert told["listen"]["endpoints"] == ["tcp/127.0.0.1:7401"]


@pytest.mark.parametrize("name", THREE.names)
def test_zenoh_knows_every_key(name):
    zenoh = pytest.importorskip("zenoh")
    for told in (session(THREE, name, 10**6, "pki"), session(read(TWENTY), "lisbon", 10**6)):
        zenoh.Config.from_json5(json.dumps(told))


def ports(count: int) -> list[int]:
    """Ports that are free now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return found


def test_both_ends_of_a_tls_link_accept_each_other_and_no_stranger(tmp_path):
    make_keys(THREE, tmp_path / "pki")
    make_keys(THREE, tmp_path / "others")

    def side(purpose: ssl.Purpose, folder: str, name: str) -> ssl.SSLContext:
        files = key_files(tmp_path / folder, name)
        context = ssl.create_default_context(purpose, cafile=str(files.authority))
        context.load_cert_chain(files.certificate, files.key)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def meet(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> bool:
        """Whether a byte gets through."""
        here, there = socket.socketpair()
        here.settimeout(5)
        there.settimeout(5)

        def answer() -> None:
            try:
                with server.wrap_socket(there, server_side=True) as link:
                    link.sendall(b"x")
            except OSError:
                there.close()

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            with client.wrap_socket(here, server_hostname=host) as link:
                return link.recv(1) == b"x"
        except OSError:
            return False
        finally:
            here.close()
            thread.join()

    lisbon, porto = side(ssl.Purpose.CLIENT_AUTH, "pki", "lisbon"), side(ssl.Purpose.SERVER_AUTH, "pki", "porto")
    assert meet(lisbon, porto, "127.0.0.1")
    assert meet(side(ssl.Purpose.CLIENT_AUTH, "pki", "porto"), side(ssl.Purpose.SERVER_AUTH, "pki", "faro"), "localhost")
    assert not meet(lisbon, porto, "127.0.0.2")
    assert not meet(lisbon, side(ssl.Purpose.SERVER_AUTH, "others", "porto"), "127.0.0.1")
    assert not meet(side(ssl.Purpose.CLIENT_AUTH, "others", "lisbon"), porto, "127.0.0.1")


def test_zenoh_lets_neighbours_talk_and_nobody_else(tmp_path):
    """lisbon - porto - faro: each hears its neighbours under their own names, and faro, whom lisbon does not know, gets nothing through."""
    zenoh = pytest.importorskip("zenoh")
    three = network(*ports(3))
    make_keys(three, tmp_path)
    told = {name: session(three, name, 1_000, tmp_path) for name in three.names}
    told["faro"]["connect"]["endpoints"].append(told["lisbon"]["listen"]["endpoints"][0])  # a certificate of the right authority, and no neighbour
    heard: dict[str, list[tuple[str, int]]] = {name: [] for name in three.names}
    sessions = {}
    try:
        for name in three.names:
            sessions[name] = zenoh.open(zenoh.Config.from_json5(json.dumps(told[name])))
            for far in (other for other in three.names if other != name):
                hear = zenoh.handlers.Callback(lambda got, name=name: heard[name].append((str(got.key_expr), len(got.payload.to_bytes()))), indirect=False)
                sessions[name].declare_subscriber(key_of(three, far, name, "data"), hear)
        for _ in range(100):
            for name in three.names:
                for far in (other for other in three.names if other != name):
                    sessions[name].put(key_of(three, name, far, "data"), b"x" * 500)
            if len({where for got in heard.values() for where, _ in got}) >= 4:
                break
            time.sleep(0.05)
        sessions["porto"].put(key_of(three, "faro", "lisbon", "data"), b"spoofed")
        sessions["porto"].put(key_of(three, "porto", "lisbon", "data"), b"x" * 20_000)
        time.sleep(0.3)
    finally:
        for open_one in sessions.values():
            open_one.close()
    near = {key_of(three, a, b, "data") for link in three.links for a, b in (link, link[::-1])}
    assert {where for got in heard.values() for where, _ in got} == near
    assert {size for got in heard.values() for _, size in got} == {500}
