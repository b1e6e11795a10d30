"""The nine "light" models of the onnx package through `autocomp.onnx_backend`: as shipped, and with seeded random weights.

    python -m benchmarks.onnx_light [--only resnet50] [--seed 1] [--json out.json]

Shipped: the package's own input and expected output, its tolerance (rtol 1e-3, atol 1e-7). Random: He-initialised weights and
a standard normal input, against onnxruntime with the same weights; the figure is the largest error over the largest output.
Exit 1 if a model fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from models import light_model, with_random_weights

LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
BOUND = 1e-4  # of random weights' error relative to the largest output: f32 sums of up to 25,088 terms


def shipped(name: str) -> dict[str, Any]:
    """Largest difference from the output that the package ships. Raises AssertionError beyond the suite's tolerance."""
    import onnx
    from onnx.backend.test.runner import Runner

    from autocomp.onnx_backend import AutocompBackend

    path = light_model(f"light_{name}")
    model = onnx.load(path)
    initial = {t.name for t in model.graph.initializer}
    given = next(v for v in model.graph.input if v.name not in initial)
    x = Runner.generate_dummy_data(given, seed=0, name=name, random=False)
    expected = onnx.numpy_helper.to_array(onnx.load_tensor(str(path.with_name(f"light_{name}_output_0.pb"))))
    start = perf_counter()
    rep = AutocompBackend.prepare(model)
    got = rep.run([x])
    Runner.assert_similar_outputs([expected], list(got), 1e-3, 1e-7)
    error = float(np.abs(got[0] - expected).max() / np.abs(expected).max())
    return {"error": error, "seconds": perf_counter() - start, "opaque": sorted(rep.opaque)}


def random(name: str, seed: int) -> dict[str, Any]:
    """Error against onnxruntime, relative to the largest output."""
    import onnx
    import onnxruntime as ort

    from autocomp.onnx_backend import AutocompBackend

    raw = with_random_weights(light_model(f"light_{name}"), seed)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(seed).standard_normal(session.get_inputs()[0].shape).astype(np.float32)
    expected = session.run(None, {session.get_inputs()[0].name: x})[0]
    start = perf_counter()
    rep = AutocompBackend.prepare(onnx.load_model_from_string(raw))
    got = rep.run([x])[0]
    error = float(np.abs(got - expected).max() / np.abs(expected).max())
    if not error <= BOUND:
        raise AssertionError(f"differs from onnxruntime by {error:.1e} of the largest output, allowed {BOUND:.0e}")
    kernels = sum(len(p.calls.calls) for p in rep.programs.values())
    return {"error": error, "seconds": perf_counter() - start, "kernels": kernels, "opaque": sorted(rep.opaque)}


def attempt(check: Any, *args: Any) -> dict[str, Any]:
    """What a check gives, or why it failed."""
    from autocomp.errors import AutocompError

    try:
        return {"ok": True, **check(*args)}
    except (AssertionError, AutocompError) as e:
        return {"ok": False, "reason": " ".join(str(e).split())[:300]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write the rows here")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows: list[dict[str, Any]] = []
    print(f"{'model':16}{'as shipped':>14}{'random weights':>16}{'kernels':>9}{'seconds':>9}")
    for name in (n for n in LIGHT if args.only in n):
        a, b = attempt(shipped, name), attempt(random, name, args.seed)
        rows.append({"model": name, "shipped": a, "random": b})
        cell = lambda r: f"{r['error']:.1e}" if r["ok"] else "FAILED"
        seconds = a.get("seconds", 0.0) + b.get("seconds", 0.0)
        print(f"{name:16}{cell(a):>14}{cell(b):>16}{b.get('kernels', ''):>9}{seconds:>9.1f}", flush=True)
        for r in (a, b):
            if not r["ok"]:
                print("    " + r["reason"])
            elif r["opaque"]:
                print("    opaque: " + ", ".join(r["opaque"]))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    good = sum(r[k]["ok"] for r in rows for k in ("shipped", "random"))
    print(f"{good} of {2 * len(rows)} pass")
    return 0 if good == 2 * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
