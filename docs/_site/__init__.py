"""What the documentation needs beyond Sphinx: pages of the reference, docstrings as reST, formulas as MathML, links between them."""
