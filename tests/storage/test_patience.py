"""One waiting time a statement for a service that does not answer: attempts and waits are counted on a fake clock."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from lance_spark.errors import StorageError
from lance_spark.storage import patience
from lance_spark.storage.patience import Failure, Patience, one_statement


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waited = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.waited += seconds


class Service:
    """A service; `answers` is what the next requests get, the last one again and again."""

    def __init__(self, clock: Clock, *answers: object, seconds_each: float = 0.0) -> None:
        self.clock = clock
        self.answers = list(answers)
        self.seconds_each = seconds_each
        self.requests = 0

    def __call__(self) -> object:
        self.requests += 1
        self.clock.now += self.seconds_each
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


SILENCE, BUSY, DENIED = ConnectionRefusedError("refused"), TimeoutError("busy"), PermissionError("denied")


def judge(error: BaseException) -> Failure | None:
    return {SILENCE: Failure.UNANSWERED, BUSY: Failure.REFUSED_FOR_NOW}.get(error)  # type: ignore[call-overload, no-any-return]


def ask(client: Patience, service: Callable[[], object]) -> object:
    return client.run(service, (OSError,), judge)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(patience, "_clock", clock)
    monkeypatch.setattr(patience, "_sleep", clock.sleep)
    return clock


def test_silence_is_waited_out_within_the_time(clock: Clock) -> None:
    service = Service(clock, SILENCE, SILENCE, SILENCE, "answer")
    assert ask(Patience("s"), service) == "answer"
    assert service.requests == 4


def test_silence_ends_when_the_time_is_over(clock: Clock) -> None:
    service = Service(clock, SILENCE)
    with pytest.raises(ConnectionRefusedError):
        ask(Patience("s", 10.0), service)
    assert 10.0 <= clock.waited < 10.0 + 5.0, "no longer than one pause more"
    assert 5 <= service.requests <= 20


def test_statement_waits_once_for_all_its_questions(clock: Clock) -> None:
    service, client = Service(clock, SILENCE), Patience("s", 10.0)
    with one_statement():
        with pytest.raises(ConnectionRefusedError):
            ask(client, service)
        asked, waited = service.requests, clock.waited
        for _ in range(20):
            with pytest.raises(StorageError, match="is not asked again: refused"):
                ask(Patience("s", 10.0), service)
    assert (service.requests, clock.waited) == (asked, waited)
    with one_statement(), pytest.raises(ConnectionRefusedError):
        ask(client, service)
    assert service.requests > asked + 4, "the next statement has its own time"


def test_slow_silence_takes_no_longer(clock: Clock) -> None:
    service = Service(clock, SILENCE, seconds_each=5.0)
    with one_statement():
        for _ in range(6):
            with pytest.raises((ConnectionRefusedError, StorageError)):
                ask(Patience("s", 10.0), service)
    assert service.requests == 2


def test_other_services_are_still_asked(clock: Clock) -> None:
    with one_statement():
        with pytest.raises(ConnectionRefusedError):
            ask(Patience("dead"), Service(clock, SILENCE))
        assert ask(Patience("alive"), Service(clock, "answer")) == "answer"


def test_an_answer_renews_the_time(clock: Clock) -> None:
    client = Patience("s", 10.0)
    with one_statement():
        for _ in range(5):
            service = Service(clock, SILENCE, SILENCE, "answer", seconds_each=4.0)
            assert ask(client, service) == "answer"


def test_answers_to_others_do_not_keep_a_silent_request_alive(clock: Clock) -> None:
    client, other = Patience("s", 10.0), Service(clock, "answer")

    def silent() -> object:
        ask(client, other)
        raise SILENCE

    with one_statement(), pytest.raises(ConnectionRefusedError):
        ask(client, silent)
    assert clock.waited < 15.0


def test_statement_that_has_failed_waits_no_more(clock: Clock) -> None:
    service = Service(clock, SILENCE)
    with one_statement(store_failed=True), pytest.raises(ConnectionRefusedError):
        ask(Patience("s"), service)
    assert (service.requests, clock.waited) == (1, 0.0)


def test_refusals_are_repeated_a_few_times(clock: Clock) -> None:
    service = Service(clock, BUSY)
    with one_statement():
        for _ in range(2):
            service.requests = 0
            with pytest.raises(TimeoutError):
                ask(Patience("s"), service)
            assert service.requests == 10


def test_final_errors_are_not_repeated(clock: Clock) -> None:
    service = Service(clock, DENIED)
    with pytest.raises(PermissionError):
        ask(Patience("s"), service)
    assert (service.requests, clock.waited) == (1, 0.0)


def test_log_says_once_what_a_statement_waits_for(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), one_statement():
        for _ in range(3):
            with pytest.raises((ConnectionRefusedError, StorageError)):
                ask(Patience("http://store:9000", 7.0), Service(clock, SILENCE))
    (line,) = caplog.messages
    assert line == (
        "waiting for http://store:9000: ConnectionRefusedError: refused; requests are repeated for 7 s "
        "(storage option client_retry_timeout)"
    )


def test_short_silence_is_not_logged(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    assert ask(Patience("s"), Service(clock, SILENCE, SILENCE, "answer")) == "answer"
    assert caplog.messages == []
