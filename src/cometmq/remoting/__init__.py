"""Sockets: one connection type for both ends, a server, a pool of clients. Knows no broker."""
