"""Attacks: from what was observed of a model to one score per record, and what those scores say."""

from ..core import Exposure, GroupRisk
from .blind import blind_baseline
from .calibration import calibrated, calibrated_online, reference
from .combined import combined
from .controls import leaking, null, planted_leak
from .duplicates import Copies, natural, near_duplicates
from .groups import disparity
from .label import label, label_calibrated
from .likelihood import lira, lira_offline
from .measurement import measure
from .predictive import student, student_offline
from .quantile import Accusations, accuse, quantile
from .records import distribution, exposed, memorisation, models_needed
from .registry import ATTACKS, Attack, References, attack, fitting, named
from .relative import rmia, rmia_offline
from .sample_size import outsiders_needed
from .shadow import shadow
from .snapshots import snapshots, with_snapshots
from .targets import joined, known_split, leave_one_out
from .threshold import entropy, loss_threshold, modified_entropy, modified_entropy_per_class, population
from .white_box import gradient_norm, learned_black_box, white_box_gradients, white_box_outputs

__all__ = [
    "ATTACKS",
    "Accusations",
    "Attack",
    "Copies",
    "Exposure",
    "GroupRisk",
    "References",
    "accuse",
    "attack",
    "blind_baseline",
    "calibrated",
    "calibrated_online",
    "combined",
    "disparity",
    "distribution",
    "entropy",
    "exposed",
    "fitting",
    "gradient_norm",
    "joined",
    "known_split",
    "label",
    "label_calibrated",
    "leaking",
    "learned_black_box",
    "leave_one_out",
    "lira",
    "lira_offline",
    "loss_threshold",
    "measure",
    "memorisation",
    "models_needed",
    "modified_entropy",
    "modified_entropy_per_class",
    "named",
    "natural",
    "near_duplicates",
    "null",
    "outsiders_needed",
    "planted_leak",
    "population",
    "quantile",
    "reference",
    "rmia",
    "rmia_offline",
    "shadow",
    "snapshots",
    "student",
    "student_offline",
    "white_box_gradients",
    "white_box_outputs",
    "with_snapshots",
]
