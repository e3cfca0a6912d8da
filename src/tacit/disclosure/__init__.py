"""What releases give away: reconstruction, differencing, linkage, uniqueness; each a function of what was published."""

from .differencing import Asked, Disclosed, differencing, read_log
from .drawing import Bar, picture
from .findings import evidence, of_log, of_table
from .genotypes import distance, frequencies, likelihood_ratio, membership
from .linkage import Match, Ratings
from .published_tables import Published, Records, records_from_tables
from .reconstruction import Reconstruction, attainable, random_subsets, reconstruct
from .uniqueness import Homogeneity, Uniqueness, combinations, homogeneity, unicity, uniqueness
from .versions import Versions, model_versions, naming_limit

__all__ = [
    "Asked",
    "Bar",
    "Disclosed",
    "Homogeneity",
    "Match",
    "Published",
    "Ratings",
    "Reconstruction",
    "Records",
    "Uniqueness",
    "Versions",
    "attainable",
    "combinations",
    "differencing",
    "distance",
    "evidence",
    "frequencies",
    "homogeneity",
    "likelihood_ratio",
    "membership",
    "model_versions",
    "naming_limit",
    "of_log",
    "of_table",
    "picture",
    "random_subsets",
    "read_log",
    "reconstruct",
    "records_from_tables",
    "unicity",
    "uniqueness",
]
