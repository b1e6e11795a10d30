"""timm's models: the smallest of each family, on the smallest image that it takes."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.table import Built, add, image, library

FIXED = {  # families whose weights depend on the size of the image: it is an argument of theirs
    "mixer_s32_224": 64,
    "resmlp_12_224": 64,
    "gmlp_ti16_224": 64,
    "cait_xxs24_224": 64,
    "xcit_nano_12_p16_224": 64,
    "coat_tiny": 64,
    "vit_tiny_patch16_224": 64,
    "deit_tiny_distilled_patch16_224": 64,
    "beit_base_patch16_224": 64,
    "beitv2_base_patch16_224": 64,
    "eva02_tiny_patch14_224": 56,
    "swin_tiny_patch4_window7_224": 224,
    "swinv2_tiny_window8_256": 256,
    "levit_128s": 224,
    "crossvit_tiny_240": 240,
    "visformer_tiny": 224,
    "tnt_s_legacy_patch16_224": 64,
    "convit_tiny": 64,
    "pit_ti_224": 224,
    "twins_svt_small": 224,
    "sequencer2d_s": 224,
    "volo_d1_224": 224,
    "vit_relpos_small_patch16_224": 64,
    "gcvit_xxtiny": 224,
    "mvitv2_tiny": 224,
    "davit_tiny": 64,
    "hiera_tiny_224": 224,
    "efficientformer_l1": 224,
    "maxxvit_rmlp_nano_rw_256": 256,
}
FREE = {
    "poolformer_s12": 64,
    "nfnet_f0": 64,
    "dm_nfnet_f0": 64,
    "ghostnet_100": 64,
    "hrnet_w18_small": 64,
    "dla34": 64,
    "res2net50_26w_4s": 64,
    "res2net101_26w_4s": 64,
    "edgenext_xx_small": 64,
    "fastvit_t8": 64,
    "repvgg_a0": 64,
    "tresnet_m": 64,
    "mobilevit_xxs": 64,
    "mobilevitv2_050": 64,
    "convnextv2_atto": 64,
    "convmixer_768_32": 64,
    "resnetv2_50": 64,
    "resnest14d": 64,
    "skresnet18": 64,
    "seresnext26d_32x4d": 64,
    "ecaresnet26t": 64,
    "cspresnet50": 64,
    "cspdarknet53": 64,
    "darknet53": 64,
    "vovnet39a": 64,
    "ese_vovnet19b_dw": 64,
    "rexnet_100": 64,
    "lcnet_050": 64,
    "tinynet_e": 64,
    "hardcorenas_a": 64,
    "mixnet_s": 64,
    "selecsls42b": 64,
    "dpn48b": 64,
    "xception41": 64,
    "inception_resnet_v2": 96,
    "nasnetalarge": 96,
    "bat_resnext26ts": 64,
    "halonet26t": 256,
    "lambda_resnet26t": 256,
    "botnet26t_256": 256,
    "gernet_s": 64,
    "pvt_v2_b0": 64,
    "caformer_s18": 64,
    "efficientvit_b0": 64,
    "efficientvit_m0": 224,
    "repvit_m0_9": 64,
    "mobileone_s0": 64,
    "inception_next_atto": 64,
    "starnet_s1": 64,
    "focalnet_tiny_srf": 64,
    "mambaout_femto": 64,
    "efficientformerv2_s0": 224,
    "hgnet_tiny": 64,
    "coatnet_nano_rw_224": 224,
    "nextvit_small": 64,
    "rdnet_tiny": 64,
    "mobilenetv4_conv_small": 64,
    "mobilenetv4_hybrid_medium": 64,
    "shvit_s1": 64,
    "swiftformer_xs": 64,
    "tiny_vit_5m_224": 224,
    "vit_small_patch14_dinov2": 518,
    "naflexvit_base_patch16_gap": 64,
}
TOO_LONG = {
    "inception_resnet_v2",
    "nasnetalarge",
    "nfnet_f0",
    "res2net101_26w_4s",
    "vit_small_patch14_dinov2",
    "naflexvit_base_patch16_gap",
}


def _timm(name: str, size: int, fixed: bool) -> Built:
    timm = library("timm")

    more: dict[str, Any] = {"img_size": size} if fixed and str(size) not in name and size != 224 else {}
    return Built(timm.create_model(name, pretrained=False, num_classes=10, **more).eval(), (image(size),))


for _name, _size in FIXED.items():
    add("timm", _name, lambda n=_name, s=_size: _timm(n, s, True))  # type: ignore[misc]
for _name, _size in FREE.items():
    if _name not in TOO_LONG:
        add("timm", _name, lambda n=_name, s=_size: _timm(n, s, False))  # type: ignore[misc]
