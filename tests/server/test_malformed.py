"""The short form of the campaign in malformed.py; 10,000 of them in `make test-long`."""

from __future__ import annotations

import os

import malformed


def test_malformed_requests_get_the_status_of_their_kind(server):
    count = int(os.environ.get("QUIRE_MALFORMED", "650"))
    good, wrong = malformed.campaign(server.port, count)
    assert not wrong, "\n".join(wrong[:10])
    assert sum(good.values()) == count
    assert server.call("GET", "/health").status == 200
