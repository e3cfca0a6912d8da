# %% Page metrics
import tacit
from tacit.reports import metrics

evidence = tacit.audit_mechanism(lambda data, rng: len(data) + rng.laplace(), ([1], [1, 1]), claim=(1.0, 0.0), runs=400, rng=0)
page = tacit.report(evidence, "report.html")
print(page.path, page.bytes, page.verdict)
print(metrics(evidence))

# %% MLflow TensorBoard print_pdf
from tacit.reports import MLflow, TensorBoard, print_pdf

print(MLflow(), TensorBoard(folder="runs"))  # give one to fit(..., progress=), then .log(evidence)
print(print_pdf.__name__)  # print_pdf("report.html", "report.pdf") needs an installed Chromium, Chrome or Edge
