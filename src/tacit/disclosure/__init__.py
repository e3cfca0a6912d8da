"""What releases give away: reconstruction, differencing, linkage, uniqueness; each a function of what was published."""

from .differencing import Asked, Disclosed, differencing, read_log
from .genotypes import distance, frequencies, likelihood_ratio, membership
from .linkage import Match, Ratings
from .published_tables import Published, Records, records_from_tables
from .reconstruction import Reconstruction, attainable, random_subsets, reconstruct
from .uniqueness import Homogeneity, Uniqueness, combinations, homogeneity, unicity, uniqueness

__all__ = [
    "Asked",
    "Disclosed",
    "Homogeneity",
    "Match",
    "Published",
    "Ratings",
    "Reconstruction",
    "Records",
    "Uniqueness",
    "attainable",
    "combinations",
    "differencing",
    "distance",
    "frequencies",
    "homogeneity",
    "likelihood_ratio",
    "membership",
    "random_subsets",
    "read_log",
    "reconstruct",
    "records_from_tables",
    "unicity",
    "uniqueness",
]
