"""Settings of Alink that have no counterpart."""

from __future__ import annotations

import logging

import pytest

from operators import AlinkGlobalConfiguration
from operators.alink.settings import note_flink_home, port_of


def test_alink_plugins_are_accepted_and_not_used(caplog: pytest.LogCaptureFixture) -> None:
    AlinkGlobalConfiguration.setPluginDir("/plugins")
    AlinkGlobalConfiguration.setPluginUrl("http://plugins")
    AlinkGlobalConfiguration.setAutoPluginDownload(False)
    assert not AlinkGlobalConfiguration.getPluginDir()
    assert not AlinkGlobalConfiguration.getPluginUrl()
    assert not AlinkGlobalConfiguration.getAutoPluginDownload()
    downloader = AlinkGlobalConfiguration.getPluginDownloader()
    downloader.loadConfig()
    downloader.downloadPlugin("tf231_python_env_linux")
    downloader.downloadAll()
    downloader.upgrade()
    assert (
        downloader.listAvailablePlugins()
        == downloader.listAvailablePluginVersions("tf_predictor_linux")
        == []
    )
    assert len(caplog.records) == 12 and all(
        "akdl has no plugins: TensorFlow" in each.message for each in caplog.records
    )


def test_a_flink_home_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        note_flink_home("useLocalEnv", None)
        note_flink_home("useLocalEnv", "/opt/flink")
    assert ["flinkHome='/opt/flink' is ignored" in each.message for each in caplog.records] == [
        True
    ]


def test_ports_may_be_strings() -> None:
    assert [port_of(each) for each in ("8081", 8081, "x", None)] == [8081, 8081, "x", None]
