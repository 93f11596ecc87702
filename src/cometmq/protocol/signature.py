"""Signatures of requests, for brokers with access control.

    base64( HMAC-SHA1( secret key, values of the fields in the order of their names, body ))

The fields are all but the signature itself, and but `_UNIQUE_KEY_QUERY`, which brokers leave out.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of a field
SIGNATURE = "Signature"
UNSIGNED = frozenset({SIGNATURE, "_UNIQUE_KEY_QUERY"})


def signature_of(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Of a request with these fields, the access key among them."""
    text = "".join(fields[name] for name in sorted(fields) if name not in UNSIGNED)
    return b64encode(hmac.digest(secret_key.encode(), text.encode() + body, "sha1")).decode()
