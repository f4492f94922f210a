"""How the documentation is built: ``make docs``."""

import multimargin

project = "multimargin"
author = "The multimargin developers"
copyright = author
version = release = multimargin.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/*.md5", "gallery/*.zip", "reliability/*"]
suppress_warnings = ["misc.highlighting_failure"]  # tables of the guides are csv, which Pygments does not know

html_theme = "furo"
html_title = f"multimargin {release}"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_default_options = {
    "members": True,
    "inherited-members": "BaseEstimator, ClassifierMixin, LinearClassifierMixin",
    "exclude-members": "get_metadata_routing, set_fit_request, set_partial_fit_request, set_score_request",
}
autodoc_typehints = "none"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1000,
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
    "copyfile_regex": r".*\.rst",
}
