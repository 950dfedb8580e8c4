"""Settings of Alink that have no counterpart: taken where a job runs the same without them, and said so in the log."""

from __future__ import annotations

import logging
import os
from typing import Any

from bridge.exceptions import ConfigurationError

logger = logging.getLogger(__name__)

_PLUGINS = "there are no plugins: TensorFlow comes from the pythonEnv of an operator, or from the Python of Flink"


class AlinkGlobalConfiguration:
    """Settings for all operators of this process."""

    _print_process_info = False
    _plugin_dir = "plugins"
    _plugin_url = ""
    _auto_plugin_download = True

    @classmethod
    def setPrintProcessInfo(cls, value: bool) -> None:
        """Show on this console what scripts print, each line with role and index in front."""
        if not isinstance(value, bool):
            raise ConfigurationError(f"setPrintProcessInfo: expected True or False, got {value!r}")
        cls._print_process_info = value

    @classmethod
    def isPrintProcessInfo(cls) -> bool:
        """Whether this console shows what scripts print."""
        return cls._print_process_info

    @classmethod
    def setPluginDir(cls, pluginDir: str) -> None:
        """Keep the value; it changes nothing, as there are no plugins."""
        logger.warning("setPluginDir: %s", _PLUGINS)
        cls._plugin_dir = pluginDir

    @classmethod
    def getPluginDir(cls) -> str:
        """Return what was set."""
        return cls._plugin_dir

    @classmethod
    def setAutoPluginDownload(cls, autoPluginDownload: bool) -> None:
        """Keep the value; it changes nothing, as there are no plugins."""
        logger.warning("setAutoPluginDownload: %s", _PLUGINS)
        cls._auto_plugin_download = autoPluginDownload

    @classmethod
    def getAutoPluginDownload(cls) -> bool:
        """Return what was set."""
        return cls._auto_plugin_download

    @classmethod
    def setPluginUrl(cls, url: str) -> None:
        """Keep the value; it changes nothing, as there are no plugins."""
        logger.warning("setPluginUrl: %s", _PLUGINS)
        cls._plugin_url = url

    @classmethod
    def getPluginUrl(cls) -> str:
        """Return what was set."""
        return cls._plugin_url

    @classmethod
    def getFlinkVersion(cls) -> str:
        """Return the version of Flink, such as "flink-2.3"."""
        from pyflink.version import __version__

        return "flink-" + ".".join(__version__.split(".")[:2])

    @classmethod
    def getPluginDownloader(cls) -> PluginDownloader:
        """Return an object that downloads nothing, as there are no plugins."""
        return PluginDownloader()


class PluginDownloader:
    """Takes the calls of Alink's downloader and downloads nothing, as there are no plugins."""

    def loadConfig(self) -> None:
        """Do nothing."""

    def listAvailablePlugins(self) -> list[str]:
        """Return no names."""
        return []

    def listAvailablePluginVersions(self, pluginName: str) -> list[str]:
        """Return no versions."""
        return []

    def downloadPlugin(self, pluginName: str, pluginVersion: str | None = None) -> None:
        """Download nothing."""
        logger.warning("downloadPlugin(%r): %s", pluginName, _PLUGINS)

    def downloadAll(self) -> None:
        """Download nothing."""
        logger.warning("downloadAll: %s", _PLUGINS)

    def upgrade(self) -> None:
        """Download nothing."""
        logger.warning("upgrade: %s", _PLUGINS)


def note_flink_home(function: str, flink_home: Any) -> None:
    """Say that a Flink elsewhere on this machine is not used."""
    if flink_home is not None:
        logger.warning(
            "%s: flinkHome=%r is not used: jobs are built with the Flink of the package apache-flink; the variable FLINK_HOME "
            "names another one of the same version",
            function,
            os.fspath(flink_home),
        )


def port_of(value: Any) -> Any:
    """Return a port that may be a string of digits."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
