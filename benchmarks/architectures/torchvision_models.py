"""torchvision's models, on small images."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.table import Built, add, image, library

CLASSIFIERS = {
    "alexnet": 96,
    "vgg11": 64,
    "vgg16_bn": 64,
    "resnet18": 64,
    "resnet50": 64,
    "wide_resnet50_2": 64,
    "resnext50_32x4d": 64,
    "densenet121": 64,
    "googlenet": 96,
    "inception_v3": 128,
    "squeezenet1_0": 64,
    "squeezenet1_1": 64,
    "mobilenet_v2": 64,
    "mobilenet_v3_small": 64,
    "mobilenet_v3_large": 64,
    "mnasnet0_5": 64,
    "shufflenet_v2_x0_5": 64,
    "efficientnet_b0": 64,
    "efficientnet_v2_s": 64,
    "regnet_y_400mf": 64,
    "regnet_x_400mf": 64,
    "convnext_tiny": 64,
    "swin_t": 64,
    "swin_v2_t": 64,
    "maxvit_t": 224,
}
SEGMENTERS = ("fcn_resnet50", "deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")
VIDEOS = {"r3d_18": (4, 32), "r2plus1d_18": (4, 32), "mc3_18": (4, 32), "s3d": (14, 64), "mvit_v2_s": (16, 224), "swin3d_t": (4, 32)}


def _classifier(name: str, size: int) -> Built:
    torchvision = library("torchvision")

    more: dict[str, Any] = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return Built(getattr(torchvision.models, name)(weights=None, num_classes=10, **more).eval(), (image(size),))


def _vit() -> Built:
    VisionTransformer = library("torchvision").models.VisionTransformer

    net = VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128, num_classes=10)
    return Built(net.eval(), (image(32),))


def _segmenter(name: str) -> Built:
    torchvision = library("torchvision")

    made = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=5)
    return Built(made.eval(), (image(64),))


def _video(name: str, frames: int, size: int) -> Built:
    import torch

    torchvision = library("torchvision")

    return Built(getattr(torchvision.models.video, name)(weights=None, num_classes=5).eval(), (torch.randn(1, 3, frames, size, size),))


def _raft() -> Built:
    torchvision = library("torchvision")

    return Built(torchvision.models.optical_flow.raft_small(weights=None).eval(), (image(128), image(128)), {"num_flow_updates": 2})


for _name, _size in CLASSIFIERS.items():
    add("torchvision", _name, lambda n=_name, s=_size: _classifier(n, s))  # type: ignore[misc]
for _name in SEGMENTERS:
    add("torchvision", _name, lambda n=_name: _segmenter(n))  # type: ignore[misc]
for _name, (_frames, _size) in VIDEOS.items():
    if _name != "mvit_v2_s":
        add("torchvision", _name, lambda n=_name, f=_frames, s=_size: _video(n, f, s))  # type: ignore[misc]
add("torchvision", "vit_b", _vit)
add("torchvision", "raft_small", _raft)
