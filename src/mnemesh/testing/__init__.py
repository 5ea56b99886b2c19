"""The conformance kit: whatever you add to mnemesh is held to its laws by one call from your own tests.

Each check raises AssertionError with the law that is broken. NumPy and networkx are enough; where JAX or numba is installed, they must agree with NumPy.
"""

from mnemesh.testing.flows import check_stream
from mnemesh.testing.functions import check_features, check_loss
from mnemesh.testing.learners import check_algorithm
from mnemesh.testing.rates import check_step
from mnemesh.testing.sets import check_domain
from mnemesh.testing.wires import check_builder

__all__ = ["check_algorithm", "check_builder", "check_domain", "check_features", "check_loss", "check_step", "check_stream"]
