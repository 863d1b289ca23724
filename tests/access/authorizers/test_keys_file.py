"""A keys file decides who may publish and play."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay.access.authorizers.hash_key import ScryptHash
from rtmprelay.access.authorizers.keys_file import KeysFile, make_keys_file
from rtmprelay.access.gate import ANSWER_TIMEOUT, Gate
from rtmprelay.access.request import AccessRequest, Action, Verdict
from rtmprelay.errors import ConfigError
from rtmprelay.interfaces import IReloadable, IStreamAuthorizer, IUserDirectory
from rtmprelay.secret import Secret
from tests.access.authorizers.helpers import Threads
from tests.access.helpers import access_request
from tests.access.log_keeping import KeptLog

HASHES = {key: str(ScryptHash.of(Secret(key))) for key in ("hashed1", "hashed2")}

FILE: dict[str, Any] = {
    "streams": [
        {"match": "open/*", "publish": "anyone", "play": "anyone"},
        {"match": "closed/*", "publish": "nobody", "play": "nobody"},
        {
            "match": "live/*",
            "publish": {"keys": ["plain1", "plain2"], "users": ["anna"]},
            "play": {"keys": ["watch"]},
        },
        {"match": "hashed/*", "publish": {"keys": ["plain3", *HASHES.values()]}, "play": "nobody"},
    ],
    "users": {"anna": "geheim", "berta": "geheim"},
    "ask_for_user": ["live"],
}

PUBLISH, PLAY = Action.PUBLISH, Action.PLAY


class KeysFileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.threads = Threads()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "keys.json"
        self.write(FILE)
        self.log = KeptLog()
        self.log.start()
        self.addCleanup(self.log.stop)
        self.keys = KeysFile(self.path, self.threads, self.clock.seconds)

    def write(self, content: object, mode: int = 0o600) -> None:
        self.path.write_text(content if isinstance(content, str) else json.dumps(content))
        os.chmod(self.path, mode)

    def lines(self) -> list[str]:
        return self.log.lines

    def ask(self, request: AccessRequest) -> list[Verdict]:
        """A list that gets the verdict."""
        answer = self.keys.authorize(request)
        if isinstance(answer, Verdict):
            return [answer]
        verdicts: list[Verdict] = []
        answer.addCallback(verdicts.append)
        return verdicts

    def judge(self, request: AccessRequest) -> Verdict:
        verdicts = self.ask(request)
        self.threads.run_all()
        (verdict,) = verdicts
        return verdict

    def test_keys_file_provides_its_interfaces(self) -> None:
        for interface in (IStreamAuthorizer, IReloadable, IUserDirectory):
            assert interface.providedBy(self.keys)

    def test_anyone_and_nobody_need_no_key(self) -> None:
        assert self.judge(access_request(PUBLISH, "open/a")).allowed
        assert self.judge(access_request(PLAY, "open/a")).allowed
        for query in ("", "key=plain1"):
            assert not self.judge(access_request(PUBLISH, "closed/a", query)).allowed
            assert not self.judge(access_request(PLAY, "unknown/a", query)).allowed

    def test_plain_keys_allow_their_action_only(self) -> None:
        for query in ("key=plain1", "key=plain2", "token=plain1", "other=x&key=plain1"):
            assert self.judge(access_request(PUBLISH, "live/a", query)).allowed
        for query in ("key=plain", "key=plain11", "key=watch", "key=hashed1", "secret=plain1", "key=%ff"):
            assert not self.judge(access_request(PUBLISH, "live/a", query)).allowed
        assert self.judge(access_request(PLAY, "live/a", "key=watch")).allowed
        assert not self.judge(access_request(PLAY, "live/a", "key=plain1")).allowed
        assert self.threads.begun == 0

    def test_refusals_do_not_tell_whether_a_stream_is_known(self) -> None:
        for stream in ("live/a", "closed/a", "unknown/a"):
            assert self.judge(access_request(PUBLISH, stream)).reason.startswith("a key is needed")
            assert (
                self.judge(access_request(PUBLISH, stream, "key=x")).reason
                == "the key is wrong, or not for this stream"
            )
            assert (
                self.judge(access_request(PUBLISH, stream, user="berta")).reason
                == "this user may not do that"
            )

    def test_users_are_allowed_what_the_file_names_them_for(self) -> None:
        assert self.judge(access_request(PUBLISH, "live/a", user="anna")).allowed
        assert not self.judge(access_request(PLAY, "live/a", user="anna")).allowed
        assert not self.judge(access_request(PUBLISH, "live/a", user="berta")).allowed
        assert self.judge(access_request(PUBLISH, "live/a", "key=plain1", user="berta")).allowed
        assert self.keys.password_of("anna") == Secret("geheim")
        assert self.keys.password_of("nobody") is None
        assert self.keys.wants_user("live")
        assert not self.keys.wants_user("open")

    # -- hashed keys -----------------------------------------------------------------------------------------

    def test_hashed_keys_are_checked_in_a_thread(self) -> None:
        for key in HASHES:
            verdicts = self.ask(access_request(PUBLISH, "hashed/a", f"key={key}"))
            assert verdicts == []
            self.threads.run_all()
            assert [verdict.allowed for verdict in verdicts] == [True]
        assert not self.judge(access_request(PUBLISH, "hashed/a", "key=hashed3")).allowed

    def test_plain_key_next_to_hashed_ones_needs_no_thread(self) -> None:
        assert self.judge(access_request(PUBLISH, "hashed/a", "key=plain3")).allowed
        assert self.threads.begun == 0

    def test_hash_itself_is_not_accepted_as_a_key(self) -> None:
        assert not self.judge(access_request(PUBLISH, "hashed/a", f"key={quote(HASHES['hashed1'])}")).allowed

    def test_right_and_wrong_keys_are_hashed_once(self) -> None:
        for _ in range(10):
            assert self.judge(access_request(PUBLISH, "hashed/a", "key=hashed1")).allowed
            assert not self.judge(access_request(PUBLISH, "hashed/a", "key=wrong")).allowed
        assert self.threads.begun == 2
        # A wrong key is forgotten after 30 s: somebody may have added it to the file.
        self.clock.advance(31)
        assert self.judge(access_request(PUBLISH, "hashed/b", "key=hashed1")).allowed
        assert not self.judge(access_request(PUBLISH, "hashed/b", "key=wrong")).allowed
        assert self.threads.begun == 3

    def test_flood_of_wrong_keys_does_not_keep_out_a_remembered_key(self) -> None:
        assert self.judge(access_request(PUBLISH, "hashed/a", "key=hashed1")).allowed
        flood = [
            self.ask(
                access_request(PUBLISH, "hashed/a", f"key=wrong{number}", host=f"192.0.2.{number % 250}")
            )
            for number in range(10_000)
        ]
        assert self.threads.begun == 3
        assert len(self.threads.jobs) == 2
        busy = [verdicts[0].reason for verdicts in flood if verdicts]
        assert len(busy) == 10_000 - 66
        assert set(busy) == {"too many keys are being checked at the moment; try again later"}
        assert [
            verdict.allowed for verdict in self.ask(access_request(PUBLISH, "hashed/a", "key=hashed1"))
        ] == [True]
        assert [
            verdict.allowed for verdict in self.ask(access_request(PUBLISH, "hashed/a", "key=plain3"))
        ] == [True]

    def test_flood_from_one_host_does_not_fill_the_queue(self) -> None:
        for number in range(1000):
            self.ask(access_request(PUBLISH, "hashed/a", f"key=wrong{number}"))
        verdicts = self.ask(access_request(PUBLISH, "hashed/a", "key=hashed2", host="198.51.100.1"))
        assert verdicts == []
        self.threads.run_all()
        assert [verdict.allowed for verdict in verdicts] == [True]
        assert self.threads.begun == 9

    def test_hanging_thread_is_cancelled_and_keeps_its_place_until_it_ends(self) -> None:
        gate = Gate([self.keys], self.clock)
        for host in range(5):
            gate.ask(access_request(PUBLISH, "hashed/a", "key=x", host=f"192.0.2.{host}"))
        assert self.threads.begun == 2
        self.clock.advance(ANSWER_TIMEOUT + 1)
        assert self.threads.begun == 2
        cancellations = [job.arguments[2] for job in self.threads.jobs]
        assert all(cancelled.is_set() for cancelled in cancellations)
        self.threads.run_all()
        assert self.judge(access_request(PUBLISH, "hashed/a", "key=hashed1")).allowed

    # -- the file --------------------------------------------------------------------------------------------

    def test_reload_applies_the_new_keys_and_forgets_the_checked_ones(self) -> None:
        assert self.judge(access_request(PUBLISH, "hashed/a", "key=hashed1")).allowed
        assert self.judge(access_request(PUBLISH, "live/a", "key=plain1")).allowed
        changed = json.loads(json.dumps(FILE))
        changed["streams"][2]["publish"] = {"keys": ["new"]}
        changed["streams"][3]["publish"] = {"keys": [HASHES["hashed2"]]}
        self.write(changed)
        self.keys.reload()
        assert not self.judge(access_request(PUBLISH, "live/a", "key=plain1")).allowed
        assert self.judge(access_request(PUBLISH, "live/a", "key=new")).allowed
        # It was remembered as right for the old hashes.
        assert not self.judge(access_request(PUBLISH, "hashed/a", "key=hashed1")).allowed
        assert self.lines() == [f"{self.path} was read again: 4 patterns, 2 users"]

    def test_check_started_before_a_reload_is_not_remembered_after_it(self) -> None:
        verdicts = self.ask(access_request(PUBLISH, "hashed/a", "key=hashed1"))
        changed = json.loads(json.dumps(FILE))
        changed["streams"][3]["publish"] = "nobody"
        self.write(changed)
        self.keys.reload()
        self.threads.run_all()
        assert [verdict.allowed for verdict in verdicts] == [True]
        assert not self.judge(access_request(PUBLISH, "hashed/a", "key=hashed1")).allowed

    def test_reload_of_a_bad_file_changes_nothing(self) -> None:
        for content in ("{", {"streams": 7}, b"\xff".decode("latin-1") * 2**20):
            self.write(content)
            with self.assertRaises(ConfigError) as caught:
                self.keys.reload()
            assert str(self.path) in str(caught.exception)
            assert self.judge(access_request(PUBLISH, "live/a", "key=plain1")).allowed
        self.path.unlink()
        self.assertRaises(ConfigError, self.keys.reload)
        assert self.judge(access_request(PUBLISH, "live/a", "key=plain1")).allowed

    def test_file_that_everybody_can_read_is_warned_of(self) -> None:
        self.write(FILE, 0o644)
        self.keys.reload()
        assert self.lines()[0] == (
            f"Everybody on this machine can read {self.path}, and it holds secrets: chmod o-r would help"
        )
        self.log.clear()
        self.write(FILE, 0o640)
        self.keys.reload()
        assert len(self.log) == 1

    def test_bad_path_is_refused_with_its_reason(self) -> None:
        reactor: Any = Clock()
        for argument, message in (
            ("", "the name of the file is missing"),
            ("/nowhere/keys.json", "'/nowhere/keys.json' cannot be read: No such file or directory"),
            ("/", "'/' cannot be read: Is a directory"),
            ("a\0b", "cannot be read: "),
        ):
            with self.assertRaises(ConfigError) as caught:
                make_keys_file(argument, reactor)
            assert message in str(caught.exception)

    def test_keys_appear_in_no_repr_and_no_log(self) -> None:
        self.judge(access_request(PUBLISH, "live/a", "key=plain1"))
        self.judge(access_request(PUBLISH, "hashed/a", "key=MARKED"))
        self.keys.reload()
        text = repr(self.keys) + repr(vars(self.keys)) + repr(vars(self.keys._check)) + repr(self.log)
        for secret in ("plain1", "MARKED", "geheim", HASHES["hashed1"]):
            assert secret not in text


def test_check_of_a_key_returns_a_deferred(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(FILE))
    path.chmod(0o600)
    keys = KeysFile(path, Threads(), Clock().seconds)
    assert isinstance(keys.authorize(access_request(PUBLISH, "live/a", "key=plain1")), Deferred)
