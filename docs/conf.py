"""How the documentation is built: `make docs`, or `python -m sphinx -W --keep-going -n -b html docs out/site`. Needs no network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from _site import docstrings, formulas, links, pages

import mnemesh

project = "mnemesh"
author = "The mnemesh developers"
copyright = author
version = release = mnemesh.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_site", "_templates", "pictures"]
templates_path = ["_templates"]
suppress_warnings = ["toc.empty_glob"]  # pages that come and go are listed where they exist
nitpicky = True

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

add_module_names = False
python_use_unqualified_type_names = True
smartquotes = False
autodoc_inherit_docstrings = False
maximum_signature_line_length = 130  # counted before names lose their modules
viewcode_line_numbers = False

html_theme = "pydata_sphinx_theme"
html_title = f"mnemesh {release}"
html_static_path = ["_static"]
html_css_files = ["mnemesh.css"]
html_sidebars = {"**": ["sections.html"]}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "mnemesh"},
    "navbar_center": [],
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def setup(app: Any) -> None:
    """Join the parts in `_site/` to Sphinx."""
    for part in (pages, docstrings, formulas, links):
        part.setup(app)
