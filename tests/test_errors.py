"""Every error survives pickle, attributes included: Spark carries errors from workers to the driver that way."""

from __future__ import annotations

import copy
import pickle
import traceback

import pytest

from lance_spark import errors

ERRORS = [
    errors.CorruptFileError("bad page", path="data/a.lance", start=10, length=4, column=1, page=2),
    errors.UnsupportedFeatureError("no", feature="overlays", version="2.3"),
    errors.InvalidInputError("no such option"),
    errors.AlreadyExistsError("the name is taken"),
    errors.NotEmptyError("it has tables"),
    errors.NotFoundError("no such table"),
    errors.RetryableConflictError("again", own="Append", committed="Merge", table_version=7),
    errors.IncompatibleConflictError("never", own="Append", committed="Overwrite", table_version=8),
    errors.StorageError("disk full"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_survives_pickle_and_copies(error: errors.LanceError) -> None:
    for made in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(made) is type(error)
        assert str(made) == str(error)
        assert made.__dict__ == error.__dict__


def test_the_place_is_told_and_the_first_one_stays() -> None:
    error = errors.CorruptFileError("bad page", page=2).at(path="data/a.lance", column=1, page=9)
    assert str(error) == "bad page (file data/a.lance, column 1, page 2)"


def test_invalid_input_is_a_value_error() -> None:
    assert issubclass(errors.InvalidInputError, ValueError)


def test_what_is_not_found_is_a_value_error_and_a_key_error() -> None:
    assert {ValueError, KeyError} < set(errors.NotFoundError.__mro__)


def test_text_of_a_key_error_has_no_quotes() -> None:
    error = errors.NotFoundError("no column 'a'")
    assert str(error) == "no column 'a'"
    assert traceback.format_exception_only(error)[-1] == "lance_spark.errors.NotFoundError: no column 'a'\n"
    assert str(errors.NotFoundError("lone \udc80")) == "lone \\udc80"
