"""Global settings of Alink programs."""

from __future__ import annotations

import logging
import os
from typing import Any

from bridge.exceptions import ConfigurationError

logger = logging.getLogger(__name__)

_NO_PLUGINS = "akdl has no plugins: TensorFlow comes from the pythonEnv of an operator, or from the Python of Flink"


def _plugin_setting(name: str, default: object) -> tuple[staticmethod[[Any], None], staticmethod[[], Any]]:
    values = [default]

    def setter(value: object) -> None:
        """Store a value that has no effect: akdl has no plugins."""
        logger.warning("set%s: %s", name, _NO_PLUGINS)
        values[0] = value

    def getter() -> Any:
        """Return the stored value."""
        return values[0]

    return staticmethod(setter), staticmethod(getter)


class AlinkGlobalConfiguration:
    """Settings for all operators of this process."""

    _print_process_info = False

    setPluginDir, getPluginDir = _plugin_setting("PluginDir", "plugins")
    setAutoPluginDownload, getAutoPluginDownload = _plugin_setting("AutoPluginDownload", True)
    setPluginUrl, getPluginUrl = _plugin_setting("PluginUrl", "")

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
    def getFlinkVersion(cls) -> str:
        """Return the version of Flink, such as "flink-2.3"."""
        from pyflink.version import __version__

        return "flink-" + ".".join(__version__.split(".")[:2])

    @classmethod
    def getPluginDownloader(cls) -> PluginDownloader:
        """Return a downloader whose methods have no effect."""
        return PluginDownloader()


class PluginDownloader:
    """Stand-in for Alink's downloader: akdl has no plugins, so it downloads nothing."""

    def loadConfig(self) -> None:
        """Do nothing."""

    def listAvailablePlugins(self) -> list[str]:
        """Return an empty list."""
        return []

    def listAvailablePluginVersions(self, pluginName: str) -> list[str]:
        """Return an empty list."""
        return []

    def downloadAll(self, pluginName: str | None = None, pluginVersion: str | None = None) -> None:
        """Log a warning."""
        logger.warning("the downloader of plugins downloads nothing: %s", _NO_PLUGINS)

    downloadPlugin = upgrade = downloadAll


def note_flink_home(function: str, flink_home: Any) -> None:
    if flink_home is not None:
        logger.warning(
            "%s: flinkHome=%r is ignored: jobs are built with the Flink of the package apache-flink; to use another "
            "installation of the same version, set the variable FLINK_HOME",
            function,
            os.fspath(flink_home),
        )


def port_of(value: object) -> Any:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
