"""The address of this machine."""

import ipaddress
import socket

from cometmq.local_address import local_ip


def test_is_an_address():
    assert ipaddress.ip_address(local_ip()).version == 4


def test_without_a_way_out_it_is_the_loopback(monkeypatch):
    class NoWay(socket.socket):
        def connect(self, address):
            raise OSError(101, "network is unreachable")

    monkeypatch.setattr(socket, "socket", NoWay)
    assert local_ip() == "127.0.0.1"
