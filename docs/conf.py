"""How Sphinx builds these pages: `sphinx-build -W --keep-going docs OUTPUT`. Nothing is fetched from a network."""

from __future__ import annotations

import sys
from pathlib import Path

# The pages are about the code beside them, not about another version that happens to be installed.
sys.path[:0] = [str(Path(__file__).parent / "_ext"), str(Path(__file__).parents[1])]

from rtmprelay import __version__  # noqa: E402

project = "rtmprelay"
author = "The rtmprelay developers"
copyright = "The rtmprelay developers, MIT license"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "myst_parser",
    "from_code",
]

root_doc = "index"
exclude_patterns = ["_build", "newsfragments", "examples"]

# Docstrings write code as `this`.
default_role = "literal"
# They would make one dash of the two before an option.
smartquotes = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_numpy_docstring = False

myst_heading_anchors = 3

html_theme = "furo"
html_title = f"rtmprelay {__version__}"
html_static_path = ["_static"]
html_css_files = ["wide_tables.css"]
html_show_sphinx = False
# A build says the same twice: no date in it.
html_last_updated_fmt = None
