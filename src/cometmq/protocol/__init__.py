"""The wire protocol and the record format as pure code: no sockets, files, clocks or logs."""
