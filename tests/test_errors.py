"""Every error survives pickle, attributes included: Spark carries errors from workers to the driver that way."""

from __future__ import annotations

import pickle

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
def test_survives_pickle(error: errors.LanceError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


def test_the_place_is_told_and_the_first_one_stays() -> None:
    error = errors.CorruptFileError("bad page", page=2).at(path="data/a.lance", column=1, page=9)
    assert str(error) == "bad page (file data/a.lance, column 1, page 2)"


def test_invalid_input_is_a_value_error() -> None:
    assert issubclass(errors.InvalidInputError, ValueError)
