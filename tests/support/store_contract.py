"""What every `ObjectStore` must do. A test class inherits `StoreContract` and says how to make an empty store.

The expectations are those of ``lance_spark/storage/base.py``, written down once and run against every store.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError
from lance_spark.storage import open_store
from lance_spark.storage.base import ByteRange, ObjectStore, PutResult, copy_object, read_copies

ODD_NAMES = [
    "with space",
    "per%20cent",
    "_refs/branches/feature%2Fx.json",
    "hash#tag",
    "what?why=1",
    "plus+and&amp;",
    "grüße-日本-🚀",
    "a=1;b,c@d!$'()*~",
    "..hidden..",
    ".dot",
    "trailing.",
    "(paren)[bracket]{brace}",
]

BAD_PATHS = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../other",
    "a/../../other",
    "a/..",
    "./a",
    "a/./b",
    "a//b",
    "a/",
    "a\\b",
    "..\\other",
    "nul\0byte",
    "lone\ud800surrogate",
]


class StoreContract:
    """Inherit and override `store`, a fixture that yields a store without objects."""

    num_racers = 16

    @pytest.fixture
    def store(self) -> ObjectStore:
        raise NotImplementedError

    def test_is_an_object_store(self, store: ObjectStore) -> None:
        assert isinstance(store, ObjectStore)
        assert not store.uri.endswith("/")

    @pytest.mark.parametrize("data", [b"", b"x", b"0123456789" * 1000], ids=["empty", "one byte", "10 kB"])
    def test_reads_what_was_put(self, store: ObjectStore, data: bytes) -> None:
        store.put("data/a.lance", data)
        assert store.read("data/a.lance").to_pybytes() == data
        assert store.size("data/a.lance") == len(data)

    def test_accepts_sliced_arrow_buffers(self, store: ObjectStore) -> None:
        sliced = pa.py_buffer(b"0123456789").slice(3, 4)
        store.put("a", sliced)
        assert store.put_if_absent("b", sliced) is PutResult.CREATED
        output = store.open_output("c")
        output.write(sliced)
        output.close()
        assert [store.read(path).to_pybytes() for path in "abc"] == [b"3456"] * 3

    def test_does_not_keep_a_hand_on_the_callers_memory(self, store: ObjectStore) -> None:
        memory = bytearray(b"before")
        store.put("a", pa.py_buffer(memory))
        store.put_if_absent("b", pa.py_buffer(memory))
        output = store.open_output("c")
        output.write(memoryview(memory))
        memory[:] = b"AFTER!"
        output.close()
        assert [store.read(path).to_pybytes() for path in "abc"] == [b"before"] * 3

    def test_put_replaces(self, store: ObjectStore) -> None:
        store.put("hint", b"first version, long")
        assert store.read_range("hint", ByteRange(0, 5)).to_pybytes() == b"first"
        store.put("hint", b"second")
        assert store.read("hint").to_pybytes() == b"second"
        assert store.read_range("hint", ByteRange(0, 6)).to_pybytes() == b"second"
        assert store.size("hint") == 6

    def test_put_if_absent_never_replaces(self, store: ObjectStore) -> None:
        assert store.put_if_absent("_versions/1.manifest", b"ours") is PutResult.CREATED
        assert store.put_if_absent("_versions/1.manifest", b"theirs") is PutResult.EXISTS
        assert store.put_if_absent("_versions/1.manifest", b"ours") is PutResult.EXISTS
        assert store.read("_versions/1.manifest").to_pybytes() == b"ours"
        store.delete("_versions/1.manifest")
        assert store.put_if_absent("_versions/1.manifest", b"again") is PutResult.CREATED
        assert [found.path for found in store.list("", recursive=True)] == ["_versions/1.manifest"]

    def test_put_if_absent_respects_every_kind_of_write(self, store: ObjectStore) -> None:
        store.put("a", b"put")
        output = store.open_output("b")
        output.write(b"stream")
        output.close()
        assert store.put_if_absent("a", b"other") is PutResult.EXISTS
        assert store.put_if_absent("b", b"other") is PutResult.EXISTS
        assert store.read("a").to_pybytes() == b"put"
        assert store.read("b").to_pybytes() == b"stream"

    def test_one_of_many_threads_wins(self, store: ObjectStore) -> None:
        for round_ in range(3):
            path = f"_versions/{round_}.manifest"
            barrier = Barrier(self.num_racers)

            def race(writer: int, path: str = path, barrier: Barrier = barrier) -> PutResult:
                barrier.wait()
                return store.put_if_absent(path, b"writer %d" % writer)

            with ThreadPoolExecutor(self.num_racers) as pool:
                results = list(pool.map(race, range(self.num_racers)))
            winners = [writer for writer, result in enumerate(results) if result is PutResult.CREATED]
            assert len(winners) == 1
            assert set(results) == {PutResult.CREATED, PutResult.EXISTS}
            assert store.read(path).to_pybytes() == b"writer %d" % winners[0]

    def test_reads_ranges_in_the_order_asked(self, store: ObjectStore) -> None:
        data = bytes(range(256)) * 64
        store.put("a", data)
        ranges = [(100, 50), (0, 1), (16_383, 1), (0, 16_384), (100, 50), (120, 60), (5, 0), (16_384, 0)]
        found = store.read_ranges("a", [ByteRange(*range_) for range_ in ranges])
        assert [buffer.to_pybytes() for buffer in found] == [data[start : start + n] for start, n in ranges]
        assert store.read_range("a", ByteRange(7, 9)).to_pybytes() == data[7:16]
        assert store.read_ranges("a", []) == []
        copies = read_copies(store, "a", [ByteRange(*range_) for range_ in ranges])
        assert copies == [data[start : start + n] for start, n in ranges]

    def test_reads_ranges_of_an_object_of_many_requests(self, store: ObjectStore) -> None:
        data = pa.py_buffer(bytes(range(251)) * 100_000)
        store.put("big", data)
        ranges = [ByteRange(start, 1000) for start in range(0, data.size - 1000, 3_000_001)] + [
            ByteRange(1, 20_000_000)
        ]
        found = store.read_ranges("big", ranges)
        assert all(buffer.equals(data.slice(r.start, r.length)) for buffer, r in zip(found, ranges, strict=True))

    @pytest.mark.parametrize(
        "range_", [(0, 11), (10, 1), (5, 1 << 62), (1 << 62, 5), (-1, 3), (3, -1), (-4, 4)], ids=str
    )
    def test_a_range_outside_the_object_is_corruption(self, store: ObjectStore, range_: tuple[int, int]) -> None:
        store.put("a", b"0123456789")
        with pytest.raises(CorruptFileError):
            store.read_range("a", ByteRange(*range_))
        with pytest.raises(CorruptFileError):
            store.read_ranges("a", [ByteRange(0, 4), ByteRange(*range_), ByteRange(6, 2)])
        with pytest.raises(CorruptFileError):
            read_copies(store, "a", [ByteRange(0, 4), ByteRange(*range_)])

    def test_a_missing_object_is_not_found(self, store: ObjectStore) -> None:
        store.put("folder/a", b"1")
        for path in ["b", "folder", "folder/b", "folder/a/b", "other/b"]:
            with pytest.raises(NotFoundError):
                store.read(path)
            with pytest.raises(NotFoundError):
                store.read_range(path, ByteRange(0, 1))
            with pytest.raises(NotFoundError):
                store.read_ranges(path, [ByteRange(0, 1), ByteRange(1_000_000, 1)])
            with pytest.raises(NotFoundError):
                read_copies(store, path, [ByteRange(0, 1)])
            with pytest.raises(NotFoundError):
                store.size(path)

    def test_delete_is_harmless_the_second_time(self, store: ObjectStore) -> None:
        store.put("folder/a", b"1")
        store.put("folder/b", b"2")
        store.delete("folder/a")
        store.delete("folder/a")
        store.delete("never/there")
        store.delete("folder")
        assert [found.path for found in store.list("folder")] == ["folder/b"]
        with pytest.raises(NotFoundError):
            store.read("folder/a")

    def test_a_deleted_and_rewritten_object_reads_anew(self, store: ObjectStore) -> None:
        for data in [b"one", b"twice as long", b"3"]:
            store.put("a", data)
            assert store.read_ranges("a", [ByteRange(0, len(data))])[0].to_pybytes() == data
            store.delete("a")

    def test_lists_a_folder_in_order(self, store: ObjectStore) -> None:
        paths = ["data/b", "data/a", "data/a.b", "data/a/c", "data/a/b/d", "data2/x", "dat", "data/Z", "data/é"]
        for path in paths if self.has_flat_names(store) else [p for p in paths if not p.startswith("data/a/")]:
            store.put(path, path.encode())
        nested = ["data/nested/x/y", "data/nested-too/z", "data/nested.x"]
        for path in nested:
            store.put(path, path.encode())
        direct = [found.path for found in store.list("data")]
        assert direct == ["data/Z", "data/a", "data/a.b", "data/b", "data/nested.x", "data/é"]
        assert direct == [found.path for found in store.list("data/")]
        everything = list(store.list("data", recursive=True))
        assert [found.path for found in everything] == sorted(found.path for found in everything)
        assert {found.path for found in everything} >= set(direct) | set(nested)
        assert all(found.size == len(found.path.encode()) for found in everything)
        assert all(found.modified is None or found.modified.tzinfo is not None for found in everything)
        assert [found.path for found in store.list("")] == ["dat"]
        assert "data2/x" in [found.path for found in store.list("", recursive=True)]
        assert list(store.list("nothing/here")) == []
        assert list(store.list("data/b")) == []

    copies_objects = False
    """Whether complete objects are copied without passing through the process."""

    def test_copies_complete_objects(self, store: ObjectStore) -> None:
        data = bytes(range(256)) * 20_000
        store.put("from/a b+c", data)
        assert copy_object(store, "from/a b+c", store, "to/d", len(data)) is self.copies_objects
        assert [(found.path, found.size) for found in store.list("to")] == [("to/d", len(data))] * self.copies_objects
        if self.copies_objects:
            assert store.read("to/d").to_pybytes() == data
            with pytest.raises(NotFoundError):
                copy_object(store, "from/none", store, "to/e", len(data))
        assert not copy_object(store, "from/a b+c", store, "to/e", 5119), "the object has another size"
        assert not copy_object(open_store("memory://copies"), "a", store, "to/e", 1), "another store"

    def has_flat_names(self, store: ObjectStore) -> bool:
        """Whether an object and a folder may have the same name, as in an object store."""
        return True

    def test_lists_folders(self, store: ObjectStore) -> None:
        for path in ["t.lance/data/x", "t.lance/y", "u/x", "t/z", "t-u/z", "file"]:
            store.put(path, b"1")
        assert list(store.list_folders("")) == ["t-u", "t.lance", "t", "u"]
        assert list(store.list_folders("t.lance")) == ["t.lance/data"]
        assert list(store.list_folders("u")) == []
        assert list(store.list_folders("nothing")) == []

    def test_lists_what_was_just_written_and_deleted(self, store: ObjectStore) -> None:
        assert list(store.list("_versions")) == []
        store.put("_versions/2", b"x")
        assert [found.path for found in store.list("_versions")] == ["_versions/2"]
        store.put_if_absent("_versions/1", b"x")
        assert [found.path for found in store.list("_versions")] == ["_versions/1", "_versions/2"]
        store.delete("_versions/2")
        assert [found.path for found in store.list("_versions")] == ["_versions/1"]

    def test_a_stream_is_invisible_until_it_is_closed(self, store: ObjectStore) -> None:
        output = store.open_output("data/a")
        output.write(b"01234")
        output.write(pa.py_buffer(b"56789"))
        assert output.tell() == 10
        assert list(store.list("", recursive=True)) == []
        with pytest.raises(NotFoundError):
            store.read("data/a")
        output.write(memoryview(b"abc"))
        output.close()
        output.close()
        output.abort()
        assert store.read("data/a").to_pybytes() == b"0123456789abc"
        assert [found.path for found in store.list("", recursive=True)] == ["data/a"]
        with pytest.raises(InvalidInputError):
            output.write(b"late")

    def test_an_aborted_stream_leaves_nothing(self, store: ObjectStore) -> None:
        for chunks in [[], [b"1"], [b"x" * 1_000_000] * 20]:
            output = store.open_output("data/a")
            for chunk in chunks:
                output.write(chunk)
            output.abort()
            output.abort()
            output.close()
            assert list(store.list("", recursive=True)) == []
            with pytest.raises(InvalidInputError):
                output.write(b"late")

    def test_a_forgotten_stream_is_never_published(self, store: ObjectStore) -> None:
        output = store.open_output("data/a")
        output.write(b"x" * 100)
        del output
        assert list(store.list("", recursive=True)) == []

    def test_a_stream_takes_many_writes(self, store: ObjectStore) -> None:
        chunks = [bytes([number % 251]) * (number * 997 % 400_000) for number in range(200)]
        output = store.open_output("data/big")
        for chunk in chunks:
            output.write(chunk)
        assert output.tell() == sum(map(len, chunks))
        output.close()
        assert store.read("data/big").equals(pa.py_buffer(b"".join(chunks)))

    def test_a_stream_replaces_at_its_close(self, store: ObjectStore) -> None:
        store.put("a", b"before")
        output = store.open_output("a")
        output.write(b"afterwards")
        assert store.read("a").to_pybytes() == b"before"
        output.close()
        assert store.read("a").to_pybytes() == b"afterwards"
        assert store.read_range("a", ByteRange(5, 5)).to_pybytes() == b"wards"

    def test_an_empty_stream_makes_an_empty_object(self, store: ObjectStore) -> None:
        store.open_output("empty").close()
        assert store.size("empty") == 0
        assert store.read("empty").size == 0

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_takes_odd_names_literally(self, store: ObjectStore, name: str) -> None:
        assert store.put_if_absent(name, name.encode()) is PutResult.CREATED
        assert store.put_if_absent(name, b"other") is PutResult.EXISTS
        assert store.read(name).to_pybytes() == name.encode()
        assert store.read_range(name, ByteRange(1, 1)).to_pybytes() == name.encode()[1:2]
        assert store.size(name) == len(name.encode())
        assert [found.path for found in store.list("", recursive=True)] == [name]
        output = store.open_output(f"{name}/below" if "/" not in name and self.has_flat_names(store) else f"{name}.2")
        output.write(b"streamed")
        output.close()
        assert {found.size for found in store.list("", recursive=True)} == {8, len(name.encode())}
        store.delete(name)
        with pytest.raises(NotFoundError):
            store.read(name)

    @pytest.mark.parametrize("path", BAD_PATHS, ids=repr)
    def test_refuses_paths_that_leave_the_root(self, store: ObjectStore, path: str) -> None:
        for attempt in [
            lambda: store.read(path),
            lambda: store.read_range(path, ByteRange(0, 1)),
            lambda: store.read_ranges(path, [ByteRange(0, 1)]),
            lambda: store.size(path),
            lambda: store.put(path, b"x"),
            lambda: store.put_if_absent(path, b"x"),
            lambda: store.open_output(path),
            lambda: store.delete(path),
            lambda: list(store.list(f"{path}/x")),
        ]:
            with pytest.raises(InvalidInputError):
                attempt()

    def test_survives_pickle(self, store: ObjectStore) -> None:
        store.put("a", b"1")
        copy = pickle.loads(pickle.dumps(store))
        assert copy.uri == store.uri
        assert copy.read("a").to_pybytes() == b"1"
        assert copy.put_if_absent("a", b"2") is PutResult.EXISTS
        copy.put("b", b"2")
        assert store.read("b").to_pybytes() == b"2"

    def test_many_threads_read_and_write(self, store: ObjectStore) -> None:
        def work(number: int) -> bool:
            data = bytes([number]) * 10_000
            store.put(f"data/{number}", data)
            found = store.read_ranges(f"data/{number}", [ByteRange(0, 10), ByteRange(9_000, 1_000)])
            return found[0].to_pybytes() == data[:10] and store.read(f"data/{number}").to_pybytes() == data

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(24)))
        assert len(list(store.list("data"))) == 24
