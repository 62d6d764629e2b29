"""The errors of Kafka's wire protocol."""


class WireError(ValueError):
    """The error for bytes that are no valid frame, and for a message that a frame cannot contain."""


class UnsupportedWireVersion(WireError):
    """The error for a request of an API or a version that is not spoken.

    A broker answers an ApiVersions request of such a version in version 0, with the error UNSUPPORTED_VERSION and its
    supported versions (KIP-511). It closes the connection after any other such request.
    """

    def __init__(self, message: str, api_key: int, version: int, correlation_id: int, client_id: str | None) -> None:
        super().__init__(message)
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
