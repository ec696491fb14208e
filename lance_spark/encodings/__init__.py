"""Codecs of the compressive encodings (`lance.encodings21.CompressiveEncoding`), one file per wire message."""
