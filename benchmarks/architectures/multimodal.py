"""Models of transformers that see: classifiers, detectors, segmenters, and those that read text beside the image."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.table import Built, add, ids, image, library

SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
SEEING: dict[str, tuple[str, dict[str, Any], int]] = {  # name: (configuration, what is not as in SMALL, image size)
    "hf_vit": ("ViTConfig", {}, 32),
    "hf_deit": ("DeiTConfig", {}, 32),
    "hf_beit": ("BeitConfig", {"use_relative_position_bias": True}, 32),
    "data2vec_vision": ("Data2VecVisionConfig", {}, 32),
    "hf_swin": ("SwinConfig", {"patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}, 32),
    "hf_swinv2": ("Swinv2Config", {"patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}, 32),
    "hf_convnext": ("ConvNextConfig", {"patch_size": 4, "hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 2, 1]}, 64),
    "hf_convnextv2": ("ConvNextV2Config", {"patch_size": 4, "hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 2, 1]}, 64),
    "hf_resnet": ("ResNetConfig", {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [2, 2]}, 64),
    "hf_regnet": ("RegNetConfig", {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [2, 2], "groups_width": 8}, 64),
    "hf_dinov2": ("Dinov2Config", {}, 32),
    "hf_dinov3": ("DINOv3ViTConfig", {}, 32),
    "dinov2_registers": ("Dinov2WithRegistersConfig", {}, 32),
    "hf_mobilevit": (
        "MobileViTConfig",
        {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 64], "patch_size": 2},
        64,
    ),
    "hf_mobilenet_v1": ("MobileNetV1Config", {"depth_multiplier": 0.25}, 64),
    "hf_levit": (
        "LevitConfig",
        {
            "patch_size": 16,
            "hidden_sizes": [16, 32, 48],
            "num_attention_heads": [2, 4, 6],
            "depths": [1, 1, 1],
            "key_dim": [8, 8, 8],
            "image_size": 128,
        },
        128,
    ),
    "hf_cvt": ("CvtConfig", {"embed_dim": [8, 16, 32], "num_heads": [1, 2, 4], "depth": [1, 1, 2]}, 64),
    "hf_poolformer": ("PoolFormerConfig", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}, 64),
    "hf_pvt": (
        "PvtConfig",
        {
            "hidden_sizes": [8, 16, 24, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 3, 4],
            "patch_size": [4, 2, 2, 2],
            "image_size": 64,
        },
        64,
    ),
    "hf_focalnet": (
        "FocalNetConfig",
        {"patch_size": 4, "embed_dim": 16, "depths": [1, 1], "hidden_sizes": [16, 32], "focal_levels": [2, 2], "focal_windows": [3, 3]},
        32,
    ),
    "vit_mae": (
        "ViTMAEConfig",
        {"decoder_hidden_size": 16, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2, "decoder_intermediate_size": 32},
        32,
    ),
    "vit_msn": ("ViTMSNConfig", {}, 32),
    "hf_bit": ("BitConfig", {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [1, 1]}, 64),
    "hf_efficientnet": (
        "EfficientNetConfig",
        {"width_coefficient": 0.25, "depth_coefficient": 0.2, "image_size": 64, "hidden_dim": 320},
        64,
    ),
    "hiera": ("HieraConfig", {"embed_dim": 8, "image_size": [64, 64], "depths": [1, 1, 1, 1], "num_heads": [1, 1, 2, 4]}, 64),
    "ijepa": ("IJepaConfig", {}, 32),
    "siglip_vision": ("SiglipVisionConfig", {}, 32),
    "hf_dinov3_convnext": ("DINOv3ConvNextConfig", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}, 64),
    "hf_mobilenet_v2": ("MobileNetV2Config", {"depth_multiplier": 0.35}, 64),
    "hf_mobilevitv2": ("MobileViTV2Config", {"width_multiplier": 0.5, "patch_size": 2}, 64),
    "hf_pvt_v2": (
        "PvtV2Config",
        {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 3, 4], "patch_size": None},
        64,
    ),
    "hf_swiftformer": ("SwiftFormerConfig", {"embed_dims": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}, 64),
    "textnet": (
        "TextNetConfig",
        {
            "hidden_sizes": [8, 8, 16, 16, 32],
            "conv_layer_kernel_sizes": [[[3, 3]], [[3, 1]], [[1, 3]], [[3, 3]]],
            "conv_layer_strides": [[2], [2], [2], [2]],
            "stem_out_channels": 8,
        },
        64,
    ),
    "donut_swin": (
        "DonutSwinConfig",
        {"image_size": [32, 32], "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
        32,
    ),
    "hf_hgnet_v2": ("HGNetV2Config", {"depths": [1, 1, 1, 1]}, 64),
    "vitdet": ("VitDetConfig", {"window_size": 2, "window_block_indices": [0], "use_relative_position_embeddings": True}, 32),
    "clip_vision": ("CLIPVisionConfig", {"projection_dim": 16}, 32),
    "aimv2_vision": ("Aimv2VisionConfig", {}, 32),
    "mlcd_vision": ("MLCDVisionConfig", {}, 32),
    "pixtral_vision": ("PixtralVisionConfig", {}, 32),
    "radio": ("RadioConfig", {}, 32),
    "pixio": ("PixioConfig", {}, 32),
}
TOWER: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
READING: dict[str, Any] = {
    **TOWER,
    "vocab_size": 100,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LOOKING: dict[str, Any] = {**TOWER, "image_size": 32, "patch_size": 8}


def _seeing(config: str, over: dict[str, Any], size: int) -> Built:
    transformers = library("transformers")

    made = getattr(transformers, config)(**{**SMALL, **over})
    return Built(transformers.AutoModel.from_config(made).eval(), (image(size),))


def _two_towers(name: str) -> Built:
    transformers = library("transformers")

    more = {"projection_dim": 16} if name in ("CLIP", "GroupViT", "AltCLIP", "ChineseCLIP") else {}
    made = getattr(transformers, f"{name}Config")(text_config={**READING, **more}, vision_config={**LOOKING, **more}, **more)
    return Built(getattr(transformers, f"{name}Model")(made).eval(), (), {"input_ids": ids(8), "pixel_values": image(32, batch=2)})


def _clipseg() -> Built:
    transformers = library("transformers")

    made = transformers.CLIPSegConfig(text_config=READING, vision_config=LOOKING, projection_dim=16, extract_layers=[0, 1], reduce_dim=8)
    net = transformers.CLIPSegForImageSegmentation(made).eval()
    return Built(net, (), {"input_ids": ids(8, 1), "pixel_values": image(32)})


def _detr(name: str) -> Built:
    transformers = library("transformers")

    backbone = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], out_features=["stage2"])
    made = getattr(transformers, f"{name}Config")(
        use_timm_backbone=False,
        backbone=None,
        use_pretrained_backbone=False,
        backbone_config=backbone,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        num_queries=5,
        num_labels=4,
        dilation=False,
    )
    return Built(getattr(transformers, f"{name}ForObjectDetection")(made).eval(), (image(64),))


def _yolos() -> Built:
    transformers = library("transformers")

    made = transformers.YolosConfig(**{**SMALL, "image_size": [32, 32]}, num_detection_tokens=5)
    return Built(transformers.YolosForObjectDetection(made).eval(), (image(32),))


def _rt_detr() -> Built:
    transformers = library("transformers")

    backbone = transformers.RTDetrResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 32, 48, 64],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    made = transformers.RTDetrConfig(
        backbone_config=backbone,
        backbone=None,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        encoder_hidden_dim=32,
        encoder_in_channels=[32, 48, 64],
        encoder_ffn_dim=64,
        encoder_attention_heads=4,
        d_model=32,
        decoder_in_channels=[32, 32, 32],
        decoder_ffn_dim=64,
        decoder_layers=1,
        decoder_attention_heads=4,
        num_queries=6,
        num_labels=4,
        feat_strides=[8, 16, 32],
    )
    return Built(transformers.RTDetrForObjectDetection(made).eval(), (image(64),))


def _segformer() -> Built:
    transformers = library("transformers")

    made = transformers.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16, num_labels=4
    )
    return Built(transformers.SegformerForSemanticSegmentation(made).eval(), (image(64),))


def _dpt() -> Built:
    transformers = library("transformers")

    made = transformers.DPTConfig(
        **{**SMALL, "num_hidden_layers": 4},
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=8,
        is_hybrid=False,
    )
    return Built(transformers.DPTForDepthEstimation(made).eval(), (image(32),))


def _glpn() -> Built:
    transformers = library("transformers")

    made = transformers.GLPNConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16
    )
    return Built(transformers.GLPNForDepthEstimation(made).eval(), (image(64),))


def _sam() -> Built:
    import torch

    transformers = library("transformers")

    made = transformers.SamConfig(
        vision_config={
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 64,
            "patch_size": 8,
            "window_size": 4,
            "global_attn_indexes": [1],
            "output_channels": 16,
            "mlp_dim": 64,
            "num_pos_feats": 8,
        },
        prompt_encoder_config={"hidden_size": 16, "image_size": 64, "patch_size": 8, "image_embedding_size": 8},
        mask_decoder_config={"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "iou_head_hidden_dim": 16},
    )
    net = transformers.SamModel(made).eval()
    return Built(
        net, (), {"pixel_values": image(64), "input_points": torch.rand(1, 1, 2, 2) * 64, "input_labels": torch.ones(1, 1, 2).int()}
    )


def _blip() -> Built:
    transformers = library("transformers")

    made = transformers.BlipConfig(
        text_config={**READING, "projection_dim": 16, "encoder_hidden_size": 32}, vision_config=LOOKING, projection_dim=16
    )
    return Built(transformers.BlipModel(made).eval(), (), {"input_ids": ids(8), "pixel_values": image(32, batch=2)})


def _vilt() -> Built:
    import torch

    transformers = library("transformers")

    made = transformers.ViltConfig(**{**SMALL, **READING}, max_image_length=-1)
    net = transformers.ViltModel(made).eval()
    return Built(net, (), {"input_ids": ids(8, 1), "pixel_values": image(32), "pixel_mask": torch.ones(1, 32, 32).long()})


def _trocr() -> Built:
    transformers = library("transformers")

    made = transformers.TrOCRConfig(
        d_model=32,
        decoder_layers=2,
        decoder_attention_heads=4,
        decoder_ffn_dim=64,
        vocab_size=100,
        use_cache=False,
        max_position_embeddings=32,
        cross_attention_hidden_size=32,
    )
    encoder = transformers.ViTConfig(**SMALL)
    both = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, made)
    both.use_cache = False
    net = transformers.VisionEncoderDecoderModel(both).eval()
    return Built(net, (), {"pixel_values": image(32), "decoder_input_ids": ids(5, 1), "use_cache": False})


def _llava() -> Built:
    import torch

    transformers = library("transformers")

    text = transformers.LlamaConfig(**READING, num_key_value_heads=2, use_cache=False)
    made = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**LOOKING, projection_dim=16),
        text_config=text,
        image_token_id=99,
        vision_feature_select_strategy="default",
        vision_feature_layer=-1,
    )
    tokens = torch.cat([torch.full((1, 16), 99), ids(6, 1, 99)], 1)
    return Built(
        transformers.LlavaForConditionalGeneration(made).eval(), (), {"input_ids": tokens, "pixel_values": image(32), "use_cache": False}
    )


def _upernet() -> Built:
    transformers = library("transformers")

    backbone = transformers.ConvNextConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], out_features=["stage1", "stage2", "stage3", "stage4"]
    )
    made = transformers.UperNetConfig(
        backbone_config=backbone, hidden_size=16, pool_scales=[1, 2], auxiliary_channels=8, auxiliary_in_channels=24, num_labels=4
    )
    return Built(transformers.UperNetForSemanticSegmentation(made).eval(), (image(64),))


def _vitpose() -> Built:
    transformers = library("transformers")

    backbone = transformers.VitPoseBackboneConfig(
        image_size=[32, 32], patch_size=[8, 8], hidden_size=32, num_hidden_layers=2, num_attention_heads=4, out_indices=[2]
    )
    return Built(
        transformers.VitPoseForPoseEstimation(transformers.VitPoseConfig(backbone_config=backbone, num_labels=4)).eval(), (image(32),)
    )


def _superres() -> Built:
    transformers = library("transformers")

    made = transformers.Swin2SRConfig(image_size=16, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4, num_channels=3)
    return Built(transformers.Swin2SRForImageSuperResolution(made).eval(), (image(16),))


def _perceiver() -> Built:
    import torch

    transformers = library("transformers")

    made = transformers.PerceiverConfig(
        num_latents=8,
        d_latents=16,
        d_model=16,
        num_blocks=1,
        num_self_attends_per_block=2,
        num_self_attention_heads=2,
        num_cross_attention_heads=2,
    )
    return Built(transformers.PerceiverModel(made).eval(), (torch.randn(1, 12, 16),))


def _videomae() -> Built:
    import torch

    transformers = library("transformers")

    made = transformers.VideoMAEConfig(**SMALL, num_frames=4)
    return Built(transformers.VideoMAEModel(made).eval(), (torch.randn(1, 4, 3, 32, 32),))


for _name, (_config, _over, _size) in SEEING.items():
    add("transformers", _name, lambda c=_config, o=_over, s=_size: _seeing(c, o, s))  # type: ignore[misc]
for _name in ("CLIP", "Siglip", "AltCLIP", "ChineseCLIP"):
    add("transformers", _name.lower(), lambda n=_name: _two_towers(n))  # type: ignore[misc]
add("transformers", "clipseg", _clipseg)
for _name in ("Detr", "ConditionalDetr", "TableTransformer"):
    add("transformers", _name.lower(), lambda n=_name: _detr(n))  # type: ignore[misc]
for _build in (
    _yolos,
    _rt_detr,
    _segformer,
    _dpt,
    _glpn,
    _sam,
    _blip,
    _vilt,
    _trocr,
    _llava,
    _vitpose,
    _superres,
    _perceiver,
    _videomae,
    _upernet,
):
    add("transformers", _build.__name__[1:], _build)
