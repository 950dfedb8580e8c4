"""Refusal of passwords among the arguments of a command."""

from __future__ import annotations

import argparse

from akdl.masking import login_of


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
