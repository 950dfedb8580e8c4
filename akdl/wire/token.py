"""The secret that a caller presents; every channel between two processes belongs to one job.

A unix socket in a private folder keeps other users out already. The token also protects channels on
127.0.0.1 and between hosts, and separates the jobs of one user.
"""

import hmac
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

import grpc

# Key of the secret in the metadata of a call, which gRPC sends in front of the messages.
TOKEN = "akdl-token"


def guarded_server(
    calls: ThreadPoolExecutor, token: str, reason: str, shares_port: bool = False
) -> grpc.Server:
    """Return a server for messages of any size that aborts calls without the token."""
    options = [
        # A single row may be larger than the 4 MB to which gRPC limits messages by default.
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        # By default gRPC lets two servers share a port silently, and the kernel divides the calls.
        ("grpc.so_reuseport", int(shares_port)),
    ]
    return grpc.server(calls, interceptors=[RefusesStrangers(token, reason)], options=options)


class RefusesStrangers(grpc.ServerInterceptor):
    """Aborts calls without the token in their metadata, before their messages are read."""

    def __init__(self, token: str, reason: str) -> None:
        def refuse(requests: object, context: grpc.ServicerContext) -> None:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)

        self._token = token
        # A stream handler for every kind of call: for a single message, gRPC would read it before
        # calling the handler; messages of a stream are read on request, and this handler does not
        # request any.
        self._refusal: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
            refuse
        )

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: Any
    ) -> Any:
        # compare_digest takes the same time for any wrong token, so its characters cannot be
        # guessed one after another.
        given = dict(handler_call_details.invocation_metadata).get(TOKEN, "")
        return (
            continuation(handler_call_details)
            if hmac.compare_digest(given, self._token)
            else self._refusal
        )
