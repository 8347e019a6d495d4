from __future__ import annotations

from collections.abc import Iterator
import socket

import pytest

from drkit.endpoint import Endpoint
from drkit.errors import DrkitError, Failed, NotAuthorized
from drkit.repoint import RepointEffect, Result, TryAgain, Way, tell_all
from drkit.repoint.webhook import Webhook, signature
from tests.support.errors import coded
from tests.support.repoint.receiver import HttpReceiver

STANDBY = Endpoint(5, "standby", "id-2", "s1:9092")


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    made = HttpReceiver("hush")
    yield made
    made.close()


def hook(url: str, *, signed: str | None = "hush", seconds: float = 5.0) -> Webhook:
    headers = {"Authorization": "Bearer t"}
    return Webhook(url, secret=signed, headers=headers, ca_file=None, timeout_seconds=seconds)


def test_the_signature_is_the_documented_one():
    # printf '%s' '17.{}' | openssl dgst -sha256 -hmac hush
    made = "b077ce63710a67e75a87c26b96018ccf88df6516a48eb7a35e52d7a8f37e051a"
    assert signature("hush", "17", b"{}") == f"sha256={made}"
    assert signature("hush", "18", b"{}") != f"sha256={made}"


def test_what_is_sent_names_cluster_and_term(receiver: HttpReceiver):
    hook(receiver.url).tell(STANDBY)
    assert receiver.keys == ["id-2-5"]
    assert receiver.headers["Authorization"] == "Bearer t"
    assert receiver.headers["Drkit-Term"] == "5"


def test_a_receiver_says_that_it_knew(receiver: HttpReceiver):
    assert hook(receiver.url).tell(STANDBY) is RepointEffect.CHANGED
    assert hook(receiver.url).tell(STANDBY) is RepointEffect.UNCHANGED


def test_a_wrong_secret_is_not_tried_again(receiver: HttpReceiver):
    [outcome] = tell_all([Way(hook(receiver.url, signed="other"), 30.0)], STANDBY)
    assert (outcome.result, outcome.tries) == (Result.FAILED, 1)
    assert isinstance(outcome.error, NotAuthorized)


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (302, {"Location": "http://127.0.0.1:1/elsewhere"}, Failed),
        (400, {}, Failed),
        (404, {}, Failed),
        (429, {"Retry-After": "1"}, TryAgain),
        (500, {}, TryAgain),
    ],
)
def test_other_answers(receiver: HttpReceiver, status: int, headers: dict[str, str], kind: type[DrkitError]):
    receiver.answers.append((status, headers))
    with pytest.raises(kind) as failed:
        hook(receiver.url).tell(STANDBY)
    assert isinstance(failed.value, TryAgain) == (kind is TryAgain)
    assert f"HTTP {status}" in failed.value.evidence
    assert receiver.known is None


def test_silence_ends_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/hooks/t0p-secret"
        with pytest.raises(TryAgain, check=coded("no_answer")) as failed:
            hook(url, seconds=0.3).tell(STANDBY)
    assert "t0p-secret" not in str(failed.value.as_dict())
    assert "timed out" in failed.value.evidence.lower()


def test_one_that_fails_delays_no_other(receiver: HttpReceiver):
    """One that fails is named; all others get the endpoint, and their outcomes say so."""
    refused = "http://127.0.0.1:1/x"
    told: list[str] = []
    ways = [Way(hook(refused), 0.5), Way(hook(receiver.url), 30.0), Way(hook(refused), 0.0)]
    outcomes = tell_all(ways, STANDBY, on_outcome=lambda o: told.append(o.name))
    assert [o.result for o in outcomes] == [Result.FAILED, Result.CHANGED, Result.FAILED]
    assert outcomes[0].tries > outcomes[2].tries == 1
    assert [o.name for o in outcomes] == told
    assert outcomes[0].error is not None
    assert "refused" in outcomes[0].error.evidence.lower()
