"""The wire and the record, as pure code: bytes in, values out; no socket, file, clock or log."""
