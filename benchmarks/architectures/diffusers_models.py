"""What denoises, decodes and encodes in diffusers' pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.architectures.table import Built, add, library

CROSS = {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 4}


def _diffusers(name: str, build: Callable[[Any, Any], Built]) -> None:
    def made() -> Built:
        diffusers = library("diffusers")
        import torch

        built = build(torch, diffusers)
        return Built(built.module.eval(), built.args, {**built.kwargs, "return_dict": False})

    add("diffusers", name, made)


def _unet2d(torch: Any, d: Any) -> Built:
    net = d.UNet2DModel(
        sample_size=16,
        **CROSS,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
    )
    return Built(net, (torch.randn(1, 3, 16, 16), torch.tensor([7])))


def _unet2d_condition(torch: Any, d: Any) -> Built:
    net = d.UNet2DConditionModel(
        sample_size=16,
        **CROSS,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        cross_attention_dim=16,
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        attention_head_dim=8,
    )
    return Built(net, (torch.randn(1, 4, 16, 16), torch.tensor([7]), torch.randn(1, 5, 16)))


def _vae(torch: Any, d: Any) -> Built:
    net = d.AutoencoderKL(
        **CROSS, down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4
    )
    return Built(net, (torch.randn(1, 3, 16, 16),))


def _vq(torch: Any, d: Any) -> Built:
    net = d.VQModel(
        **CROSS,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        num_vq_embeddings=16,
    )
    return Built(net, (torch.randn(1, 3, 16, 16),))


def _tiny_vae(torch: Any, d: Any) -> Built:
    net = d.AutoencoderTiny(
        encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1)
    )
    return Built(net, (torch.randn(1, 3, 16, 16),))


def _dit(torch: Any, d: Any) -> Built:
    net = d.DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, num_layers=2, sample_size=8, in_channels=4, norm_num_groups=4
    )
    return Built(net, (torch.randn(1, 4, 8, 8),), {"timestep": torch.tensor([7]), "class_labels": torch.tensor([3])})


def _sd3(torch: Any, d: Any) -> Built:
    net = d.SD3Transformer2DModel(
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=16,
        caption_projection_dim=16,
        pooled_projection_dim=16,
        out_channels=4,
        pos_embed_max_size=8,
    )
    return Built(net, (torch.randn(1, 4, 8, 8), torch.randn(1, 5, 16), torch.randn(1, 16), torch.tensor([7])))


def _flux(torch: Any, d: Any) -> Built:
    net = d.FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=16,
        pooled_projection_dim=16,
        axes_dims_rope=(4, 6, 6),
    )
    places = torch.stack([torch.zeros(16), torch.arange(16) // 4, torch.arange(16) % 4], -1)
    return Built(
        net,
        (),
        {
            "hidden_states": torch.randn(1, 16, 4),
            "encoder_hidden_states": torch.randn(1, 5, 16),
            "txt_ids": torch.zeros(5, 3),
            "pooled_projections": torch.randn(1, 16),
            "timestep": torch.tensor([0.5]),
            "img_ids": places,
        },
    )


def _pixart(torch: Any, d: Any) -> Built:
    net = d.PixArtTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        num_layers=2,
        sample_size=8,
        in_channels=4,
        out_channels=8,
        caption_channels=16,
        cross_attention_dim=16,
        norm_num_groups=4,
        use_additional_conditions=False,
    )
    return Built(net, (torch.randn(1, 4, 8, 8), torch.randn(1, 5, 16), torch.tensor([7])))


def _unet1d(torch: Any, d: Any) -> Built:
    net = d.UNet1DModel(sample_size=64, in_channels=2, out_channels=2, block_out_channels=(8, 8, 16), extra_in_channels=16)
    return Built(net, (torch.randn(1, 2, 64), torch.tensor([7])))


def _unet3d(torch: Any, d: Any) -> Built:
    net = d.UNet3DConditionModel(
        sample_size=16,
        **CROSS,
        down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
        cross_attention_dim=16,
        up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
        attention_head_dim=8,
    )
    return Built(net, (torch.randn(1, 4, 2, 16, 16), torch.tensor([7]), torch.randn(1, 5, 16)))


def _controlnet(torch: Any, d: Any) -> Built:
    net = d.ControlNetModel(
        **CROSS,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=8,
        conditioning_embedding_out_channels=(8, 16),
    )
    return Built(net, (torch.randn(1, 4, 16, 16), torch.tensor([7]), torch.randn(1, 5, 16), torch.randn(1, 3, 32, 32)))


def _prior(torch: Any, d: Any) -> Built:
    net = d.PriorTransformer(
        num_attention_heads=2, attention_head_dim=8, num_layers=2, embedding_dim=16, num_embeddings=5, additional_embeddings=4
    )
    kwargs = {
        "hidden_states": torch.randn(1, 16),
        "timestep": torch.tensor([7]),
        "proj_embedding": torch.randn(1, 16),
        "encoder_hidden_states": torch.randn(1, 5, 16),
    }
    return Built(net, (), kwargs)


def _cogvideox(torch: Any, d: Any) -> Built:
    net = d.CogVideoXTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=16,
        in_channels=4,
        out_channels=4,
        time_embed_dim=16,
        num_layers=1,
        text_embed_dim=16,
        sample_width=8,
        sample_height=8,
        sample_frames=5,
        max_text_seq_length=5,
    )
    return Built(net, (torch.randn(1, 2, 4, 8, 8), torch.randn(1, 5, 16), torch.tensor([7])))


def _stable_cascade(torch: Any, d: Any) -> Built:
    net = d.Kandinsky3UNet(
        in_channels=4,
        time_embedding_dim=16,
        groups=4,
        attention_head_dim=8,
        layers_per_block=1,
        block_out_channels=(16, 32),
        cross_attention_dim=16,
        encoder_hid_dim=16,
    )
    return Built(
        net,
        (torch.randn(1, 4, 16, 16), torch.tensor([7])),
        {"encoder_hidden_states": torch.randn(1, 5, 16), "encoder_attention_mask": torch.ones(1, 5)},
    )


_diffusers("unet2d", _unet2d)
_diffusers("unet2d_condition", _unet2d_condition)
_diffusers("autoencoder_kl", _vae)
_diffusers("vq_model", _vq)
_diffusers("autoencoder_tiny", _tiny_vae)
_diffusers("dit", _dit)
_diffusers("sd3", _sd3)
_diffusers("flux", _flux)
_diffusers("pixart", _pixart)
_diffusers("unet1d", _unet1d)
_diffusers("unet3d_condition", _unet3d)
_diffusers("controlnet", _controlnet)
_diffusers("prior_transformer", _prior)
_diffusers("cogvideox", _cogvideox)
_diffusers("kandinsky3_unet", _stable_cascade)
