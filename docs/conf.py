"""How `make docs` builds the site: the pages of this folder (MyST), the API from docstrings; no network."""

from importlib import metadata

project = "solidfield"
author = "the solidfield contributors"
release = metadata.version("solidfield")

suppress_warnings = ["myst.header"]  # headings of short entries are small
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3  # pages link to each other's headings
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types stand in the docstrings, in words
napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes in their own section, never listed twice

html_theme = "furo"
html_title = "solidfield"
html_copy_source = False
html_show_sphinx = html_show_copyright = False
highlight_language = "none"  # blocks without a language are commands and formulas
default_role = "code"
html_theme_options = {"top_of_page_buttons": []}
