"""Passwords of commands: refused among the arguments, and asked for."""

from __future__ import annotations

import argparse
import getpass
import sys
import urllib.parse

from akdl.masking import login_of

REMEDY_OF_CLUSTER = (
    "give https://USER@HOST:PORT and type the password or pass it to the standard input, or set"
    " FLINK_REST_CLIENT_HEADERS"
)


def refuse_password(
    parser: argparse.ArgumentParser, argument: str, address: str, remedy: str
) -> None:
    """End the command if an address has a password, which the list of processes would show to all
    users.
    """
    if ":" in login_of(address):
        parser.error(
            f"{argument}: all users of this host can read the password of an argument: {remedy}"
        )


def with_password(address: str) -> str:
    """Address with the password of its user, if it has one, from the terminal or standard input."""
    user = login_of(address)
    if not user:
        return address
    # All users of this host could read the password of an argument, so it is typed, or passed to
    # the standard input.
    asked = (
        getpass.getpass(f"Password of {user}: ")
        if sys.stdin.isatty()
        else sys.stdin.readline().rstrip("\n")
    )
    # The password becomes part of a URL, so all of its special characters are escaped.
    return address.replace(f"{user}@", f"{user}:{urllib.parse.quote(asked, safe='')}@", 1)
