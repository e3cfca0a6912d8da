"""Evidence to one page: verdict first, both bounds, what was tested and what was not. Reads Evidence alone."""

from .metrics import metrics
from .page import Page, report
from .pdf import print_pdf
from .tracking import MLflow, TensorBoard

__all__ = ["MLflow", "Page", "TensorBoard", "metrics", "print_pdf", "report"]
