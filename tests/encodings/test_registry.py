from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding, MiniBlockEncoding, PerValueEncoding
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.registry import parse
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError

FLAT = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=16))
BYTES = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=8))
VARIABLE = pb.CompressiveEncoding(variable=pb.Variable(offsets=pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=32))))

MESSAGES = {
    "flat": FLAT,
    "variable": VARIABLE,
    "constant": pb.CompressiveEncoding(constant=pb.Constant(value=b"x")),
    "out_of_line_bitpacking": pb.CompressiveEncoding(
        out_of_line_bitpacking=pb.OutOfLineBitpacking(uncompressed_bits_per_value=16, values=BYTES)
    ),
    "inline_bitpacking": pb.CompressiveEncoding(inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=16)),
    "fsst": pb.CompressiveEncoding(
        fsst=pb.Fsst(symbol_table=(0x46535354 << 32).to_bytes(8, "little"), values=VARIABLE)
    ),
    "rle": pb.CompressiveEncoding(rle=pb.Rle(values=FLAT, run_lengths=BYTES)),
    "byte_stream_split": pb.CompressiveEncoding(
        byte_stream_split=pb.ByteStreamSplit(values=pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=32)))
    ),
    "fixed_size_list": pb.CompressiveEncoding(fixed_size_list=pb.FixedSizeList(items_per_value=2, values=FLAT)),
    "packed_struct": pb.CompressiveEncoding(packed_struct=pb.PackedStruct(bits_per_value=[8, 8], values=FLAT)),
    "variable_packed_struct": pb.CompressiveEncoding(variable_packed_struct=pb.VariablePackedStruct()),
}

ROLES = {
    MiniBlockEncoding: {
        "flat",
        "variable",
        "inline_bitpacking",
        "fsst",
        "rle",
        "byte_stream_split",
        "fixed_size_list",
        "packed_struct",
    },
    BlockEncoding: {"flat", "variable", "constant", "out_of_line_bitpacking", "inline_bitpacking", "rle"},
    PerValueEncoding: {
        "flat",
        "variable",
        "fsst",
        "fixed_size_list",
        "packed_struct",
        "variable_packed_struct",
    },
}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.__name__)
@pytest.mark.parametrize("name", MESSAGES)
def test_encodings_have_the_roles_of_the_format(name: str, role: type) -> None:
    for message in (MESSAGES[name], _compressed(MESSAGES[name])):
        if name in ROLES[role]:
            codec = parse(message, role)
            assert isinstance(codec, role)
            assert codec.to_proto() == message
        else:
            with pytest.raises(CorruptFileError, match="cannot stand"):
                parse(message, role)


def _compressed(message: pb.CompressiveEncoding) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(general=pb.General(compression=pb.BufferCompression(scheme=1), values=message))


def test_missing_encoding_is_corrupt() -> None:
    with pytest.raises(CorruptFileError, match="missing"):
        parse(pb.CompressiveEncoding(), BlockEncoding)


@pytest.mark.parametrize("number", [14, 15])
def test_encodings_of_later_versions_are_unsupported(number: int) -> None:
    message = pb.CompressiveEncoding.FromString(bytes([number << 3 | 2, 0]))
    with pytest.raises(UnsupportedFeatureError):
        parse(message, BlockEncoding)


def test_dictionary_as_a_value_encoding_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeatureError):
        parse(pb.CompressiveEncoding(dictionary=pb.Dictionary()), BlockEncoding)


def test_random_messages_parse_or_raise_our_errors() -> None:
    """Every one-byte change of every message, in every role."""
    for message in [*MESSAGES.values(), *map(_compressed, MESSAGES.values())]:
        data = message.SerializeToString()
        for place in range(len(data)):
            for value in (0, 1, 0x7F, 0xFF, data[place] ^ 8):
                self_made = data[:place] + bytes([value]) + data[place + 1 :]
                try:
                    changed = pb.CompressiveEncoding.FromString(self_made)
                except DecodeError:
                    continue
                for role in ROLES:
                    try:
                        parse(changed, role)
                    except (CorruptFileError, UnsupportedFeatureError):
                        continue


def test_a_codec_class_is_a_role_of_its_own() -> None:
    assert parse(FLAT, Flat) == Flat(16)
    with pytest.raises(CorruptFileError):
        parse(VARIABLE, Flat)
