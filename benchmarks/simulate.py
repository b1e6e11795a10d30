"""Whole models on the models of chips: processor seconds of compiling, of building for the model, and of running; checked against float64.

    python -m benchmarks.simulate [--targets ascend:910b,maca:c500,cuda:h200] [--models bert,resnet50]

ResNet-50 of 32 x 32 images and BERT of two layers with 128 tokens, both in half precision. Seconds are of all processes together
(resource usage), so that a loaded machine tells the same; under 360 they are 3 minutes of two cores.
"""

from __future__ import annotations

import argparse
import resource
from typing import Any

import autocomp
from autocomp.simulate.program import simulated

LIMIT = 360.0  # processor seconds: 3 minutes of two cores


def bert(target: str) -> Any:
    """Two layers of BERT-base, 128 tokens, half precision."""
    from examples.models import bert as model

    return autocomp.optimize(model(2, dtype="f16"), target=target)


def resnet50(target: str) -> Any:
    """ResNet-50 of one image of 32 x 32, half precision."""
    import torch

    from benchmarks.gpu_models import resnet50 as model

    torch.manual_seed(0)
    return autocomp.optimize(model(torch).eval().half(), example_inputs=(torch.randn(1, 3, 32, 32).half(),), target=target)


MODELS = {"bert": bert, "resnet50": resnet50}


def used() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in both)


def measured(model: str, target: str) -> tuple[float, float, float, float]:
    """Processor seconds of compiling, of making the model and of a run beside the float64 reference; the worst error by its tolerance."""
    begun = used()
    program = MODELS[model](target)
    compiled = used()
    with simulated(program):
        built = used()
        result = program.verify()
    return compiled - begun, built - compiled, used() - built, result.worst / result.tolerance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default="ascend:910b,maca:c500,cuda:h200")
    parser.add_argument("--models", default="bert,resnet50")
    args = parser.parse_args()
    print("| model | target | compile s | build s | run and check s | all | error of tolerance |\n|---|---|---|---|---|---|---|")
    for model in args.models.split(","):
        for target in args.targets.split(","):
            compile_, build, run, error = measured(model, target)
            total = f"{compile_ + build + run:.1f} of {LIMIT:.0f}"
            print(f"| {model} | {target} | {compile_:.1f} | {build:.1f} | {run:.1f} | {total} | {error:.2f} |", flush=True)


if __name__ == "__main__":
    main()
