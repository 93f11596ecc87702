"""Signs every request of a client that has an access key."""

from dataclasses import dataclass, field

from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import write_fields
from cometmq.protocol.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, signature_of


@dataclass(frozen=True, slots=True)
class Signing:
    """A hook that signs requests."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)

    def before(self, peer: str, request: Command) -> None:
        """Add the access key and the signature to a request."""
        fields = request.ext_fields | {ACCESS_KEY: self.access_key}
        if self.security_token:
            fields[SECURITY_TOKEN] = self.security_token
        fields[SIGNATURE] = signature_of(fields, request.body, self.secret_key)
        request.fields = write_fields(fields)

    def after(self, peer: str, request: Command, response: Command) -> None:
        """Responses are not signed."""
