"""A log event: a constant text and named fields.

    log.info(LogEvent("broker started", address=address, duration_ms=250))

A text log shows the fields after the text, as `broker started address=10.0.0.1:10911
duration_ms=250`. A JSON log (`logs.JsonLines`) has the same fields as JSON values. Keep the text
constant, so that a search for it finds every such event. Field names are lower case and end with
their unit; use the same name for the same thing everywhere: `topic`, `group`, `queue_id`,
`offset`, `broker`, `client_id`, `peer` (host:port), `code` (of a request or a response), `path`,
`reason`, `duration_ms`.
"""

import json


class LogEvent:
    """The message of a log record: formatted only if a handler accepts the record."""

    __slots__ = ("fields", "text")

    def __init__(self, text: str, /, **fields: object) -> None:
        self.text = text
        self.fields = fields

    def __str__(self) -> str:
        pairs = (f" {name}={_shown(value)}" for name, value in self.fields.items())
        return self.text + "".join(pairs)


def _shown(value: object) -> str:
    """Text that contains a space, a quote or an equals sign is quoted as a JSON string."""
    text = str(value)
    if text and not any(each.isspace() or each in '"=' for each in text):
        return text
    return json.dumps(text, ensure_ascii=False)
