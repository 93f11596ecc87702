"""Signatures of requests, for brokers with access control.

    base64( HMAC-SHA1( secret key, values of the fields in the order of their names, body ))

All fields are signed except the signature itself and `_UNIQUE_KEY_QUERY`, which brokers omit.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of a field
SIGNATURE = "Signature"
UNSIGNED = frozenset({SIGNATURE, "_UNIQUE_KEY_QUERY"})


def signature_of(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """The signature of a request. The fields include the access key."""
    text = "".join(fields[name] for name in sorted(fields) if name not in UNSIGNED)
    return b64encode(hmac.digest(secret_key.encode(), text.encode() + body, "sha1")).decode()
