"""The secret that a caller has to bring: every line between two processes belongs to one job alone."""

import hmac
from typing import Any

import grpc

TOKEN = "akdl-token"  # key of the secret in a call's metadata


def refuse_strangers(context: Any, token: str, reason: str) -> None:
    """Abort a call that does not bring the token in its metadata."""
    given = dict(context.invocation_metadata()).get(TOKEN, "")
    if not hmac.compare_digest(given, token):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)
