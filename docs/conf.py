"""Settings of Sphinx: `make docs` builds the pages into build/docs, without a network."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts import build_api  # noqa: E402

build_api.main()

project = "akdl"
copyright = "the authors of akdl"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "akdl"
html_static_path = ["_static"]
exclude_patterns = ["zh/_*"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# Code with "..." or placeholders does not stop the build; the tests run what can run.
suppress_warnings = ["misc.highlighting_failure"]
