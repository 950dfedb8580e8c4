"""Global settings of Alink programs."""

from __future__ import annotations

import logging
import os
from typing import Any

from bridge.exceptions import ConfigurationError

logger = logging.getLogger(__name__)

_NO_PLUGINS = (
    "akdl has no plugins: TensorFlow comes from the pythonEnv of an operator, or from the Python of"
    " Flink"
)


def _no_plugin(*given: object, **options: object) -> list[str]:
    """Log a warning: akdl has no plugins."""
    logger.warning("a call about plugins has no effect: %s", _NO_PLUGINS)
    return []


class AlinkGlobalConfiguration:
    """Settings for all operators of this process."""

    _print_process_info = False

    setPluginDir = setPluginUrl = setAutoPluginDownload = staticmethod(_no_plugin)
    getPluginDir = getPluginUrl = getAutoPluginDownload = staticmethod(_no_plugin)

    @classmethod
    def setPrintProcessInfo(cls, value: bool) -> None:
        """Show the output of scripts on this console, each line prefixed with role and index."""
        if not isinstance(value, bool):
            raise ConfigurationError(f"setPrintProcessInfo: expected True or False, got {value!r}")
        cls._print_process_info = value

    @classmethod
    def isPrintProcessInfo(cls) -> bool:
        """Return True if this console shows the output of scripts."""
        return cls._print_process_info

    @classmethod
    def getPluginDownloader(cls) -> PluginDownloader:
        """Return a downloader whose methods have no effect."""
        return PluginDownloader()


class PluginDownloader:
    """Stand-in for Alink's downloader: akdl has no plugins, so it downloads nothing."""

    loadConfig = listAvailablePlugins = listAvailablePluginVersions = staticmethod(_no_plugin)
    downloadAll = downloadPlugin = upgrade = staticmethod(_no_plugin)


def note_flink_home(function: str, flink_home: Any) -> None:
    if flink_home is not None:
        logger.warning(
            "%s: flinkHome=%r is ignored: jobs are built with the Flink of the package"
            " apache-flink; to use another installation of the same version, set the variable"
            " FLINK_HOME",
            function,
            os.fspath(flink_home),
        )


def port_of(value: object) -> Any:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
